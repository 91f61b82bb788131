import { once } from "node:events";
import { connect, type AddressInfo, type Socket } from "node:net";
import { fastify } from "fastify";
import { expect, test } from "vitest";
import { Answers, type AnswersOptions } from "./answers.ts";

const MIB = 1024 * 1024;

/** A server that answers so many MiB to everybody, in the name of the organisation in the path. */
async function answering(mib: number, options: AnswersOptions) {
  const answers = new Answers(options);
  const app = fastify();
  const pieces = Array.from({ length: mib }, (_, index) => Buffer.alloc(MIB, 65 + index));
  app.get<{ Params: { org: string } }>("/:org", async ({ params }, reply) => answers.send(params.org, reply, pieces));
  await app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = app.server.address() as AddressInfo;
  return { answers, url: `http://127.0.0.1:${port}`, port, [Symbol.asyncDispose]: () => app.close() };
}

/** Asks and takes nothing. */
async function unread(port: number, org: string): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.pause();
  socket.write(`GET /${org} HTTP/1.1\r\nhost: x\r\n\r\n`);
  return socket;
}

test("an answer is sent whole, with its length, and no longer counts when it was taken", async () => {
  await using server = await answering(3, {});
  const answer = await fetch(`${server.url}/a`);
  expect(answer.headers.get("content-length")).toBe(String(3 * MIB));
  expect(Buffer.from(await answer.arrayBuffer()).equals(Buffer.concat([65, 66, 67].map((byte) => Buffer.alloc(MIB, byte))))).toBe(true);
  await expect.poll(() => server.answers.heldBytes).toBe(0);
});

test("while an organisation's clients leave answers unread, its queries are refused, others' are not until all hold too much", async () => {
  await using server = await answering(20, { perOrgBytes: 30 * MIB, bytes: 60 * MIB, stallMs: 60_000 });
  const { answers } = server;
  const sockets = [await unread(server.port, "a"), await unread(server.port, "a")];
  await expect.poll(() => answers.heldBytes).toBe(40 * MIB);
  expect(() => answers.admit("a")).toThrow(expect.objectContaining({ code: "too_many_queries", status: 429 }));
  answers.admit("b");
  sockets.push(await unread(server.port, "b"));
  await expect.poll(() => answers.heldBytes).toBe(60 * MIB);
  expect(() => answers.admit("c")).toThrow(expect.objectContaining({ code: "unavailable", status: 503, retryAfterS: 5 }));
  for (const socket of sockets) socket.destroy();
  await expect.poll(() => answers.heldBytes).toBe(0);
  answers.admit("a");
});

test("an answer to a client that has left already counts for nothing", async () => {
  const answers = new Answers();
  const app = fastify();
  const { promise: answered, resolve } = Promise.withResolvers<number>();
  app.get("/", async (_request, reply) => {
    await once(reply.raw, "close");
    const sent = answers.send("a", reply, [Buffer.alloc(MIB)]);
    resolve(answers.heldBytes);
    return sent;
  });
  await app.listen({ port: 0, host: "127.0.0.1" });
  const socket = await unread((app.server.address() as AddressInfo).port, "");
  await once(app.server, "request");
  socket.destroy();
  expect(await answered).toBe(0);
  await app.close();
});

test("a client that takes nothing is cut off", async () => {
  await using server = await answering(20, { stallMs: 200 });
  const socket = await unread(server.port, "a");
  const closed = once(socket, "close");
  await expect.poll(() => server.answers.heldBytes).toBe(20 * MIB);
  await expect.poll(() => server.answers.heldBytes).toBe(0);
  socket.on("error", () => undefined).resume();
  await closed;
  expect(socket.bytesRead).toBeLessThan(20 * MIB);
});
