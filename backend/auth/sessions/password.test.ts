// The order, limits and cancellation of password hashes, with work that the tests control.
import { EventEmitter } from "node:events";
import type { FastifyReply, FastifyRequest } from "fastify";
import { expect, test } from "vitest";
import { ApiError } from "../../errors.ts";
import { ClientGoneError } from "../../http/http-client.ts";
import { HashQueue, LoginBackoff } from "./password.ts";
import { stub } from "../../../test/fixtures/stub.ts";

const client = (ip: string, orgId?: string) => stub<FastifyRequest>({ ip, user: orgId === undefined ? undefined : { orgId } });
const waiting = () =>
  stub<FastifyReply>({
    raw: new EventEmitter(),
    request: stub<FastifyRequest>({ socket: stub<FastifyRequest["socket"]>(new EventEmitter()) }),
  });

test("an organisation that sets hundreds of passwords delays a login by a few hashes", async () => {
  const queue = new HashQueue();
  const done: string[] = [];
  const work = (name: string) => async () => void done.push(await new Promise<string>((resolve) => setImmediate(() => resolve(name))));
  const flood = Array.from({ length: 250 }, (_, at) => queue.run(client("192.0.2.1", "red"), waiting(), work(`red ${at}`)));
  const login = queue.run(client("192.0.2.1"), waiting(), work("login"));
  await Promise.all([...flood, login]);
  expect(done.indexOf("login")).toBeLessThan(5);
});

test("limits waiting work of one network, and drops it if its client disconnects", async () => {
  const queue = new HashQueue();
  const gate = Promise.withResolvers<void>();
  let begun = 0;
  const work = async (): Promise<void> => {
    begun += 1;
    await gate.promise;
  };
  const replies = Array.from({ length: 258 }, waiting);
  const all = replies.map((reply) => queue.run(client("192.0.2.1"), reply, work).catch((error: unknown) => error));
  expect(await queue.run(client("192.0.2.1"), waiting(), work).catch((error: unknown) => error)).toMatchObject({ code: "unavailable" });
  for (const reply of replies.slice(2)) reply.raw.emit("close");
  gate.resolve();
  expect((await Promise.all(all)).filter((outcome) => outcome instanceof ClientGoneError)).toHaveLength(256);
  expect(begun).toBe(2);
});

test("forty networks with 256 attempts each do not block another one, and the total is limited", async () => {
  const queue = new HashQueue();
  const left = Array.from({ length: 40 * 256 }, waiting);
  let begun = 0;
  const work = async (): Promise<void> => {
    begun += 1;
    await new Promise((resolve) => setImmediate(resolve));
  };
  const flood = left.map((reply, at) => queue.run(client(`192.0.2.${at % 40}`), reply, work).catch((error: unknown) => error));
  await queue.run(client("198.51.100.1"), waiting(), async () => undefined);
  expect(begun).toBeLessThan(100);
  const refused = (await Promise.all(flood)).filter((outcome) => outcome instanceof ApiError);
  expect(refused).toHaveLength(40 * 256 - 2 - 2048 + 1);
});

test.each([
  ["that has logged in from there before", true],
  ["that logs in from there for the first time", false],
])("checks a login of a user %s before a queue full of attempts for other accounts from the same address", async (_who, hasSucceeded) => {
  const [queue, backoff, ip] = [new HashQueue(), new LoginBackoff(() => 0), "192.0.2.1"];
  const gate = Promise.withResolvers<void>();
  const checked: string[] = [];
  const attempt = async (email: string): Promise<void> => {
    expect(backoff.begin(email, ip)).toBe(0);
    const work = async (): Promise<void> => {
      await gate.promise;
      checked.push(email);
    };
    await queue.run(client(ip), waiting(), work, backoff.rank(email, ip)).finally(() => backoff.end(email, ip, "undecided"));
  };
  if (hasSucceeded) backoff.end("innocent@x", ip, "right");
  const flood = [Array.from({ length: 300 }, (_, at) => attempt(`guess${at}@x`))];
  const innocent = attempt("innocent@x");
  // Two attempts have begun. Later attempts are only newer than the first-time user's.
  if (hasSucceeded) flood.push(Array.from({ length: 300 }, (_, at) => attempt(`later${at}@x`)));
  const settled = Promise.allSettled(flood.flat());
  gate.resolve();
  await innocent;
  const outcomes = await settled;
  expect(checked.indexOf("innocent@x")).toBe(2);
  expect(checked).toHaveLength(2 + 256);
  for (const { reason } of outcomes.filter(({ status }) => status === "rejected") as PromiseRejectedResult[])
    expect(reason).toMatchObject({ code: "unavailable" });
});

test("checks an account's first attempt before second attempts and guessed accounts of the same address", async () => {
  let now = 0;
  const [queue, backoff, ip] = [new HashQueue(), new LoginBackoff(() => now), "192.0.2.1"];
  for (let failure = 0; failure < 5; failure++) {
    backoff.begin("guessed@x", ip);
    backoff.end("guessed@x", ip, "wrong");
  }
  now = 5_000;
  const gate = Promise.withResolvers<void>();
  const order: string[] = [];
  const attempt = async (email: string): Promise<void> => {
    expect(backoff.begin(email, ip)).toBe(0);
    const work = async (): Promise<void> => {
      order.push(email);
      await gate.promise;
    };
    await queue.run(client(ip), waiting(), work, backoff.rank(email, ip));
  };
  const all = ["a@x", "a@x", "first@x", "guessed@x", "a@x", "a@x"].map((email) => attempt(email));
  gate.resolve();
  await Promise.all(all);
  expect(order).toEqual(["a@x", "a@x", "first@x", "guessed@x", "a@x", "a@x"]);
});
