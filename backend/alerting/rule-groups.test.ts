import { expect, test } from "vitest";
import { groupOf, revisionOf } from "./rule-groups.ts";
import { alertBytes, type Rule } from "./alert-rule.ts";

const rule = (annotation: string): Rule => ({
  id: "1",
  orgId: "org",
  name: "a",
  severity: "info",
  expr: "up == 0",
  for: "0s",
  forMs: 0,
  enabled: true,
  labels: {},
  annotations: { a: annotation },
  createdAt: new Date(0),
  revision: 1,
  refused: undefined,
});

test.each([
  ["a few rules", 10, "{{ $labels.instance }} is down"],
  ["as many rules as there may be", 1000, "{{ $labels.instance }} is down"],
  ["much text", 128, "x".repeat(15_000)],
  ["templates that print their expression", 1000, "{{ $expr | queryEscape }} ".repeat(200)],
  ["the most that one alert may take", 1000, "{{ $labels.a }}".repeat(60)],
])("all alerts of an organisation fit into 256 MiB: %s", (_what, count, annotation) => {
  const rules = Array.from({ length: count }, () => rule(annotation));
  const { limit, concurrency } = groupOf("org", 1, rules);
  expect(limit * count * alertBytes(rule(annotation))).toBeLessThanOrEqual(256 * 1024 * 1024);
  expect(limit * alertBytes(rule(annotation))).toBeLessThanOrEqual(16 * 1024 * 1024);
  expect([limit >= 1, limit <= 5000, concurrency]).toEqual([true, true, 2]);
});

test("a few rules can have 5,000 instances each, and a group contains its revision", () => {
  const group = groupOf("org", 7, [rule("down")]);
  expect(group.limit).toBe(5000);
  const params = Object.entries(group.params).flatMap(([name, values]) => values.map((value) => `${name}=${value}`));
  expect([revisionOf({ name: "org", rules: [], params }), revisionOf({ name: "org", rules: [] })]).toEqual([7, undefined]);
});

test("queries of a group read its organisation alone, and fail instead of reading part of a metrics cluster", () => {
  const { params } = groupOf("org", 1, [rule("down")]);
  expect(params).toMatchObject({ extra_label: ["org_id=org"], deny_partial_response: ["1"] });
});
