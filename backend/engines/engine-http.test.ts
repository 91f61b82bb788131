import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { statusOf } from "./engine-http.ts";

/** Answers by the path: a status, a head whose body never ends, or nothing at all. */
const server: Server = createServer((request, response) => {
  if (request.url === "/nothing") return;
  if (request.url === "/endless") {
    response.writeHead(200).write("x");
    return;
  }
  response.writeHead(request.headers.authorization === "Basic eDp5" ? Number(request.url?.slice(1)) : 401).end();
});
const url = (path: string): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;
const headers = { authorization: "Basic eDp5" };

beforeAll(() => once(server.listen(0, "127.0.0.1"), "listening"));
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

test.each([200, 302, 503])("returns the status %i unchanged", async (status) => {
  expect(await statusOf(url(`/${status}`), { headers, timeoutMs: 60_000 })).toBe(status);
});

test("does not wait for an endless body, and closes its connection", async () => {
  const closed = once(server, "connection").then(async ([socket]) => await once(socket, "close"));
  expect(await statusOf(url("/endless"), { timeoutMs: 60_000 })).toBe(200);
  await closed;
});

test("reports a silent or unreachable engine as no response", async () => {
  await expect(statusOf(url("/nothing"), { timeoutMs: 20 })).rejects.toThrow("no answer within 20 ms");
  await expect(statusOf("http://127.0.0.1:1/health", { timeoutMs: 60_000 })).rejects.toThrow("ECONNREFUSED");
});

test("does not send a request for https as plain HTTP", async () => {
  await expect(statusOf(url("/200").replace("http:", "https:"), { headers, timeoutMs: 60_000 })).rejects.toThrow(/ssl|wrong version/i);
});
