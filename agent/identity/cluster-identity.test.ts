// The identity of a cluster in several agents against a small fake of the Kubernetes API: what is reported, and whether telemetry can be
// signed, while a session fails. Crashes between steps, and the real API server: test/faults/cluster-*.test.ts.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { parseSecret, renderSecret, type SecretContent } from "../credentials/cluster-secret.ts";
import type { Secret } from "../kubernetes/transport.ts";
import { KubernetesApi } from "../kubernetes/api.ts";
import type { RegisterClusterRequest } from "../../common/protocol/enrolment.ts";
import { BackendError } from "../upstream/backend-api.ts";
import { enrolmentToken } from "../enrolment-token.ts";
import { type ClusterIdentity, type ClusterIdentityOptions, startClusterIdentity } from "./cluster-identity.ts";

const SECRET = "/api/v1/namespaces/telemetry/secrets/credentials";
const LEASE = "/apis/coordination.k8s.io/v1/namespaces/telemetry/leases/agent";
const EMPTY: SecretContent = { pendingEnrolments: {}, rotateRequested: false };
const KEY = { id: "c", apiKey: "ak_1", keyCreatedAt: "2026-01-01T00:00:00Z" };
const TIMING = {
  lease: { durationMs: 1_000, renewDeadlineMs: 800, renewEveryMs: 200 },
  follow: { pollEveryMs: 300, watchForMs: 60_000, watchLagMs: 300, backoffMs: [20, 40] as const },
  spreadMs: 20,
  backoffMs: [20, 100] as const,
  tokenEveryMs: 50,
};

let folder: string;
let server: Server;
let api: KubernetesApi;
let objects: Map<string, Secret>;
let watches: ServerResponse[];
let version: number;
let agents: ClusterIdentity[];
/** What the backend was asked to register, and what it answers. */
let registrations: RegisterClusterRequest[];
/** The token and the Idempotency-Key of each. */
let presented: [string, string][];
let backend: { rotate: () => BackendError | undefined; register: (body: RegisterClusterRequest) => BackendError | undefined };

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "atherops-identity-"));
  writeFileSync(join(folder, "token"), "token");
  [objects, watches, agents, registrations, presented, version] = [new Map(), [], [], [], [], 1];
  backend = { rotate: () => undefined, register: () => undefined };
  put("/api/v1/namespaces/kube-system", { metadata: { uid: "uid" } });
  put(LEASE, { metadata: { name: "agent" } });
  server = createServer((request, response) => void answer(request.method ?? "", request.url ?? "", text(request), response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  api = new KubernetesApi({ server: url, caFile: join(folder, "token"), tokenFile: join(folder, "token") });
});

afterEach(async () => {
  await Promise.all(agents.map((agent) => agent[Symbol.asyncDispose]()));
  await api[Symbol.asyncDispose]();
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true });
});

function put(path: string, object: Secret): Secret {
  const stored = { ...object, metadata: { ...object.metadata, resourceVersion: String(version++) } };
  objects.set(path, stored);
  if (path === SECRET) for (const watch of watches) watch.write(`${JSON.stringify({ type: "MODIFIED", object: stored })}\n`);
  return stored;
}

async function answer(method: string, url: string, body: Promise<string>, response: ServerResponse): Promise<void> {
  const json = (status: number, object: unknown): void => void response.writeHead(status).end(JSON.stringify(object));
  if (url.includes("watch=true")) {
    watches.push(response.writeHead(200));
    return void response.write(`${JSON.stringify({ type: "ADDED", object: objects.get(SECRET) })}\n`);
  }
  if (url.endsWith("selfsubjectaccessreviews")) return json(201, { status: { allowed: true } });
  const found = objects.get(url);
  if (method === "POST") {
    const created = JSON.parse(await body) as Secret;
    const path = `${url}/${created.metadata?.name}`;
    return objects.has(path) ? json(409, { reason: "AlreadyExists" }) : json(201, put(path, created));
  }
  if (!found) return json(404, { reason: "NotFound" });
  if (method === "GET") return json(200, found);
  const given = JSON.parse(await body) as Secret;
  if (given.metadata?.resourceVersion !== objects.get(url)?.metadata?.resourceVersion) return json(409, { reason: "Conflict" });
  return json(200, put(url, given));
}

function secretIs(content: SecretContent): void {
  put(SECRET, renderSecret(objects.get(SECRET) ?? { metadata: { name: "credentials" } }, content));
}

const secret = () => parseSecret(objects.get(SECRET) as Secret);

const BACKEND: ClusterIdentityOptions["backend"] = {
  heartbeat: () => Promise.resolve({ body: undefined, keyAgeDays: 0, org: "org" }),
  rotateKey: () => {
    const error = backend.rotate();
    const ends = new Date(Date.now() + 300_000).toISOString();
    const fresh = { api_key: `ak_${randomUUID()}`, key_created_at: new Date().toISOString(), previous_key_expires_at: ends };
    return error ? Promise.reject(error) : Promise.resolve({ body: fresh, keyAgeDays: 0 });
  },
  registerCluster: (token, key, body) => {
    registrations.push(body);
    presented.push([token, key]);
    const error = backend.register(body);
    const fresh = { cluster_id: "c", api_key: "ak_1", key_created_at: "2026-01-01T00:00:00Z" };
    return error ? Promise.reject(error) : Promise.resolve({ body: fresh, org: "org" });
  },
};

async function start(names: string[], installToken?: string, identityToken?: () => string): Promise<ClusterIdentity[]> {
  for (const name of names) {
    const identity = {
      clusterName: "north",
      podNamespace: "telemetry",
      secretName: "credentials",
      leaseName: "agent",
      keyRotationDays: 30,
    };
    const settings = { ...identity, podUid: name };
    const log = pino({ level: "silent" });
    const parts = { agentVersion: "1.2.3", kubernetes: api, backend: BACKEND, log, timing: TIMING };
    agents.push(await startClusterIdentity({ settings, token: () => enrolmentToken(installToken, identityToken?.()), ...parts }));
  }
  return agents;
}

const refused = (code: string, status: number) => new BackendError(code, `the backend refused: ${code}`, { status });

test("reports a failed rotation as a problem and continues to sign telemetry", async () => {
  backend.rotate = () => refused("internal", 500);
  secretIs({ ...EMPTY, credential: KEY, rotateRequested: true });
  await start(["a", "b"]);
  await expect.poll(() => agents.some((agent) => agent.status().problem?.code === "failing")).toBe(true);
  expect(agents.map((agent) => agent.status().signs)).toEqual([true, true]);
  backend.rotate = () => undefined;
  await vi.waitFor(() => expect(secret().rotateRequested).toBe(false), { timeout: 50_000 });
  await vi.waitFor(() => expect(agents.map((agent) => agent.status().problem)).toEqual([undefined, undefined]), { timeout: 50_000 });
});

test("a token of the service account that cannot be read is no outage of the Kubernetes API", async () => {
  rmSync(join(folder, "token"));
  symlinkSync("token", join(folder, "token"));
  const [agent] = await start(["a"]);
  expect(agent?.status().problem?.message).toMatch(/^ELOOP: .*token'$/);
});

test("reports a cluster that another installation owns, and enrols it with the same request once that is gone", async () => {
  backend.register = () => refused("cluster_in_use", 409);
  secretIs(EMPTY);
  const [agent] = await start(["a"], "it_1");
  await expect.poll(() => agent?.status()).toMatchObject({ signs: false, problem: { code: "other_installation" } });
  await vi.waitFor(() => expect(registrations.length).toBeGreaterThan(2), { timeout: 50_000 });
  backend.register = () => undefined;
  await vi.waitFor(() => expect(agent?.status()).toMatchObject({ id: "c", signs: true, problem: undefined }), { timeout: 50_000 });
  expect(new Set(registrations.map((body) => JSON.stringify(body)))).toEqual(
    new Set([JSON.stringify({ cluster_name: "north", cluster_uid: "uid", agent_version: "1.2.3", installation: "telemetry/credentials" })]),
  );
  expect(secret()).toMatchObject({ credential: { org: "org" }, pendingEnrolments: {} });
});

test("enrols with the identity token of the moment, with one Idempotency-Key, once the backend trusts its issuer", async () => {
  backend.register = () => refused("invalid_install_token", 401);
  secretIs(EMPTY);
  let issued = 0;
  const [agent] = await start(["a"], undefined, () => `token-${(issued += 1)}`);
  await expect.poll(() => agent?.status()).toMatchObject({ signs: false, problem: { code: "failing" } });
  await vi.waitFor(() => expect(presented.length).toBeGreaterThan(2), { timeout: 50_000 });
  backend.register = () => undefined;
  await vi.waitFor(() => expect(agent?.status()).toMatchObject({ id: "c", signs: true, problem: undefined }), { timeout: 50_000 });
  expect(new Set(presented.map(([token]) => token)).size).toBe(presented.length);
  expect(new Set(presented.map(([, key]) => key)).size).toBe(1);
});

test("creates a missing Secret with an identity token: a new agent enrols, a running one writes its key back", async () => {
  const [first] = await start(["a"], undefined, () => "token");
  await vi.waitFor(() => expect(first?.status()).toMatchObject({ id: "c", signs: true, problem: undefined }), { timeout: 50_000 });
  expect(registrations).toHaveLength(1);
  objects.delete(SECRET);
  for (const watch of watches) watch.write(`${JSON.stringify({ type: "DELETED", object: {} })}\n`);
  await vi.waitFor(() => expect(objects.has(SECRET) && secret().credential).toMatchObject({ apiKey: "ak_1" }), { timeout: 50_000 });
  expect(registrations).toHaveLength(1);
});
