import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { KubernetesApi, KubernetesError } from "./api.ts";

const NEVER = new AbortController().signal;

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

it("reads a token again that is no longer accepted", async () => {
  const seen: (string | undefined)[] = [];
  answer = ({ headers }, response) => {
    seen.push(headers.authorization);
    if (headers.authorization === "Bearer token-1") writeFileSync(join(folder, "token"), "token-2");
    response.writeHead(headers.authorization === "Bearer token-2" ? 200 : 401).end("{}");
  };
  expect(await api.get("/x", NEVER)).toEqual({});
  expect(seen).toEqual(["Bearer token-1", "Bearer token-2"]);
});

it("says who refused what and why, and never the token", async () => {
  answer = (_, response) => response.writeHead(403).end(JSON.stringify({ reason: "Forbidden", message: "secrets is forbidden" }));
  const error = await api.get("/api/v1/secrets?x=y", NEVER).catch((cause: unknown) => cause);
  expect(error).toBeInstanceOf(KubernetesError);
  expect(error).toMatchObject({ status: 403, reason: "Forbidden", message: "GET /api/v1/secrets answered 403: secrets is forbidden" });
  expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain("token-1");
});

it("takes an answer that is not the API's for what it is", async () => {
  answer = (_, response) => response.writeHead(502).end("<html>");
  await expect(api.get("/x", NEVER)).rejects.toThrow("is this the Kubernetes API?");
});

it("gives up on a server that is silent, and takes a fresh connection for the next call", async () => {
  const ports: (number | undefined)[] = [];
  answer = ({ socket }, response) => {
    ports.push(socket.remotePort);
    if (ports.length !== 2) response.end("{}");
  };
  await api.get("/x", NEVER);
  await expect(api.get("/x", NEVER)).rejects.toThrow(/timeout/i);
  await api.get("/x", NEVER);
  expect(ports.slice(0, 2)).not.toContain(ports[2]);
});

it.each<[string, () => Promise<unknown>]>([
  ["call", () => api.get("/x", NEVER)],
  ["watch", () => api.watch("/x", {}, 60_000, NEVER).next()],
])("leaves all of its kept connections when a %s finds one of them silent: they have died together", async (_what, call) => {
  const ports: number[] = [];
  const together: ServerResponse[] = [];
  let frozen: readonly number[] = [];
  answer = ({ socket }, response) => {
    ports.push(socket.remotePort ?? 0);
    if (frozen.includes(socket.remotePort ?? 0)) return;
    together.push(response);
    if (together.length >= 5) for (const each of together) each.end("{}");
  };
  await Promise.all(Array.from({ length: 5 }, () => api.get("/x", NEVER)));
  const kept = ports.slice(0, 5);
  expect(new Set(kept).size).toBe(5);
  await vi.waitFor(async () => {
    await api.get("/x", NEVER);
    expect(kept).toContain(ports.at(-1));
  });
  frozen = [...new Set(ports)];
  await expect(call()).rejects.toThrow(/timeout/i);
  expect(await api.get("/x", NEVER)).toEqual({});
});
