import { afterEach, beforeEach, expect, test } from "vitest";
import { ApiError } from "../../errors.ts";
import { createAlertsHandler, type IntakeListener, startIntakeListener } from "./intake-listener.ts";

let listener: IntakeListener;
let failures: unknown[];
let taken: string[];
let timesMissed: number;
beforeEach(async () => {
  listener = await startIntakeListener();
  failures = [];
  taken = [];
  timesMissed = 0;
});
afterEach(async () => await listener[Symbol.asyncDispose]());

async function post(path = "/api/v2/alerts", options: { password?: string; body?: string; method?: string } = {}): Promise<number> {
  const { origin, username, password } = new URL(listener.url);
  const login = Buffer.from(`${username}:${options.password ?? password}`).toString("base64");
  const { method = "POST", body = method === "POST" ? "[]" : null } = options;
  const answer = await fetch(`${origin}${path}`, { method, headers: { authorization: `Basic ${login}` }, body });
  await answer.arrayBuffer();
  return answer.status;
}

function serve(take: (body: Buffer) => Promise<void>): void {
  const intake = { take };
  const missed = (): void => void (timesMissed += 1);
  listener.serve(createAlertsHandler({ intake, missed, failed: (error) => failures.push(error), succeeded: () => undefined }));
}

const remember = async (body: Buffer): Promise<void> => void taken.push(body.toString());

test("accepts alerts with the password of this start only, and returns 503 until a receiver is registered", async () => {
  expect(await post()).toBe(503);
  serve(remember);
  expect(await post()).toBe(200);
  expect(await post("/api/v2/alerts", { password: "other" })).toBe(401);
  expect(await post("/metrics")).toBe(404);
  expect(await post("/api/v2/alerts", { method: "GET" })).toBe(404);
  expect(taken).toEqual(["[]"]);
  await using other = await startIntakeListener();
  expect(new URL(other.url).password).not.toBe(new URL(listener.url).password);
});

test("returns an error if alerts cannot be stored, and the evaluator sends them again", async () => {
  serve(async () => {
    throw new ApiError("storage_unavailable", "the database is away");
  });
  expect(await post()).toBe(502);
  serve(async () => {
    throw new Error("something else");
  });
  expect(await post()).toBe(500);
  expect([failures.length, timesMissed]).toEqual([2, 2]);
  serve(remember);
  expect(await post("/api/v2/alerts", { body: `[${" ".repeat(33 * 1024 * 1024)}]` }).catch(() => "cut off")).toSatisfy(
    (answer) => answer === 413 || answer === "cut off",
  );
  expect([taken, timesMissed]).toEqual([[], 2]);
  expect(await post()).toBe(200);
});
