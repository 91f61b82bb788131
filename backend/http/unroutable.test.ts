import type { FastifyInstance, FastifyRequest } from "fastify";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { exchange, RawConnection } from "../../test/fixtures/raw-http.ts";
import { ApiError } from "../errors.ts";
import { createLog } from "../log.ts";
import { closeRoutes, createApp } from "./app.ts";

let app: FastifyInstance;
let handled = 0;

beforeAll(async () => {
  app = await createApp({ log: createLog("silent"), headMs: 500, drainMs: 200 });
  app.addHook("onRequest", async (request) => {
    const orgId = request.headers["x-org"];
    if (typeof orgId === "string") request.user = { userId: "u", orgId, email: "e", role: "viewer", labelLimits: undefined };
    const keyId = request.headers["x-key"];
    if (typeof keyId === "string")
      request.signingKey = { keyId, kind: "host", orgId: "red", hostId: "h", node: "n", createdAt: new Date(0) };
  });
  app.get("/things/:id", async ({ query }) => ({ ok: true, ...(query as object) }));
  app.delete("/parts/:id", async () => ({ ok: true }));
  app.post("/parts/register", async () => ({ ok: true }));
  app.post("/things", async () => {
    handled += 1;
    return { ok: true };
  });
  const refuse = async () => {
    throw new ApiError("invalid_token", "log in");
  };
  app.post("/guarded", { onRequest: refuse }, async () => ({ ok: true }));
  await closeRoutes(app);
  await app.listen({ host: "127.0.0.1", port: 0 });
});
afterAll(() => app.close());

const head = (line: string, ...headers: string[]) => `${line} HTTP/1.1\r\nHost: x\r\n${headers.map((line) => `${line}\r\n`).join("")}\r\n`;
const codeOf = (body: string): string => JSON.parse(body).error;

const BODIES = [
  ["a form", "application/x-www-form-urlencoded", "a=b"],
  ["broken JSON", "application/json", "{"],
  ["no known type", "???", "x"],
  ["good JSON", "application/json", "{}"],
];
const OTHER_METHODS = ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "PROPFIND"];

test.each(BODIES)("another method with %s is 405 with Allow, as without a body", async (_what, type, body) => {
  for (const method of OTHER_METHODS) {
    const answer = await exchange(app, head(`${method} /things/7`, `Content-Type: ${type}`, `Content-Length: ${body?.length}`) + body);
    expect([method, answer.status, answer.headers["allow"], codeOf(answer.body)]).toEqual([method, 405, "GET", "method_not_allowed"]);
  }
  const trace = await exchange(app, head("TRACE /things/7"));
  expect([trace.status, trace.headers["allow"]]).toEqual([405, "GET"]);
});

test.each(["/guarded/", "//guarded", "//guarded//"])("%s is 404 with the path that exists", async (path) => {
  const answer = await exchange(app, head(`POST ${path}`, "Content-Length: 0"));
  expect([answer.status, JSON.parse(answer.body).message]).toEqual([404, expect.stringContaining("send it to /guarded, without")]);
  expect((await exchange(app, head("POST /nowhere/", "Content-Length: 0"))).body).toContain("GET /openapi.json lists all paths");
});

test("a literal path does not match a route with an id", async () => {
  for (const method of ["GET", "DELETE", "PUT"] as const) {
    const answer = await app.inject({ method, url: "/parts/register" });
    expect([method, answer.statusCode, answer.headers["allow"]]).toEqual([method, 405, "POST"]);
  }
  expect((await app.inject({ method: "DELETE", url: "/parts/7" })).statusCode).toBe(200);
});

test.each([
  ["PUT /things", 405],
  ["POST /nowhere", 404],
  ["POST /guarded", 401],
])("%s is %i before its body arrives, and the connection is closed if it never does", async (line, status) => {
  using connection = await RawConnection.open(app);
  connection.send(head(line, "Content-Type: application/json", "Content-Length: 250000") + "{");
  expect((await connection.answer()).status).toBe(status);
  await connection.closed();
});

test.each([
  ["250,000 bytes, and may continue", 250_000, undefined, 2],
  ["5 MB, and is disconnected", 5_000_000, "close", 1],
])("a client whose body is rejected receives the response and not a reset, if it has %s", async (_what, bytes, header, answers) => {
  const patient = await createApp({ log: createLog("silent"), drainMs: 60_000 });
  onTestFinished(() => patient.close());
  patient.get("/things/:id", async () => ({ ok: true }));
  await closeRoutes(patient);
  await patient.listen({ host: "127.0.0.1", port: 0 });
  using connection = await RawConnection.open(patient);
  connection.send(head("POST /nowhere", "Content-Type: application/json", `Content-Length: ${bytes}`)).send("x".repeat(bytes));
  const answer = await connection.answer();
  expect([answer.status, answer.headers["connection"]]).toEqual([404, header]);
  const next = connection.send(head("GET /things/7")).answer();
  expect((await Promise.allSettled([next]))[0].status).toBe(answers === 2 ? "fulfilled" : "rejected");
});

test.each([
  ["unauthenticated clients", "/nowhere", 404, 16],
  ["clients of one organisation", "/forbidden", 403, 32],
])("waits for only some of many %s with missing bodies, and closes the others immediately", async (_clients, path, status, limit) => {
  const slow = await createApp({ log: createLog("silent"), drainMs: 3_600_000 });
  const refuse = async (request: FastifyRequest) => {
    request.user = { userId: "u", orgId: "red", email: "e", role: "viewer", labelLimits: undefined };
    throw new ApiError("forbidden", "no");
  };
  slow.post("/forbidden", { onRequest: refuse }, async () => ({}));
  await closeRoutes(slow);
  await slow.listen({ host: "127.0.0.1", port: 0 });
  const connections: RawConnection[] = [];
  let closed = 0;
  for (let count = 0; count < limit + 10; count++) {
    const connection = await RawConnection.open(slow);
    connections.push(connection.send(head(`POST ${path}`, "Content-Length: 250000")));
    void connection.closed().then(() => (closed += 1));
    expect((await connection.answer()).status).toBe(status);
  }
  await expect.poll(() => closed).toBe(10);
  for (const connection of connections.slice(0, limit)) connection.send("x".repeat(100_000));
  for (const connection of connections.slice(0, limit)) connection.send("x".repeat(150_000)).send(head("GET /"));
  for (const connection of connections.slice(0, limit)) expect((await connection.answer()).status).toBe(404);
  for (const connection of connections) connection[Symbol.dispose]();
  await expect.poll(() => closed).toBe(limit + 10);
  await slow.close();
});

test("sends 100 Continue only if the body is read, and not if the head is rejected", async () => {
  const asking = ["Expect: 100-continue", "Content-Type: application/json", "Content-Length: 2"];
  const asks = (...headers: string[]) => exchange(app, head("POST /things", "Expect: 100-continue", ...headers));
  expect((await asks("Content-Type: application/json", "Content-Length: 1000000")).status).toBe(413);
  expect((await asks("Content-Type: text/css", "Content-Length: 2")).status).toBe(400);
  using read = await RawConnection.open(app);
  expect((await read.send(head("POST /things", ...asking)).answer()).status).toBe(100);
  expect((await read.send("{}").answer()).status).toBe(200);
  expect((await exchange(app, head("POST /guarded", ...asking))).status).toBe(401);
});

test.each([
  ["an unknown method", "FOO / HTTP/1.1\r\n\r\n", 400, "malformed_request"],
  ["another version", "GET / HTTP/9.9\r\n\r\n", 400, "malformed_request"],
  ["a header without a colon", "GET / HTTP/1.1\r\nHost x\r\n\r\n", 400, "malformed_request"],
  ["a length that is no number", "POST /things HTTP/1.1\r\nHost: x\r\nContent-Length: 1x\r\n\r\n", 400, "malformed_request"],
  [
    "a chunk without a size",
    head("POST /things", "Content-Type: application/json", "Transfer-Encoding: chunked") + "zz\r\n",
    400,
    "malformed_request",
  ],
  ["no Host", "GET /things/7 HTTP/1.1\r\n\r\n", 400, "malformed_request"],
  ["a TLS handshake", Buffer.from("16030100c8010000c40303", "hex"), 400, "malformed_request"],
  ["an unknown expectation", head("POST /things", "Expect: a-miracle", "Content-Length: 1"), 417, "expectation_failed"],
  ["a head of more than 64 KiB", head(`GET /things/7?${"a".repeat(66_000)}`), 431, "head_too_large"],
  ["a tunnel", "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n", 405, "method_not_allowed"],
  ["an incomplete head", "GET /things/7 HTTP/1.1\r\nHost: x\r\n", 408, "request_timeout"],
])("returns %s in the API's error format", async (_what, bytes, status, code) => {
  const answer = await exchange(app, bytes);
  expect([answer.status, codeOf(answer.body)]).toEqual([status, code]);
  expect(JSON.parse(answer.body).message).toMatch(/\w/);
  expect(answer.headers).toMatchObject({
    "content-type": expect.stringContaining("application/json"),
    "x-request-id": expect.stringMatching(/./),
  });
  expect(handled).toBeLessThanOrEqual(2);
});

test.each([
  ["Host", ["Host: y"], 400],
  ["Authorization", ["Authorization: Bearer a", "authorization: Bearer b"], 400],
  ["X-API-Key", ["X-API-Key: a", "X-API-Key: a"], 400],
  ["Content-Type", ["Content-Type: application/json", "Content-Type: text/plain"], 400],
  ["Content-Length", ["Content-Length: 2", "Content-Length: 2"], 400],
  ["Content-Length next to Transfer-Encoding", ["Content-Length: 2", "Transfer-Encoding: chunked"], 400],
  ["Transfer-Encoding", ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], 400],
  ["X-Forwarded-For, which proxies may append to", ["X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2"], 404],
])("refuses a request with two values of %s", async (_name, headers, status) => {
  expect((await exchange(app, head("POST /nowhere", ...headers) + "{}")).status).toBe(status);
});

test.each([
  ["of 60 KB with a credential", `a=${"b".repeat(60_000)}`, ["X-Org: red"], 200],
  ["of 8 KB", `a=${"b".repeat(8000)}`, [], 200],
  ["of 9 KB without a credential", `a=${"b".repeat(9000)}`, [], 431],
  ["of 500 parameters", "a=b&".repeat(498) + "a=b", [], 200],
  ["of 501 parameters", "a=b&".repeat(499) + "a=b", [], 400],
])("reads a query string %s", async (_what, query, headers, status) => {
  const answer = await exchange(app, head(`GET /things/7?${query}&c=%20d+e`, ...headers));
  expect([answer.status, answer.body]).toEqual([status, expect.stringContaining(status === 200 ? '"c":" d e"' : "query string")]);
});

test("a sender's query string is ignored, however many parameters it has", async () => {
  const answer = await exchange(app, head(`POST /things?${"a=b&".repeat(10_000)}`, "X-Key: k", "Content-Length: 0"));
  expect(answer.status).toBe(200);
});

test("an unknown path with a long query string is 404", async () => {
  expect((await exchange(app, head(`GET /nowhere?${"a=b&".repeat(10_000)}`))).status).toBe(404);
});

test("closes a connection that sends nothing", async () => {
  using connection = await RawConnection.open(app);
  expect((await connection.answer()).status).toBe(408);
  await connection.closed();
});

test("a long id is never a malformed path", async () => {
  expect((await app.inject(`/things/${"x".repeat(5000)}`)).statusCode).toBe(200);
  expect((await app.inject({ method: "PUT", url: `/things/${"x".repeat(5000)}` })).statusCode).toBe(405);
});
