// Against the real Argon2: what is computed is seen by how often it was begun.
import { EventEmitter } from "node:events";
import type { FastifyReply, FastifyRequest } from "fastify";
import { expect, test } from "vitest";
import { ApiError } from "../errors.ts";
import { HashTurns } from "./hash-turns.ts";

const asker = (ip: string, orgId?: string) => ({ ip, user: orgId === undefined ? undefined : { orgId } }) as unknown as FastifyRequest;
const waiting = () => ({ raw: new EventEmitter() }) as unknown as FastifyReply;

test("an organisation that sets six hundred passwords delays a login by its own turn, not by six hundred", async () => {
  const turns = new HashTurns();
  const done: string[] = [];
  const work = (name: string) => async () => void done.push(await new Promise<string>((resolve) => setImmediate(() => resolve(name))));
  const flood = Array.from({ length: 250 }, (_, at) => turns.run(asker("192.0.2.1", "red"), waiting(), work(`red ${at}`)));
  const login = turns.run(asker("192.0.2.1"), waiting(), work("login"));
  await Promise.all([...flood, login]);
  expect(done.indexOf("login")).toBeLessThan(5);
});

test("what waits for one asker is bounded, and is dropped when its client has gone", async () => {
  const turns = new HashTurns();
  const gate = Promise.withResolvers<void>();
  let begun = 0;
  const work = async (): Promise<void> => {
    begun += 1;
    await gate.promise;
  };
  const replies = Array.from({ length: 258 }, waiting);
  const all = replies.map((reply) => turns.run(asker("192.0.2.1"), reply, work).catch((error: unknown) => error));
  expect(await turns.run(asker("192.0.2.1"), waiting(), work).catch((error: unknown) => error)).toMatchObject({ code: "unavailable" });
  for (const reply of replies.slice(2)) reply.raw.emit("close");
  gate.resolve();
  expect((await Promise.all(all)).filter((one) => one instanceof ApiError)).toHaveLength(256);
  expect(begun).toBe(2);
});

test("forty addresses with 256 attempts each keep nobody else from trying, and only so many wait in all", async () => {
  const turns = new HashTurns();
  const left = Array.from({ length: 40 * 256 }, waiting);
  let begun = 0;
  const work = async (): Promise<void> => {
    begun += 1;
    await new Promise((resolve) => setImmediate(resolve));
  };
  const flood = left.map((reply, at) => turns.run(asker(`192.0.2.${at % 40}`), reply, work).catch((error: unknown) => error));
  await turns.run(asker("198.51.100.1"), waiting(), async () => undefined);
  expect(begun).toBeLessThan(100);
  const refused = (await Promise.all(flood)).filter((one) => one instanceof ApiError);
  expect(refused).toHaveLength(40 * 256 - 2 - 2048 + 1);
});
