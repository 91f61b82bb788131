// One connection's bytes do not become work without a turn: small pieces, unread responses, refused bodies, and requests of many connections.
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { Duplex, Readable } from "node:stream";
import { connect as connectTls, type Server as TlsServer } from "node:tls";
import type { FastifyInstance } from "fastify";
import { promisify } from "node:util";
import { afterEach, expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import { makeCertificate } from "../../test/fixtures/certificate.ts";
import { createServer as createHttpServer } from "../../common/http.ts";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { exchange, RawConnection } from "../../test/fixtures/raw-http.ts";
import { listenInternally } from "./internal-listener.ts";
import { createLog } from "../log.ts";
import { closeRoutes, createApp, type AppOptions } from "./app.ts";
import { CountedRequest } from "./counted-request.ts";
import { beginInTurns } from "./turns.ts";
import { acceptWebSocket } from "./websocket.ts";

let app: FastifyInstance;
let order: string[] = [];
/** Frames of WebSockets that were read. */
let frames = 0;
/** Ends the requests to /never. */
let ended = Promise.withResolvers<void>();
afterEach(async () => {
  ended.resolve();
  await app?.close();
});

/** `x-org` authenticates. */
async function listening(options: Partial<AppOptions> = {}): Promise<void> {
  order = [];
  ended = Promise.withResolvers();
  frames = 0;
  app = await createApp({ log: createLog("silent"), ...options });
  app.addHook("onRequest", async (request) => {
    const org = request.headers["x-org"];
    if (typeof org === "string") request.user = { userId: "u", orgId: org, email: "e", role: "viewer", labelLimits: undefined };
  });
  app.post("/", async () => ({ ok: true }));
  app.get("/", async () => ({ ok: true }));
  app.get("/never", async () => await ended.promise.then(() => ({})));
  app.get("/large", async (_request, reply) => await reply.send(Buffer.alloc(32 * 1024 * 1024)));
  app.get("/streamed", async (_request, reply) => await reply.send(Readable.from(Array(500).fill(Buffer.alloc(65_536)))));
  app.get<{ Params: { name: string } }>("/busy/:name", async ({ params }) => {
    order.push(params.name);
    for (const until = performance.now() + 15; performance.now() < until;);
    return {};
  });
  app.get("/followed", async (request, reply) => {
    const socket = await acceptWebSocket(request, reply);
    for (const event of ["message", "pong"]) socket?.on(event, () => (frames += 1));
  });
  await closeRoutes(app);
  accepted = once(app.server, "connection") as Promise<Socket[]>;
  await app.listen({ host: "127.0.0.1", port: 0 });
}

/** The first connection that the server accepted. */
let accepted: Promise<Socket[]>;

const HEAD = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
const CHUNKED = `${HEAD}Transfer-Encoding: chunked\r\n\r\n`;
const SMALL_CHUNKS = "1\r\n \r\n".repeat(20_000);
const UPGRADE = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${"A".repeat(22)}==\r\n\r\n`;
const GET = (path: string, org?: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n${org ? `X-Org: ${org}\r\n` : ""}\r\n`;

test("ends the connection of a client that has closed its sending side after the last of many pipelined refusals", async () => {
  await listening();
  using connection = await RawConnection.open(app);
  connection.send(GET("/unknown").repeat(6)).socket.end();
  for (let count = 0; count < 6; count += 1) expect((await connection.answer()).status).toBe(404);
  // An idle connection stays open for five seconds.
  await connection.closed();
}, 4000);

test("rejects a body in chunks of one byte, and closes its connection", async () => {
  await listening();
  using connection = await RawConnection.open(app);
  const answer = await connection.send(CHUNKED + SMALL_CHUNKS).answer();
  expect([answer.status, JSON.parse(answer.body)]).toEqual([400, { error: "malformed_body", message: expect.stringContaining("128") }]);
  await connection.closed();
});

test("rejects a body in chunks of one byte also after a large chunk", async () => {
  await listening();
  const body = `${CHUNKED}${(250_000).toString(16)}\r\n{}${" ".repeat(249_998)}\r\n${"1\r\n \r\n".repeat(1900)}0\r\n\r\n`;
  const answer = await exchange(app, body);
  expect([answer.status, answer.body]).toEqual([400, expect.stringContaining("too many small pieces")]);
});

test("reads a body in few small chunks, and a long one in chunks of 600 bytes", async () => {
  await listening();
  const text = JSON.stringify("x".repeat(200));
  const small = Array.from(text, (byte) => `1\r\n${byte}\r\n`).join("");
  expect((await exchange(app, `${CHUNKED}${small}0\r\n\r\n`)).status).toBe(200);
  const large = `258\r\n${" ".repeat(600)}\r\n`.repeat(400);
  expect((await exchange(app, `${CHUNKED}${large}2\r\n{}\r\n0\r\n\r\n`)).status).toBe(200);
});

test("does not buffer small chunks behind an unanswered request", async () => {
  await listening();
  using connection = await RawConnection.open(app);
  let pieces = 0;
  app.server.on("request", (request) => {
    const push = request.push.bind(request);
    request.push = (piece: unknown) => {
      pieces += 1;
      return push(piece);
    };
  });
  connection.send(GET("/never") + CHUNKED + SMALL_CHUNKS);
  await connection.closed();
  expect(pieces).toBeLessThan(500);
});

test.each([
  ["an unknown path", () => CHUNKED.replace("/", "/nowhere"), 404],
  ["a wrong method", () => CHUNKED.replace("POST", "PUT"), 405],
])("reads only the start of a rejected body without a length: %s", async (_what, head, status) => {
  await listening();
  let read: Socket | undefined;
  app.server.on("connection", (socket) => (read = socket));
  using connection = await RawConnection.open(app);
  connection.send(head() + `8000\r\n${"x".repeat(0x8000)}\r\n`.repeat(1000));
  const answer = await connection.answer();
  expect([answer.status, answer.headers["connection"]]).toEqual([status, "close"]);
  await connection.closed();
  expect(read?.bytesRead).toBeLessThan(4 * 1024 * 1024);
});

test("takes few chunks of a connection in a turn of the event loop, however many packets have arrived", async () => {
  const chunks = 20_000;
  let [taken, before, most] = [0, 0, 0];
  const server = createHttpServer({ IncomingMessage: CountedRequest }, (request) => void request.on("data", () => (taken += 1)));
  const count = (): void => {
    [most, before] = [Math.max(most, taken - before), taken];
    if (taken < chunks) setImmediate(count);
  };
  await once(server.listen(0, "127.0.0.1"), "listening");
  const client = connect((server.address() as { port: number }).port, "127.0.0.1");
  client.write(CHUNKED + `c8\r\n${"x".repeat(200)}\r\n`.repeat(chunks));
  setImmediate(count);
  await expect.poll(() => taken).toBeGreaterThanOrEqual(chunks);
  // One packet of 64 KiB has 318 of them.
  expect(most).toBeLessThan(500);
  client.destroy();
  server.close();
});

test("does not buffer heads behind an unanswered request", async () => {
  await listening();
  let read: Socket | undefined;
  app.server.once("connection", (socket) => (read = socket));
  using connection = await RawConnection.open(app);
  connection.send(GET("/never"));
  for (let count = 0; count < 15; count++) connection.send(GET(`/?${"x".repeat(30_000)}`));
  await expect.poll(() => read?.bytesRead).toBeGreaterThan(60_000);
  for (let count = 0; count < 3; count++) await exchange(app, GET("/"));
  expect(read?.bytesRead).toBeLessThan(300_000);
});

test.each([
  ["a large one for a user", "/large", "red"],
  ["a large one for an unauthenticated client", "/large", undefined],
  ["a stream", "/streamed", undefined],
])("closes a connection whose response is not read, with or without a request behind it: %s", async (_what, path, org) => {
  await listening({ responses: { stallMs: 300 } });
  for (const behind of ["", GET("/")]) {
    using connection = await RawConnection.open(app);
    connection.socket.pause();
    connection.send(GET(path, org) + behind);
    await expect.poll(async () => await openConnections()).toBe(1);
    await expect.poll(async () => await openConnections()).toBe(0);
  }
});

test("rejects further large responses without a credential while earlier ones are unread, but none of an organisation", async () => {
  await listening();
  const { port } = app.server.address() as { port: number };
  const statusOf = async (headers: Record<string, string> = {}): Promise<number> => {
    const response = await fetch(`http://127.0.0.1:${port}/large`, { headers });
    await response.body?.cancel();
    return response.status;
  };
  using unread = await RawConnection.open(app);
  unread.socket.pause();
  const begun = once(app.server, "request");
  unread.send(GET("/large"));
  await begun;
  await expect.poll(async () => await statusOf()).toBe(429);
  expect(await statusOf({ "x-org": "red" })).toBe(200);
  unread.socket.destroy();
  await expect.poll(async () => await statusOf()).toBe(200);
});

test("does not close a connection that waits longer than that for its response", async () => {
  await listening({ responses: { stallMs: 50 } });
  app.server.prependListener("timeout", () => order.push("timeout"));
  using connection = await RawConnection.open(app);
  connection.send(GET("/never"));
  await expect.poll(() => order).toEqual(["timeout"]);
  expect(await openConnections()).toBe(1);
});

test("does not read a body behind a request that used up its small chunks before that request is answered", async () => {
  await listening();
  const rest = `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n`;
  const socket = connect((app.server.address() as { port: number }).port, "127.0.0.1");
  await once(socket, "connect");
  socket.on("error", () => {});
  const [peer] = await accepted;
  socket.write(`GET /never HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${"1\r\nx\r\n".repeat(64)}0\r\n\r\n${rest}`);
  const piece = Buffer.alloc(65_536);
  for (let sent = 0; sent < 400; sent += 1) {
    // Paces the load: a connection that is not read never drains.
    if (!socket.write(piece)) await Promise.race([once(socket, "drain"), new Promise((resolve) => setTimeout(resolve, 20))]);
  }
  expect(peer?.bytesRead).toBeLessThan(300_000);
  socket.destroy();
});

test.each([
  ["a tunnel", "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"],
  [
    "a WebSocket that waits",
    "GET /never HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
  ],
])("survives a client that resets the connection of %s", async (_what, head) => {
  await listening();
  const socket = connect((app.server.address() as { port: number }).port, "127.0.0.1");
  await once(socket, "connect");
  const [peer] = await accepted;
  // `once` of node:events would add a listener for errors.
  const { promise: closed, resolve } = Promise.withResolvers<unknown>();
  peer?.once("close", resolve);
  socket.write(head);
  await vi.waitFor(() => expect(peer?.bytesRead).toBe(head.length));
  await exchange(app, GET("/"));
  socket.resetAndDestroy();
  await closed;
  expect((await exchange(app, GET("/"))).status).toBe(200);
});

test("begins few TLS handshakes in a turn of the event loop, however many connections have sent theirs", async () => {
  let [begun, before, most] = [0, 0, 0];
  const server = createServer(() => {
    begun += 1;
    for (const until = performance.now() + 15; performance.now() < until;);
  });
  beginInTurns(server as TlsServer, 1000);
  const count = (): void => {
    [most, before] = [Math.max(most, begun - before), begun];
    if (begun < 20) setImmediate(count);
  };
  await once(server.listen(0, "127.0.0.1"), "listening");
  const clients = Array.from({ length: 20 }, () => connect((server.address() as { port: number }).port, "127.0.0.1"));
  for (const client of clients) client.write("x");
  setImmediate(count);
  await expect.poll(() => begun).toBe(20);
  expect(most).toBeLessThan(4);
  for (const client of clients) client.destroy();
  server.close();
});

test("begins no TLS handshake of a client that sends nothing", async () => {
  using folder = temporaryFolder();
  const tls = { certFile: join(folder.path, "crt"), keyFile: join(folder.path, "key") };
  makeCertificate(tls.certFile, tls.keyFile, "localhost");
  await listening({ tls, headMs: 100 });
  const failed = vi.fn();
  app.server.on("tlsClientError", failed);
  const client = connect((app.server.address() as { port: number }).port, "127.0.0.1").resume();
  await once(client, "close");
  expect(failed).not.toHaveBeenCalled();
});

test("handles a body that is not HTTP once, in however many TLS records of one packet it arrives", async () => {
  using folder = temporaryFolder();
  const tls = { certFile: join(folder.path, "crt"), keyFile: join(folder.path, "key") };
  makeCertificate(tls.certFile, tls.keyFile, "localhost");
  await listening({ tls });
  let handled = 0;
  app.server.on("secureConnection", (socket: Socket) => {
    for (const name of ["end", "destroy"] as const) {
      const close = socket[name];
      socket[name] = (...parameters: unknown[]) => {
        handled += 1;
        return Reflect.apply(close, socket, parameters) as Socket;
      };
    }
  });
  const tcp = connect((app.server.address() as { port: number }).port, "127.0.0.1");
  const packet: Buffer[] = [];
  let isHeld = false;
  const wire = new Duplex({
    read: () => undefined,
    write: (bytes: Buffer, _encoding, done) => {
      if (isHeld) packet.push(bytes);
      else tcp.write(bytes);
      done();
    },
  });
  tcp.on("data", (bytes) => wire.push(bytes)).on("error", () => undefined);
  const client = connectTls({ socket: wire, rejectUnauthorized: false }).on("error", () => undefined);
  await once(client, "secureConnect");
  isHeld = true;
  client.write(CHUNKED);
  for (let count = 0; count < 500; count += 1) await promisify((done: () => void) => client.write("1", done))();
  const closed = once(tcp, "close");
  tcp.write(Buffer.concat(packet));
  await closed;
  expect(handled).toBeLessThan(5);
});

test("closes the connection for an upgrade behind an unanswered request", async () => {
  await listening();
  using connection = await RawConnection.open(app);
  connection.send(GET("/never") + GET("/").replace("\r\n\r\n", `\r\n${UPGRADE}`));
  await connection.closed();
  expect((await exchange(app, GET("/"))).status).toBe(200);
});

test.each([
  ["an unknown expectation", "POST / HTTP/1.1\r\nHost: x\r\nExpect: x\r\nContent-Length: 1\r\n\r\n"],
  ["a tunnel", "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n"],
  ["no HTTP", "x\r\n\r\n"],
  ["a chunk without a size", `${CHUNKED}zz\r\n`],
])("a request gets its own response, not the error of what was sent behind it: %s", async (_what, next) => {
  await listening();
  using connection = await RawConnection.open(app);
  connection.send(GET("/never") + next);
  for (let count = 0; count < 3; count++) await exchange(app, GET("/"));
  ended.resolve();
  expect((await connection.answer()).status).toBe(200);
  await connection.closed();
});

test("keeps the connection of a client that asked for 100 Continue and did not wait for it, behind an unanswered request", async () => {
  await listening();
  using connection = await RawConnection.open(app);
  connection.send(`${GET("/never")}${HEAD}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}${GET("/")}`);
  for (let count = 0; count < 3; count++) await exchange(app, GET("/"));
  ended.resolve();
  for (const status of [200, 100, 200, 200]) expect((await connection.answer()).status).toBe(status);
});

test.each([
  ["pongs", (socket: WebSocket) => socket.pong()],
  ["messages", (socket: WebSocket) => socket.send("x")],
])("accepts a few %s of a WebSocket client, and disconnects it with 1008 if it continues", async (_what, send) => {
  await listening();
  const socket = new WebSocket(app.listeningOrigin.replace("http", "ws") + "/followed");
  let code: number | undefined;
  socket.on("close", (closed) => (code = closed));
  await once(socket, "open");
  for (let count = 0; count < 100; count++) send(socket);
  const ponged = once(socket, "pong");
  socket.ping();
  await ponged;
  for (let count = 0; count < 20_000; count++) send(socket);
  await expect.poll(() => code).toBe(1008);
  expect(frames).toBeLessThan(1000);
});

test("reads nothing more from a WebSocket client that sends too much and ignores that it is disconnected", async () => {
  await listening();
  using connection = await RawConnection.open(app);
  const [peer] = await accepted;
  connection.send(GET("/followed").replace("\r\n\r\n", `\r\n${UPGRADE}`));
  const pong = Buffer.from("8a8000000000", "hex");
  connection.send(Buffer.alloc(6_000_000, pong));
  await connection.closed();
  expect(peer?.bytesRead).toBeLessThan(1_000_000);
});

test("an organisation with many busy connections waits for itself, and others do not wait for it", async () => {
  await listening();
  const open = async (org: string) => {
    const connection = await RawConnection.open(app);
    await connection.send(GET("/", org)).answer();
    return connection;
  };
  const red = await Promise.all(Array.from({ length: 12 }, () => open("red")));
  using blue = await open("blue");
  for (const connection of red) connection.send(GET("/busy/red", "red"));
  blue.send(GET("/busy/blue", "blue"));
  expect((await blue.answer()).status).toBe(200);
  for (const connection of red) expect((await connection.answer()).status).toBe(200);
  expect(order.indexOf("blue")).toBeLessThan(8);
  for (const connection of red) connection[Symbol.dispose]();
});

test("begins at most two requests of 15 ms in a turn of the event loop, however many wait", async () => {
  await listening();
  const red = await Promise.all(Array.from({ length: 12 }, () => RawConnection.open(app)));
  for (const connection of red) await connection.send(GET("/", "red")).answer();
  let turn: NodeJS.Immediate;
  const next = (): void => {
    order.push("turn");
    turn = setImmediate(next);
  };
  next();
  for (const connection of red) connection.send(GET("/busy/red", "red"));
  for (const connection of red) expect((await connection.answer()).status).toBe(200);
  clearImmediate(turn!);
  const begun = order
    .join(" ")
    .split("turn")
    .map((each) => each.match(/red/g)?.length ?? 0);
  // Whether there is time for the second one is decided before the first one has done anything.
  expect(Math.max(...begun)).toBeLessThanOrEqual(2);
  for (const connection of red) connection[Symbol.dispose]();
});

test("the internal listeners reject small chunks and read no long body", async () => {
  await listening();
  let read: Socket | undefined;
  await using internal = await listenInternally("HEALTH_LISTEN", { host: "127.0.0.1", port: 0 }, 8, (request, response) => {
    read = request.socket;
    response.end();
  });
  for (const body of [SMALL_CHUNKS, `8000\r\n${"x".repeat(0x8000)}\r\n`.repeat(1000)]) {
    const socket = connect(internal.port, "127.0.0.1").on("error", () => undefined);
    socket.resume().write(CHUNKED + body);
    await expect.poll(() => socket.destroyed).toBe(true);
    expect(read?.bytesRead).toBeLessThan(4 * 1024 * 1024);
  }
});

async function openConnections(): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  app.server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  return await promise;
}
