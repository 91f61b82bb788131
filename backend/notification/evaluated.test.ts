import { expect, test } from "vitest";
import { createLog } from "../observability/log.ts";
import { evaluatorOf } from "./evaluated.ts";
import { EvaluatorWatch } from "./evaluator-watch.ts";
import { eventually } from "../../test/fixtures/processes.ts";

const NOW = Date.parse("2026-11-22T10:00:00Z");

test.each([
  ["has no rules", [], true],
  ["was evaluated a moment ago", ["2026-11-22T09:59:50Z"], true],
  ["has a rule that was not evaluated for long", ["2026-11-22T09:59:50Z", "2026-11-22T09:50:00Z"], false],
  ["was never evaluated", ["0001-01-01T00:00:00Z"], false],
])("an organisation that %s", async (_what, evaluations, isEvaluated) => {
  const asked: unknown[] = [];
  const rules = evaluations.map((lastEvaluation) => ({ lastEvaluation }) as never);
  const client = {
    ping: async () => undefined,
    groups: async (filter?: object) => {
      asked.push(filter);
      return [{ name: "org", rules }];
    },
  };
  expect(await evaluatorOf(client, 15_000, () => NOW).isEvaluated("org")).toBe(isEvaluated);
  expect(asked).toEqual([{ groups: ["org"], withoutAlerts: true }]);
});

test("an evaluator is settled when each rule was evaluated since it works without a break", async () => {
  let nowMs = NOW;
  let isAway = false;
  const check = async (): Promise<void> => {
    if (isAway) throw new Error("away");
  };
  await using watch = new EvaluatorWatch({ check, nowMs: () => nowMs, everyMs: 5, intervalMs: 60_000, log: createLog("silent") });
  expect([watch.isUp, watch.isDown, watch.isSettled]).toEqual([false, false, false]);
  await eventually("it works", async () => watch.isUp);
  nowMs += 179_000;
  expect(watch.isSettled).toBe(false);
  nowMs += 1000;
  expect(watch.isSettled).toBe(true);
  isAway = true;
  await eventually("it is down", async () => watch.isDown);
  expect([watch.isUp, watch.isSettled]).toEqual([false, false]);
});
