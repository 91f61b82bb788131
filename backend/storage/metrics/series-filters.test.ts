import { expect, test } from "vitest";
import { readLabelLimits, writeLabelLimits } from "../../admission/limited-labels.ts";
import { matchesLimits, seriesFilters } from "./series-filters.ts";

test("without limits, a query has no filter, and every alert is visible", () => {
  expect(seriesFilters(undefined)).toEqual([]);
  expect(matchesLimits(undefined, {})).toBe(true);
});

test("a series has to match all labels, and the environment under its new or its old name", () => {
  expect(seriesFilters({ "k8s.namespace.name": ["a.b", "c"], source: ["x"], "deployment.environment.name": ["live"] })).toEqual([
    String.raw`{k8s_namespace_name=~"a\\.b|c",service_name=~"x",deployment_environment_name=~"live"}`,
    String.raw`{k8s_namespace_name=~"a\\.b|c",service_name=~"x",deployment_environment_name="",deployment_environment=~"live"}`,
  ]);
});

test.each([
  [{ k8s_namespace_name: "shop" }, true],
  [{ k8s_namespace_name: "web" }, false],
  [{ k8s_namespace_name: "" }, false],
  [{ namespace: "shop" }, false],
  [{}, false],
  [JSON.parse('{"__proto__":{"k8s_namespace_name":"shop"}}') as Record<string, string>, false],
])("an alert with the labels %j is visible to a reader of shop: %s", (labels, isVisible) => {
  expect(matchesLimits({ "k8s.namespace.name": ["shop"] }, labels)).toBe(isVisible);
});

test("an alert needs all limited labels", () => {
  const limits = { "k8s.namespace.name": ["shop"], "deployment.environment.name": ["live"] };
  expect(matchesLimits(limits, { k8s_namespace_name: "shop" })).toBe(false);
  expect(matchesLimits(limits, { k8s_namespace_name: "shop", deployment_environment: "live" })).toBe(true);
  const moved = { k8s_namespace_name: "shop", deployment_environment: "live", deployment_environment_name: "test" };
  expect(matchesLimits(limits, moved)).toBe(false);
});

test("limits are equal as text if they are equal", () => {
  const text = '{"k8s.namespace.name":["a","b"],"source":["c"]}';
  expect(writeLabelLimits({ source: ["c"], "k8s.namespace.name": ["b", "a", "b"] })).toBe(text);
  expect(readLabelLimits(text)).toEqual({ "k8s.namespace.name": ["a", "b"], source: ["c"] });
  expect([writeLabelLimits(undefined), readLabelLimits(null)]).toEqual([null, undefined]);
});

test.each(["{}", "[]", "null", '{"source":[]}', '{"source":[""]}', '{"source":"a"}', '{"source":["a"],"later":["b"]}', "x"])(
  "the stored limits %s are damaged, and never read as none",
  (text) => {
    expect(() => readLabelLimits(text)).toThrow(/cannot be read|null|JSON/);
  },
);
