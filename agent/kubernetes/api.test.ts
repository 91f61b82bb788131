import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { KubernetesApi } from "./api.ts";
import { KubernetesError } from "./transport.ts";

const NEVER = new AbortController().signal;
const SECRET = { namespace: "n", name: "s" };

let folder: string;
let server: Server;
let api: KubernetesApi;
let answer: (request: IncomingMessage, response: ServerResponse) => void;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "kubernetes-"));
  writeFileSync(join(folder, "ca.crt"), "");
  writeFileSync(join(folder, "token"), "token-1\n");
  server = createServer((request, response) => answer(request, response)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  api = new KubernetesApi({ server: url, caFile: join(folder, "ca.crt"), tokenFile: join(folder, "token") }, { timeoutMs: 1_500 });
});

afterEach(async () => {
  await api[Symbol.asyncDispose]();
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true });
});

it("reads the token again when it is rejected", async () => {
  const seen: (string | undefined)[] = [];
  answer = ({ headers }, response) => {
    seen.push(headers.authorization);
    if (headers.authorization === "Bearer token-1") writeFileSync(join(folder, "token"), "token-2");
    response.writeHead(headers.authorization === "Bearer token-2" ? 200 : 401).end("{}");
  };
  expect(await api.readNamespace("x", NEVER)).toEqual({});
  expect(seen).toEqual(["Bearer token-1", "Bearer token-2"]);
});

it("an error contains who rejected what and why, and never the token", async () => {
  answer = (_, response) => response.writeHead(403).end(JSON.stringify({ reason: "Forbidden", message: "pods is forbidden" }));
  const error = await api.podsOfNode("n", 1, NEVER).catch((cause: unknown) => cause);
  expect(error).toBeInstanceOf(KubernetesError);
  expect(error).toMatchObject({ status: 403, reason: "Forbidden", message: "GET /api/v1/pods answered 403: pods is forbidden" });
  expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain("token-1");
});

it("rejects a response that is not the API's", async () => {
  answer = (_, response) => response.writeHead(502).end("<html>");
  await expect(api.readNamespace("x", NEVER)).rejects.toThrow("check that this is the Kubernetes API");
});

it("times out on a silent server, and uses a new connection for the next request", async () => {
  const ports: (number | undefined)[] = [];
  answer = ({ socket }, response) => {
    ports.push(socket.remotePort);
    if (ports.length !== 2) response.end("{}");
  };
  await api.readNamespace("x", NEVER);
  await expect(api.readNamespace("x", NEVER)).rejects.toThrow(/timeout/i);
  await api.readNamespace("x", NEVER);
  expect(ports.slice(0, 2)).not.toContain(ports[2]);
});

it.each<[string, () => Promise<unknown>]>([
  ["call", () => api.readNamespace("x", NEVER)],
  ["watch", () => api.watchSecret(SECRET, { forSeconds: 60, silenceMs: 60_000 }, NEVER).next()],
])("drops all idle connections if a %s finds one of them silent, because they failed together", async (_what, call) => {
  const ports: number[] = [];
  const together: ServerResponse[] = [];
  let frozen: readonly number[] = [];
  answer = ({ socket }, response) => {
    ports.push(socket.remotePort ?? 0);
    if (frozen.includes(socket.remotePort ?? 0)) return;
    together.push(response);
    if (together.length >= 5) for (const each of together) each.end("{}");
  };
  await Promise.all(Array.from({ length: 5 }, () => api.readNamespace("x", NEVER)));
  const kept = ports.slice(0, 5);
  expect(new Set(kept).size).toBe(5);
  await vi.waitFor(
    async () => {
      await api.readNamespace("x", NEVER);
      expect(kept).toContain(ports.at(-1));
    },
    { timeout: 50_000 },
  );
  frozen = [...new Set(ports)];
  await expect(call()).rejects.toThrow(/timeout/i);
  expect(await api.readNamespace("x", NEVER)).toEqual({});
});

it("retries after the API server's Retry-After, and returns 429 if that exceeds the request's timeout", async () => {
  const asked: number[] = [];
  let retryAfter = "1";
  answer = (_, response) => {
    asked.push(performance.now());
    if (asked.length % 2 === 1) response.writeHead(429, { "retry-after": retryAfter }).end(JSON.stringify({ reason: "TooManyRequests" }));
    else response.end("{}");
  };
  expect(await api.readNamespace("x", NEVER)).toEqual({});
  expect(asked[1]! - asked[0]!).toBeGreaterThanOrEqual(1_000);
  // A server whose Retry-After is 0 does not get a thousand requests per second.
  retryAfter = "0";
  expect(await api.readNamespace("x", NEVER)).toEqual({});
  expect(asked[3]! - asked[2]!).toBeGreaterThanOrEqual(1_000);
  retryAfter = "60";
  await expect(api.readNamespace("x", NEVER)).rejects.toMatchObject({ status: 429, reason: "TooManyRequests" });
  expect(asked).toHaveLength(5);
});

it("keeps a watch open through a silence that is longer than a request's timeout", async () => {
  answer = ({ url }, response) => {
    expect(url).toBe("/api/v1/namespaces/n/secrets?fieldSelector=metadata.name%3Ds&timeoutSeconds=60&allowWatchBookmarks=true&watch=true");
    response.writeHead(200).flushHeaders();
    setTimeout(() => response.end(`${JSON.stringify({ type: "ADDED", object: { data: { a: "Yg==" } } })}\n`), 2_000);
  };
  const events = api.watchSecret(SECRET, { forSeconds: 60, silenceMs: 60_000 }, NEVER);
  expect(await events.next()).toMatchObject({ value: { type: "ADDED", object: { data: { a: "Yg==" } } } });
  expect(await events.next()).toMatchObject({ done: true });
});

it("throws the error that a watch event reports", async () => {
  const gone = { type: "ERROR", object: { code: 410, reason: "Expired", message: "too old" } };
  answer = (_, response) => response.end(`${JSON.stringify(gone)}\n`);
  await expect(api.watchSecret(SECRET, { forSeconds: 60, silenceMs: 60_000 }, NEVER).next()).rejects.toMatchObject({
    status: 410,
    message: "too old",
  });
});

it("connects to the API server directly, whatever proxy the environment sets", async () => {
  vi.stubEnv("HTTPS_PROXY", "http://127.0.0.1:9");
  vi.stubEnv("HTTP_PROXY", "http://127.0.0.1:9");
  answer = (_, response) => response.end("{}");
  await expect(api.readNamespace("x", NEVER)).resolves.toEqual({});
  vi.unstubAllEnvs();
});

it("writes back what it read: Lease times to the microsecond, the version, and other keys of a Secret", async () => {
  const metadata = {
    name: "s",
    namespace: "n",
    resourceVersion: "7",
    creationTimestamp: "2026-01-01T00:00:00.000Z",
    annotations: { "helm.sh/resource-policy": "keep" },
    managedFields: [{ manager: "helm", operation: "Apply", fieldsType: "FieldsV1", fieldsV1: { "f:data": {} } }],
  };
  const spec = { holderIdentity: "a", leaseDurationSeconds: 15, renewTime: "2026-01-01T00:00:00.123456Z" };
  const found: Record<string, object> = {
    leases: { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec },
    secrets: { apiVersion: "v1", kind: "Secret", metadata, data: { note: "eA==" }, type: "Opaque" },
  };
  const written: unknown[] = [];
  answer = (request, response) => {
    const object = found[request.url!.split("/").at(-2)!];
    const read = async (): Promise<void> => {
      if (request.method !== "GET") written.push(request.headers["content-type"], await json(request));
      response.end(JSON.stringify(object));
    };
    void read();
  };
  await api.replaceLease(SECRET, await api.readLease(SECRET, NEVER), NEVER);
  await api.replaceSecret(SECRET, await api.readSecret(SECRET, NEVER), NEVER);
  await api.patchSecret(SECRET, { metadata: { annotations: { a: "b" } } }, NEVER);
  expect(written).toEqual([
    "application/json",
    found["leases"],
    "application/json",
    found["secrets"],
    "application/merge-patch+json",
    { metadata: { annotations: { a: "b" } } },
  ]);
});
