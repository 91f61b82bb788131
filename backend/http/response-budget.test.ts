import { EventEmitter, once } from "node:events";
import { connect, type AddressInfo, type Socket } from "node:net";
import { fastify, type FastifyReply } from "fastify";
import { expect, test, vi } from "vitest";
import { stub } from "../../test/fixtures/stub.ts";
import { ResponseBudget, type ResponseBudgetOptions } from "./response-budget.ts";

const MIB = 1024 * 1024;

/** A server whose responses have `mib` MiB and count for the organisation in the path. */
async function serve(mib: number, options: ResponseBudgetOptions) {
  const budget = new ResponseBudget(options);
  const app = fastify();
  const buffers = Array.from({ length: mib }, (_, index) => Buffer.alloc(MIB, 65 + index));
  app.get<{ Params: { org: string } }>("/:org", async ({ params }, reply) => budget.send(params.org, reply, buffers));
  await app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = app.server.address() as AddressInfo;
  return { budget, url: `http://127.0.0.1:${port}`, port, [Symbol.asyncDispose]: () => app.close() };
}

/** Sends a request and does not read the response. */
async function requestUnread(port: number, org: string): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.pause();
  socket.write(`GET /${org} HTTP/1.1\r\nhost: x\r\n\r\n`);
  return socket;
}

test("sends a response whole, with its length, and stops counting it once it was read", async () => {
  await using server = await serve(3, {});
  const response = await fetch(`${server.url}/a`);
  expect(response.headers.get("content-length")).toBe(String(3 * MIB));
  expect(Buffer.from(await response.arrayBuffer()).equals(Buffer.concat([65, 66, 67].map((byte) => Buffer.alloc(MIB, byte))))).toBe(true);
  await expect.poll(() => server.budget.heldBytes).toBe(0);
});

test("rejects queries of an organisation with too many unread bytes until they are read", async () => {
  await using server = await serve(20, { bytes: 60 * MIB, stallMs: 60_000 });
  const { budget } = server;
  const sockets = [await requestUnread(server.port, "a"), await requestUnread(server.port, "a")];
  await expect.poll(() => budget.heldBytes).toBe(40 * MIB);
  expect(() => budget.admit("a")).toThrow(expect.objectContaining({ code: "too_many_queries", status: 429, retryAfterS: 5 }));
  budget.admit("b");
  for (const socket of sockets) socket.destroy();
  await expect.poll(() => budget.heldBytes).toBe(0);
  budget.admit("a");
});

test.each([2, 3, 10])("serves an idle organisation while %i others do not read their responses", async (others) => {
  await using server = await serve(20, { bytes: 120 * MIB, stallMs: 60_000 });
  const { budget } = server;
  const sockets: Socket[] = [];
  using stack = new DisposableStack();
  stack.defer(() => sockets.forEach((socket) => socket.destroy()));
  for (let index = 0; index < others; index += 1) {
    for (let count = 0; count < 4; count += 1) sockets.push(await requestUnread(server.port, `busy${index}`));
  }
  await expect.poll(() => budget.heldBytes).toBeGreaterThanOrEqual(100 * MIB);
  for (const socket of sockets) socket.on("error", () => undefined);
  for (let count = 0; count < 3; count += 1) {
    const response = await fetch(`${server.url}/idle`);
    expect([response.status, (await response.arrayBuffer()).byteLength]).toEqual([200, 20 * MIB]);
  }
});

test("disconnects a client of the organisation with the most unread bytes when another one needs the memory", async () => {
  await using server = await serve(20, { bytes: 60 * MIB, stallMs: 60_000 });
  const sockets: Socket[] = [];
  for (const org of ["a", "a", "b"]) {
    sockets.push(await requestUnread(server.port, org));
    await expect.poll(() => server.budget.heldBytes).toBe(sockets.length * 20 * MIB);
  }
  expect((await (await fetch(`${server.url}/idle`)).arrayBuffer()).byteLength).toBe(20 * MIB);
  for (const socket of sockets) socket.on("error", () => undefined).resume();
  await expect.poll(() => sockets.filter(({ closed }) => closed).length).toBe(1);
  expect(sockets[2]?.closed).toBe(false);
  for (const socket of sockets) socket.destroy();
});

test("reserves the memory of a response before its query runs, and releases it when the response has ended", async () => {
  const budget = new ResponseBudget();
  const app = fastify();
  app.get("/", async (_request, reply) => {
    budget.admit("a", reply);
    return { heldMib: budget.heldBytes / MIB };
  });
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  expect(await (await fetch(url)).json()).toEqual({ heldMib: 4 });
  await expect.poll(() => budget.heldBytes).toBe(0);
  await app.close();
});

test("does not count a response to a client that has already disconnected", async () => {
  const budget = new ResponseBudget();
  const app = fastify();
  const { promise: heldBytes, resolve } = Promise.withResolvers<number>();
  app.get("/", async (_request, reply) => {
    await once(reply.raw, "close");
    const sent = budget.send("a", reply, [Buffer.alloc(MIB)]);
    resolve(budget.heldBytes);
    return sent;
  });
  await app.listen({ port: 0, host: "127.0.0.1" });
  const socket = await requestUnread((app.server.address() as AddressInfo).port, "");
  await once(app.server, "request");
  socket.destroy();
  expect(await heldBytes).toBe(0);
  await app.close();
});

test.each([
  [17, 20],
  [13, 3],
])(
  "disconnects a client that reads less than 16 KiB/s on average after the first 30 s: at %i KB/s it gets %i chunks of 20",
  async (speed, served) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
    using _real = { [Symbol.dispose]: () => vi.useRealTimers() };
    const raw = Object.assign(new EventEmitter(), { destroy: () => raw.emit("close") });
    const reply = stub<FastifyReply>({ raw: stub(raw), header: vi.fn() });
    const closed = vi.fn();
    raw.once("close", closed);
    let chunks = 0;
    for await (const chunk of new ResponseBudget().stream("a", reply, [Buffer.alloc(20 * 256 * 1024)])) {
      vi.advanceTimersByTime((chunk as Buffer).length / speed);
      if (closed.mock.calls.length > 0) break;
      chunks += 1;
    }
    expect(chunks).toBe(served);
  },
);

test("disconnects a client that does not read", async () => {
  await using server = await serve(20, { stallMs: 200 });
  const socket = await requestUnread(server.port, "a");
  const closed = once(socket, "close");
  await expect.poll(() => server.budget.heldBytes).toBe(20 * MIB);
  await expect.poll(() => server.budget.heldBytes).toBe(0);
  socket.on("error", () => undefined).resume();
  await closed;
  expect(socket.bytesRead).toBeLessThan(20 * MIB);
});
