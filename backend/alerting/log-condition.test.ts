// Validates conditions on log records, writes them as expressions, and names the series that the evaluator gets for them.
import { describe, expect, test } from "vitest";
import type { ApiError } from "../errors.ts";
import { MAX_GROUPS_PER_RULE } from "./alerting-limits.ts";
import {
  checkLogs,
  countedExpression,
  countEveryMs,
  countValidityMs,
  countSamples,
  expressionOf,
  fingerprint,
  updateGroups,
  isLogExpression,
  type LogCondition,
  type LogGroup,
} from "./log-condition.ts";
import { validateRule, type SentRule } from "./alert-rule.ts";

const condition = (more: Partial<LogCondition> = {}): LogCondition => ({
  filter: { source: "shop", q: ["time out", 'a "quoted" \\ one'] },
  window: "5m",
  by: [],
  operator: ">",
  threshold: 10,
  ...more,
});
const rule = (logs: LogCondition, more: Partial<SentRule> = {}): SentRule => ({
  name: "n",
  severity: "info",
  for: "0s",
  enabled: true,
  labels: {},
  annotations: {},
  logs,
  ...more,
});

function refused(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    const { code, message } = error as ApiError;
    return code === "invalid_field" ? message : `${code}, not invalid_field`;
  }
  return "taken";
}

describe("a condition on log records", () => {
  test.each<[more: Partial<LogCondition>, why: RegExp]>([
    [{ window: "soon" }, /^logs\.window: /],
    [{ window: "29s" }, /^logs\.window: must be a duration from 30s to 1d, such as 5m: records are counted every 15s/],
    [{ window: "25h" }, /^logs\.window: /],
    [{ filter: { q: "a\u0000b" } }, /^logs\.filter\.q: must not contain control characters \(U\+0000\)/],
    [{ filter: { "label.a\u0007": "b" } }, /^logs\.filter\.label\.a.: must not contain control characters/],
    [{ filter: { source: "half \ud83d" } }, /^logs\.filter\.source: .*surrogate/],
    [{ filter: { regex: "x".repeat(1001) } }, /^logs\.filter\.regex: .*1000 characters/],
    [{ filter: { not_regex: ".{51}" } }, /^logs\.filter\.not_regex: .*at most 50 parts/],
    [{ filter: { regex: "[" } }, /^logs\.filter\.regex: not a regular expression of RE2: missing closing \]/],
    [{ filter: { regex: ["a", "b("] } }, /^logs\.filter\.regex: not a regular expression of RE2: missing closing \)/],
    [{ filter: { not_regex: "(?<=a)b" } }, /^logs\.filter\.not_regex: not a regular expression of RE2: /],
    [{ filter: { q: "a", "label.a": Array.from({ length: 50 }, () => "b") } }, /^logs\.filter: .*at most 50 values/],
    [{ filter: { [`label.${"k".repeat(201)}`]: "b" } }, /^logs\.filter\.label\.k+: the name of a label must have at most 200/],
    [{ by: ["message"] }, /^logs\.by: .*not "message"$/],
    [{ by: ["label."] }, /^logs\.by: .*not "label\."$/],
    [{ by: ["label.a.b", "label.a_b"] }, /^logs\.by: both fields would become the label a_b/],
    [{ by: ["source"], operator: "<" }, /^logs\.by: a value without records is not found/],
    [{ by: ["source"], operator: ">=", threshold: 0 }, /^logs\.by: a value without records/],
  ])("is rejected by its field: %j", (more, why) => {
    expect(refused(() => checkLogs(condition(more)))).toMatch(why);
  });

  test.each<Partial<LogCondition>>([
    { filter: {}, operator: "==", threshold: 0 },
    { by: ["source", "label.k8s.pod.name"], window: "1d" },
    { window: "30s" },
    { filter: { "label.a": ["b", "c"], "not_label.d": "e", regex: "(?i)x", trace_id: "a".repeat(32) } },
    { filter: { regex: ["", "\\bfail(ed|ure)\\b.{3}", "[[:alpha:]]", "a\\Cb"], not_regex: "(?P<word>a)" } },
    { filter: { regex: "\\p{Greek}" } },
  ])("can be %j", (more) => {
    expect(refused(() => checkLogs(condition(more)))).toBe("taken");
  });

  test("is written as one line that is no valid expression over metrics", () => {
    const expression = expressionOf(condition({ by: ["source", "label.k8s.pod.name"] }));
    expect(expression).toBe(
      'count_logs({source="shop", q="time out", q="a \\"quoted\\" \\\\ one"}[5m]) by (source, label.k8s.pod.name) > 10',
    );
    expect([isLogExpression(expression), isLogExpression(" count_logs({})"), isLogExpression("count(logs)")]).toEqual([true, true, false]);
    const { logs: _logs, ...without } = rule(condition(), { expr: expression });
    expect(refused(() => validateRule(without))).toMatch(/^expr: .*send its `logs` instead/);
  });

  test("is the rule's expression, and a different one next to it is rejected", () => {
    const { expr } = validateRule(rule(condition()));
    expect(validateRule(rule(condition(), { expr })).expr).toBe(expr);
    expect(refused(() => validateRule(rule(condition(), { expr: "up == 0" })))).toMatch(/^expr: must not be set together/);
  });

  test.each([
    ["label.severity", {}],
    ["label.org_id", {}],
    ["label.__name__", {}],
    [`label.${"x".repeat(129)}`, {}],
    ["label.team", { labels: { team: "shop" } }],
  ])("cannot be grouped by %s if alerts cannot have that label", (field, more) => {
    expect(refused(() => validateRule(rule(condition({ by: [field] }), more)))).toMatch(/^logs\.by: its label .* cannot be used/);
  });
});

describe("the series for the evaluator", () => {
  test("are new for a changed condition and the same for an equal one", () => {
    const one = fingerprint(condition({ filter: { source: "a", level: "error" } }));
    expect(fingerprint(condition({ filter: { level: "error", source: "a" } }))).toBe(one);
    expect(fingerprint(condition({ filter: { level: "error", source: "b" } }))).not.toBe(one);
    expect(fingerprint(condition({ filter: { source: "a", level: "error" }, threshold: 11 }))).not.toBe(one);
    expect(fingerprint(condition({ filter: { source: "a", level: "error" }, since: 2 }))).not.toBe(one);
  });

  test("keep values of records within their label, and end when a group has no records", () => {
    const logs = condition({ by: ["source", "label.k8s.pod.name"] });
    const hostile = 'x"} 1\nup{a="\\';
    const before = [{ values: ["gone", "p"], count: 11 }];
    const { groups } = updateGroups(logs, { found: [{ values: [hostile, ""], count: 12 }], before, atMs: 7 });
    const text = countSamples("id", logs, groups);
    const series = `log_rule_records{rule="id",condition="${fingerprint(logs)}"`;
    expect(text.split("\n")).toEqual([`${series},by_1="x\\"} 1\\nup{a=\\"\\\\",by_2=""} 12`, `${series},by_1="gone",by_2="p"} 0`, ""]);
    expect(countedExpression("id", logs)).toMatch(
      /^label_move\(sum by \(by_1, by_2\) \(last_over_time\(log_rule_records\{host_id="log-rules",rule="id",condition="[0-9a-f]{16}"\}\[\d+s\]\)\), "by_1", "__by_1", "by_2", "__by_2", "__by_1", "source", "__by_2", "k8s_pod_name"\) > 10$/,
    );
  });

  test("are few for values that come and go: a slot is reused when the evaluator no longer sees its value", () => {
    const logs = condition({ by: ["source"] });
    const some = (from: number) => Array.from({ length: 40 }, (_, n) => ({ values: [String(from + n)], count: 100 - n }));
    const groupsAt = (found: LogGroup[], before: readonly LogGroup[], atMs: number) => updateGroups(logs, { found, before, atMs });
    const first = groupsAt(some(0), [], 0);
    expect([first.isCut, first.groups]).toEqual([false, some(0)]);
    const second = groupsAt(some(1000), first.groups, 1000);
    expect([second.isCut, second.groups.length]).toEqual([true, MAX_GROUPS_PER_RULE]);
    expect(second.groups.slice(0, 10)).toEqual(some(1000).slice(0, 10));
    // Groups that were reported stay, even if others have more records now.
    const third = groupsAt([...some(2000), ...some(1000).slice(0, 10)], second.groups, 2000);
    expect(third.groups.filter(({ count }) => count > 0)).toEqual(some(1000).slice(0, 10));
    const later = groupsAt(some(2000), third.groups, 1000 + countValidityMs(logs));
    expect([later.isCut, later.groups.length]).toEqual([false, MAX_GROUPS_PER_RULE]);
    expect(later.groups.slice(0, 40)).toEqual(some(2000));
  });

  test("are read some twenty times per window, and a count is valid until after the next read", () => {
    const every = (window: string, leastMs?: number): number => countEveryMs(condition({ window }), leastMs);
    expect([every("30s"), every("30s", 1500), every("5m"), every("1h"), every("1d")]).toEqual([15_000, 1500, 15_000, 180_000, 300_000]);
    expect(every("30s", 600_000)).toBe(15_000);
    for (const window of ["30s", "1d"]) expect(countValidityMs(condition({ window }))).toBeGreaterThan(300_000 + every(window));
  });
});
