import type { Secret } from "../kubernetes/transport.ts";
import { expect, it } from "vitest";
import { parseSecret, renderSecret, ROTATE_REQUESTED, type SecretContent } from "./cluster-secret.ts";

const SHELL: Secret = {
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name: "s", resourceVersion: "7", annotations: { "helm.sh/resource-policy": "keep" } },
  type: "Opaque",
};
const FULL: SecretContent = {
  credential: { id: "c", apiKey: "ak_ü", keyCreatedAt: "2026-01-01T00:00:00Z", org: "o" },
  usedTokenHash: "ab",
  pendingEnrolments: { cd: { idempotencyKey: "i", body: { cluster_name: "n", cluster_uid: "u", agent_version: "1" } } },
  pendingRotation: { idempotencyKey: "r", keyHash: "ef" },
  rotateRequested: true,
};

it("reads what it wrote", () => {
  const { version, object, ...content } = parseSecret(renderSecret(SHELL, FULL));
  expect(content).toEqual(FULL);
  expect(version).toBe("7");
  expect(object.metadata?.resourceVersion).toBe("7");
});

it("removes stale keys, and keeps keys that are not its own", () => {
  const foreign = { ...SHELL, data: { note: "eA==" }, metadata: { ...SHELL.metadata, labels: { team: "x" } } };
  const emptied = renderSecret(renderSecret(foreign, FULL), { pendingEnrolments: {}, rotateRequested: false });
  expect(emptied).toEqual(foreign);
});

it("keeps the time when a rotation was requested", () => {
  const asked = { ...SHELL, metadata: { ...SHELL.metadata, annotations: { [ROTATE_REQUESTED]: "2026-01-02T00:00:00Z" } } };
  expect(renderSecret(asked, FULL).metadata?.annotations).toEqual({ [ROTATE_REQUESTED]: "2026-01-02T00:00:00Z" });
});

it.for<[string, Record<string, string>]>([
  ["an empty Secret", {}],
  ["a key without its cluster", { "api-key": "ak_1" }],
  ["a cluster with a blank key", { "cluster-id": "c", "api-key": " \n" }],
  ["announcements that are no JSON", { "pending-enrolment": "{", "pending-rotation": "null" }],
  ["announcements without an Idempotency-Key", { "pending-enrolment": '{"ab":"x","cd":null,"ef":{}}', "pending-rotation": "[5]" }],
])("treats %s as a Secret without a key", ([, texts]) => {
  const data = Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString("base64")]));
  const { version: _version, object: _object, ...content } = parseSecret({ ...SHELL, data });
  expect(content).toEqual({ pendingEnrolments: {}, rotateRequested: false });
});
