import { setTimeout as sleep } from "node:timers/promises";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import { exchange, RawConnection } from "../../test/fixtures/raw-http.ts";
import { addRemoteAlerting } from "../alerting/remote.ts";
import { ResponseBudget } from "./response-budget.ts";
import { RULE_DECLARATIONS } from "../alerting/alert-rule-routes.ts";
import { ApiError } from "../errors.ts";
import { closeRoutes, createApp } from "./app.ts";
import { SmallBodies } from "./small-bodies.ts";

let app: FastifyInstance;
let bodies: SmallBodies;
let lines: string[];
afterEach(() => app.close());

/** `x-org` authenticates. */
async function listening(options: ConstructorParameters<typeof SmallBodies>[0] = {}): Promise<void> {
  bodies = new SmallBodies(options);
  lines = [];
  const log = pino({}, { write: (line) => void lines.push(line) });
  app = await createApp({ log, smallBodies: bodies, trustedProxies: ["127.0.0.1"] });
  const authenticate = async (request: FastifyRequest): Promise<void> => {
    const org = request.headers["x-org"];
    if (typeof org !== "string") throw new ApiError("invalid_token", "log in");
    request.user = { userId: "u", orgId: org, email: "e", role: "viewer", labelLimits: undefined };
  };
  app.post<{ Body: { text?: string } }>("/echo", { onRequest: authenticate }, async ({ body }) => ({ length: body.text?.length }));
  app.post<{ Body: { text?: string } }>("/login", async ({ body }) => ({ length: body.text?.length }));
  const guards = { user: () => authenticate, reader: () => authenticate };
  const issueBearer = async () => undefined;
  await addRemoteAlerting(app, {
    url: "http://127.0.0.1:1",
    guards,
    issueBearer,
    declarations: RULE_DECLARATIONS,
    responses: new ResponseBudget(),
  });
  await closeRoutes(app);
  await app.listen({ host: "127.0.0.1", port: 0 });
}

const head = (length: number, org = "red", path = "/echo") =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\nX-Org: ${org}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
const textOf = (length: number): string => JSON.stringify({ text: "x".repeat(length) });

test("reads a body whole, however it is split, and releases its memory after the response", async () => {
  await listening();
  const text = textOf(100_000);
  using connection = await RawConnection.open(app);
  connection.send(head(text.length));
  for (let at = 0; at < 200; at++) connection.send(text.slice(at, at + 1));
  const answer = await connection.send(text.slice(200)).answer();
  expect([answer.status, answer.body]).toEqual([200, '{"length":100000}']);
  await expect.poll(() => bodies.heldBytes).toBe(0);
});

test("returns 413 for a body above the limit, with or without Content-Length", async () => {
  await listening();
  expect((await exchange(app, head(1_000_000))).status).toBe(413);
  const chunked = `POST /echo HTTP/1.1\r\nHost: x\r\nX-Org: red\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n80000\r\n${"x".repeat(0x80000)}`;
  expect((await exchange(app, chunked)).status).toBe(413);
});

test("returns 503 with Retry-After for bodies beyond the budget, first to the organisation that uses half of it", async () => {
  await listening({ budgetBytes: 32 * 1024 * 1024 });
  using connection = await RawConnection.open(app);
  const held: RawConnection[] = [];
  const body = textOf(250_000);
  for (let count = 0; count < 40; count++) {
    const waiting = await RawConnection.open(app);
    held.push(waiting.send(head(body.length)).send(body.slice(0, -1)));
  }
  await expect.poll(() => bodies.heldBytes).toBeGreaterThan(9.9 * 1024 * 1024);
  const red = await connection.send(head(body.length) + body).answer();
  expect([red.status, JSON.parse(red.body).error, red.headers["retry-after"]]).toEqual([503, "unavailable", "1"]);
  expect((await exchange(app, head(20, "blue") + textOf(9))).status).toBe(200);
  for (const waiting of held) waiting[Symbol.dispose]();
  await expect.poll(() => bodies.heldBytes).toBe(0);
  expect((await exchange(app, head(body.length) + body)).status).toBe(200);
});

test("unauthenticated clients use no memory of organisations, and always leave some for another network", async () => {
  await listening({ budgetBytes: 16 * 1024 * 1024 });
  const login = (address: string, length: number) =>
    `POST /login HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${address}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
  const body = textOf(250_000);
  const held: RawConnection[] = [];
  for (let count = 0; count < 80; count++) {
    const waiting = await RawConnection.open(app);
    held.push(waiting.send(login(`10.0.0.${count % 8}`, body.length)).send(body.slice(0, -1)));
  }
  await expect.poll(() => bodies.heldBytes).toBeGreaterThan(2 * 1024 * 1024);
  expect(bodies.heldBytes).toBeLessThanOrEqual(4 * 1024 * 1024);
  expect((await exchange(app, login("10.0.0.1", body.length) + body)).status).toBe(503);
  expect((await exchange(app, login("10.0.1.1", 20) + textOf(9))).status).toBe(200);
  expect((await exchange(app, head(body.length, "blue") + body)).status).toBe(200);
  for (const waiting of held) waiting[Symbol.dispose]();
});

test("returns 408 for a slow body of the organisation with the most when another one needs the memory", async () => {
  // Organisations share three quarters: enough for four bodies that have begun, 1 KiB each.
  await listening({ budgetBytes: 5500 });
  const slow: RawConnection[] = [];
  for (const org of ["red", "red", "green", "white"]) {
    slow.push((await RawConnection.open(app)).send(`${head(20, org)}{`));
    await expect.poll(() => bodies.heldBytes).toBe(slow.length * 1024);
  }
  using _blue = (await RawConnection.open(app)).send(`${head(20, "blue")}{`);
  const answer = await Promise.race(slow.slice(0, 2).map(async (red) => await red.answer()));
  expect([answer.status, JSON.parse(answer.body).message]).toEqual([408, expect.stringContaining("others need its memory")]);
  for (const connection of slow) connection[Symbol.dispose]();
});

test("returns 408 for a body that arrives too slowly", async () => {
  await listening({ pace: { graceMs: 100, minBytesPerSecond: 1000 } });
  using connection = await RawConnection.open(app);
  const answer = await connection.send(`${head(100)}{`).answer();
  expect([answer.status, JSON.parse(answer.body).error]).toEqual([408, "request_timeout"]);
});

test("accepts a body above the minimum speed, however long it takes", async () => {
  await listening({ pace: { graceMs: 50, minBytesPerSecond: 10 } });
  using connection = await RawConnection.open(app);
  const text = textOf(2000);
  connection.send(head(text.length) + text.slice(0, 1000));
  // Ten times the grace, and above the minimum speed.
  await sleep(500);
  expect((await connection.send(text.slice(1000)).answer()).status).toBe(200);
});

test.each(["/echo", "/alerting/rules"])("does not log an incomplete body at %s as an internal error", async (path) => {
  await listening();
  const connection = await RawConnection.open(app);
  connection.send(`${head(1000, "red", path)}{"a":`);
  await expect.poll(() => bodies.heldBytes).toBeGreaterThan(0);
  connection[Symbol.dispose]();
  await expect.poll(() => bodies.heldBytes).toBe(0);
  expect(lines.filter((line) => line.includes('"stack"') || JSON.parse(line).level >= 50)).toEqual([]);
});

test("does not read the body of an unauthenticated forwarded request", async () => {
  await listening();
  const answer = await exchange(
    app,
    `POST /alerting/rules HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 250000\r\n\r\n{`,
  );
  expect([answer.status, bodies.heldBytes]).toEqual([401, 0]);
});

test("names a key that would change a prototype, and rejects text that is not JSON", async () => {
  await listening();
  const ask = async (text: string) => JSON.parse((await exchange(app, head(text.length) + text)).body);
  expect(await ask('{"__proto__":{}}')).toEqual({ error: "invalid_field", message: expect.stringContaining("__proto__") });
  expect(await ask("{nonsense")).toMatchObject({ error: "malformed_body" });
});
