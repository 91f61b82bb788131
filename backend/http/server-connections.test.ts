import type { FastifyInstance } from "fastify";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { join } from "node:path";
import { makeCertificate } from "../../test/fixtures/certificate.ts";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { RawConnection } from "../../test/fixtures/raw-http.ts";
import { createLog } from "../log.ts";
import { closeRoutes, createApp } from "./app.ts";
import { ClientGoneError, goneSignal } from "./http-client.ts";
import { Connections } from "./server-connections.ts";

const LIMIT = 8;
/** Larger than the socket buffers of a connection. */
const LARGE_BYTES = 64 * 1024 * 1024;
const opened: RawConnection[] = [];
const folder = temporaryFolder();
const certificate = { certFile: join(folder.path, "crt"), keyFile: join(folder.path, "key") };
let tls: typeof certificate | undefined;
let app: FastifyInstance;
let held = Promise.withResolvers<void>();
let begun = 0;
let logged: string[] = [];

beforeAll(() => makeCertificate(certificate.certFile, certificate.keyFile, "test"));
afterAll(() => folder[Symbol.dispose]());
afterEach(async () => {
  held.resolve();
  for (const connection of opened.splice(0)) connection[Symbol.dispose]();
  await app.close();
});

/** `x-org` authenticates a user, `x-reader` a read token; /held answers when the test releases it. */
async function listening(overTls = false): Promise<void> {
  tls = overTls ? certificate : undefined;
  held = Promise.withResolvers();
  const log = createLog("warn", "test", { write: (line) => void logged.push(line) });
  // Twice a large response, so that an organisation that has not read one gets no other.
  const responses = { bytes: 2 * LARGE_BYTES };
  app = await createApp({ log, responses, connections: new Connections(LIMIT, log, 3), ...(tls && { tls }) });
  begun = 0;
  logged = [];
  app.addHook("onRequest", async (request) => {
    begun += 1;
    const org = request.headers["x-org"];
    if (typeof org === "string") request.user = { userId: "u", orgId: org, email: "e", role: "viewer", labelLimits: undefined };
    const reader = request.headers["x-reader"];
    if (typeof reader === "string") request.readToken = { tokenId: "t", orgId: reader, labelLimits: undefined };
  });
  app.get("/", async () => ({ ok: true }));
  app.post("/", async () => ({ ok: true }));
  app.get("/large", async () => ({ text: "x".repeat(LARGE_BYTES) }));
  app.get("/passed-on", async (_request, reply) => await reply.type("application/json").send(Buffer.alloc(LARGE_BYTES, "x")));
  app.get("/small", async () => ({ text: "x".repeat(32 * 1024) }));
  app.get("/held", async () => await held.promise.then(() => ({ ok: true })));
  app.get("/query", async (_request, reply) => {
    const { promise, reject } = Promise.withResolvers<never>();
    goneSignal(reply).addEventListener("abort", () => reject(new ClientGoneError()));
    return await Promise.race([promise, held.promise.then(() => ({ ok: true }))]);
  });
  await closeRoutes(app);
  await app.listen({ host: "127.0.0.1", port: 0 });
}

async function newcomer(): Promise<RawConnection> {
  const connection = await RawConnection.open(app, { tls: tls !== undefined });
  opened.push(connection);
  return connection;
}

const TRANSPORTS = [
  ["TCP", false],
  ["TLS", true],
] as const;

const JSON_OF_1000 = "Content-Type: application/json\r\nContent-Length: 1000\r\n";
const BODY_OF_1000 = JSON.stringify("x".repeat(998));

const ask = (org?: string, path = "/") => `GET ${path} HTTP/1.1\r\nHost: x\r\n${org ? `X-Org: ${org}\r\n` : ""}\r\n`;

async function connections(count: number, org?: string): Promise<RawConnection[]> {
  const made: RawConnection[] = [];
  for (let index = 0; index < count; index++) {
    const connection = await newcomer();
    expect((await connection.send(ask(org)).answer()).status).toBe(200);
    made.push(connection);
  }
  return made;
}

test.each(TRANSPORTS)(
  "closes unauthenticated connections with long incomplete heads beyond a limit, the oldest first, over %s",
  async (_what, overTls) => {
    await listening(overTls);
    const [own] = await connections(1, "a");
    const made = await connections(6);
    // The first one has a short head.
    for (const [index, connection] of [...made, own].entries())
      connection?.send(ask().slice(0, -2) + `Y: ${"y".repeat(index === 0 ? 10_000 : 40_000)}`);
    for (const connection of made.slice(1, 3)) await connection.closed();
    for (const connection of [...made.slice(3), made[0], own]) expect((await connection?.send("\r\n\r\n").answer())?.status).toBe(200);
  },
);

test.each(TRANSPORTS)("a new connection evicts the least recently used unauthenticated one, over %s", async (_what, overTls) => {
  await listening(overTls);
  const [first, second] = await connections(LIMIT);
  await first?.send(ask()).answer();
  const [added] = await connections(1);
  await second?.closed();
  expect((await added?.send(ask()).answer())?.status).toBe(200);
  expect((await first?.send(ask()).answer())?.status).toBe(200);
});

test.each(TRANSPORTS)(
  "unauthenticated connections beyond a quarter of all cannot evict authenticated ones, over %s",
  async (_what, overTls) => {
    await listening(overTls);
    const tenant = await connections(LIMIT - LIMIT / 4, "red");
    for (let round = 0; round < 5; round++) await connections(LIMIT);
    for (const connection of tenant) expect((await connection.send(ask("red")).answer()).status).toBe(200);
  },
);

test.each(TRANSPORTS)(
  "evicts an idle connection of an organisation that uses all of them for another organisation, over %s",
  async (_what, overTls) => {
    await listening(overTls);
    const red = await connections(LIMIT, "red");
    const [blue] = await connections(1, "blue");
    await red[0]?.closed();
    expect((await blue?.send(ask("blue")).answer())?.status).toBe(200);
    await connections(3, "blue");
    expect(logged.map((line) => JSON.parse(line))).toMatchObject([
      { event: "http.connection_limit_reached", limit: LIMIT, largest_org_id: "red", largest_org_connections: LIMIT },
    ]);
  },
);

test.each(TRANSPORTS)(
  "an organisation with half of all connections busy gets 503 for more, and others are served, over %s",
  async (_what, overTls) => {
    await listening(overTls);
    const red = await connections(LIMIT, "red");
    for (const connection of red) connection.send(`POST / HTTP/1.1\r\nHost: x\r\nX-Org: red\r\n${JSON_OF_1000}\r\n`);
    await expect.poll(() => begun).toBe(2 * LIMIT);
    for (const connection of red.slice(LIMIT / 2)) {
      const answer = await connection.answer();
      expect([answer.status, JSON.parse(answer.body).error, answer.headers["retry-after"]]).toEqual([503, "unavailable", "2"]);
    }
    await connections(2 * LIMIT, "blue");
    for (const connection of red.slice(0, LIMIT / 2)) expect((await connection.send(BODY_OF_1000).answer()).status).toBe(200);
  },
);

test("organisations with busy connections always leave one for another client", async () => {
  await listening();
  const [red, blue, green] = [await connections(4, "red"), await connections(2, "blue"), await connections(1, "green")];
  // One after the other: an organisation may use at most as many as then stay free.
  let sent = 7;
  for (const [owner, owned] of Object.entries({ red, blue, green })) {
    for (const connection of owned) {
      connection.send(ask(owner, "/held"));
      await expect.poll(() => begun).toBe((sent += 1));
    }
  }
  for (let round = 0; round < 3; round++) await connections(LIMIT);
  held.resolve();
  for (const connection of [...red, ...blue, ...green]) expect((await connection.answer()).status).toBe(200);
});

test("pipelined requests run one after the other, and are answered in order", async () => {
  await listening();
  const [connection] = await connections(1, "red");
  connection?.send(ask("red", "/held").repeat(2) + ask("red", "/small"));
  // A turn of the event loop after the first of the three, for others that would run too early.
  await connections(2, "blue");
  expect(begun).toBe(1 + 1 + 2 * 1);
  held.resolve();
  const lengths: (number | undefined)[] = [];
  for (let count = 0; count < 3; count++) lengths.push((await connection?.answer())?.body.length);
  expect(lengths).toEqual([11, 11, expect.toSatisfy((length: number) => length > 32 * 1024)]);
});

test.each(TRANSPORTS)(
  "answers 16 of 1,500 requests in one packet, closes the connection, and serves the next one, over %s",
  async (_what, overTls) => {
    await listening(overTls);
    const connection = await newcomer();
    connection.send(ask().repeat(1500));
    for (let count = 0; count < 16; count++) expect((await connection.answer()).status).toBe(200);
    await connection.closed();
    expect(begun).toBe(16);
    await connections(2);
  },
);

test("passes one of 1,000 pipelined requests with an unknown Expect to the application", async () => {
  await listening();
  let requests = 0;
  app.server.on("checkExpectation", () => (requests += 1));
  const connection = await newcomer();
  connection.send("GET / HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n".repeat(1000));
  expect((await connection.answer()).status).toBe(417);
  await connection.closed();
  expect(requests).toBe(1);
});

test("an unauthenticated connection gets a short keep-alive timeout", async () => {
  await listening();
  const [unauthenticated] = await connections(1);
  expect((await unauthenticated?.send(ask()).answer())?.headers["keep-alive"]).toBe("timeout=5");
  const [known] = await connections(1, "red");
  expect((await known?.send(ask("red")).answer())?.headers["keep-alive"]).toBe("timeout=75");
});

test.each([
  ["a user", ask("red", "/large")],
  ["a read token", ask("red", "/large").replace("X-Org", "X-Reader")],
  ["a user, passed on as bytes", ask("red", "/passed-on")],
])("limits unread large responses of one organisation: %s", async (_reader, request) => {
  await listening();
  const [reader, other] = [...(await connections(1, "red")), ...(await connections(1, "blue"))];
  reader?.socket.pause();
  reader?.send(request);
  await expect.poll(() => begun).toBe(2 + 1);
  const second = await newcomer();
  const refused = await second.send(ask("red", "/small")).answer();
  expect([refused.status, JSON.parse(refused.body).error]).toEqual([429, "too_many_queries"]);
  expect((await other?.send(ask("blue", "/small")).answer())?.status).toBe(200);
  reader?.[Symbol.dispose]();
  await expect.poll(async () => (await second.send(ask("red", "/small")).answer()).status).toBe(200);
});

test.each(TRANSPORTS)("a client that closes its sending side gets its responses, then the connection ends: %s", async (_name, overTls) => {
  await listening(overTls);
  const body = JSON.stringify("x".repeat(200_000));
  const post = `POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  for (const requests of [
    [ask(undefined, "/held")],
    [ask(undefined, "/query")],
    [post],
    [ask(undefined, "/held"), post, ask()],
    [ask("red", "/small")],
  ]) {
    held = Promise.withResolvers();
    const connection = await newcomer();
    const before = begun;
    connection.send(requests.join("")).socket.end();
    await expect.poll(() => begun).toBeGreaterThan(before);
    await (await newcomer()).send(ask()).answer();
    held.resolve();
    for (const _ of requests) expect((await connection.answer()).status).toBe(200);
    await connection.closed();
  }
  for (const unfinished of ["", "GET / HTT", ask().slice(0, -2), post.slice(0, -1)]) {
    const connection = await newcomer();
    connection.send(unfinished).socket.end();
    await connection.closed();
  }
});

test("a query ends soon after its client has closed its sending side, because the client may have left", async () => {
  await listening();
  const connection = await newcomer();
  connection.send(ask(undefined, "/query")).socket.end();
  expect((await connection.answer()).status).toBe(499);
  await connection.closed();
});
