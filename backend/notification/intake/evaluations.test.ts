import { expect, test } from "vitest";
import { createLog } from "../../log.ts";
import { createEvaluator } from "./evaluations.ts";
import { EvaluatorWatch } from "./evaluator-watch.ts";
import { eventually } from "../../../test/fixtures/processes.ts";

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
  expect(await createEvaluator(client, 15_000, () => NOW).isEvaluated("org")).toBe(isEvaluated);
  expect(asked).toEqual([{ groups: ["org"], withoutAlerts: true }]);
});

test("returns when the rules of an organisation were evaluated, without failed evaluations", async () => {
  const at = "2026-11-22T09:59:50Z";
  const rules = [
    { labels: { rule_id: "good" }, health: "ok", lastEvaluation: at },
    { labels: { rule_id: "bad" }, health: "err", lastEvaluation: at },
  ];
  const asked: unknown[] = [];
  const client = {
    ping: async () => undefined,
    groups: async (filter?: object) => {
      asked.push(filter);
      return [{ name: "org", rules: rules as never }];
    },
  };
  expect([...(await createEvaluator(client, 15_000).evaluatedAt("org", ["good", "bad"]))]).toEqual([
    ["good", Date.parse(at)],
    ["bad", Number.NEGATIVE_INFINITY],
  ]);
  const labels = ["good", "bad"].map((rule_id) => ({ rule_id, org_id: "org" }));
  expect(asked).toEqual([{ groups: ["org"], withoutAlerts: true, labels }]);
});

test("a suspended process, or a missed request of the evaluator, restarts the settling time", async () => {
  let [nowMs, wallMs] = [NOW, NOW];
  const pass = (ms: number): void => {
    nowMs += ms;
    wallMs += ms;
  };
  const options = { check: async () => undefined, nowMs: () => nowMs, wallMs: () => wallMs, everyMs: 10_000, intervalMs: 15_000 };
  await using watch = new EvaluatorWatch({ ...options, log: createLog("silent") });
  await eventually("it works", async () => watch.isUp);
  const inSteps = (steps: number): boolean[] =>
    Array.from({ length: steps }, () => {
      pass(20_000);
      return watch.isSettled;
    });
  expect(inSteps(6)).toEqual([false, false, false, false, false, true]);
  expect(watch.isJustAwake).toBe(false);
  pass(60_000);
  expect([watch.isJustAwake, watch.isSettled]).toEqual([true, false]);
  expect(inSteps(6)).toEqual([false, false, false, false, false, true]);
  expect(watch.isJustAwake).toBe(false);
  // A clock that is set back.
  pass(-3600_000);
  expect([watch.isJustAwake, watch.isSettled]).toEqual([true, false]);
  expect(inSteps(6)).toEqual([false, false, false, false, false, true]);
  watch.missed();
  expect([watch.isJustAwake, watch.isSettled]).toEqual([false, false]);
  expect(inSteps(6)).toEqual([false, false, false, false, false, true]);
});

test("an evaluator has settled when each rule was evaluated without an interruption", async () => {
  let nowMs = NOW;
  let isAway = false;
  const check = async (): Promise<void> => {
    if (isAway) throw new Error("away");
  };
  await using watch = new EvaluatorWatch({
    check,
    nowMs: () => nowMs,
    wallMs: () => NOW,
    everyMs: 5,
    intervalMs: 60_000,
    log: createLog("silent"),
  });
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
