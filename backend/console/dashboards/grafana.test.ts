import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isGrafanaDashboard, MAX_PANELS, readGrafana } from "./grafana.ts";

const ROOT = join(import.meta.dirname, "../../..");

test.each(globSync("docs/dashboards/*.json", { cwd: ROOT }))("imports all of %s, with each variable that its queries use", (file) => {
  const json = JSON.parse(readFileSync(join(ROOT, file), "utf8")) as { panels: object[] };
  const { dashboard, omitted } = readGrafana(json);
  expect(isGrafanaDashboard(json)).toBe(true);
  expect(omitted).toEqual([]);
  expect(dashboard.panels).toHaveLength(json.panels.length);
  const known = dashboard.variables.map(({ name }) => name);
  const used = dashboard.panels.flatMap(({ queries }) =>
    queries.flatMap(({ query }) => [...query.matchAll(/\$\{?(\w+)/g)].map(([, name]) => name)),
  );
  expect(used.filter((name) => !known.includes(name))).toEqual([]);
});

test("imports variables with a list of values, and panels inside a row", () => {
  const { dashboard } = readGrafana({
    title: "mine",
    templating: { list: [{ name: "env", type: "custom", query: "prod, test" }] },
    panels: [{ type: "row", panels: [{ type: "stat", title: "up", targets: [{ expr: "up" }], gridPos: { w: 6 } }] }],
  });
  expect(dashboard.variables).toEqual([{ name: "env", values: ["prod", "test"] }]);
  expect(dashboard.panels).toEqual([{ title: "up", kind: "stat", source: "metrics", width: 3, queries: [{ query: "up" }] }]);
});

test("imports the axis, stacking, height and thresholds of a panel", () => {
  const steps = [
    { color: "green", value: null },
    { color: "orange", value: 60 },
    { color: "dark-red", value: 80 },
  ];
  const panel = (custom: object) => ({
    type: "timeseries",
    title: "CPU",
    targets: [{ expr: "up" }],
    gridPos: { w: 12, h: 9 },
    fieldConfig: { defaults: { unit: "percent", min: 0, max: 100, thresholds: { steps }, custom } },
  });
  const { dashboard } = readGrafana({
    panels: [panel({ stacking: { mode: "normal" }, thresholdsStyle: { mode: "line" } }), panel({ thresholdsStyle: { mode: "off" } })],
  });
  const common = { title: "CPU", kind: "timeseries", source: "metrics", width: 6, height: 7, unit: "percent", min: 0, max: 100 };
  const thresholds = [
    { value: 60, severity: "warning" },
    { value: 80, severity: "critical" },
  ];
  const queries = [{ query: "up" }];
  expect(dashboard.panels).toEqual([
    { ...common, stacked: true, thresholds, queries },
    { ...common, queries },
  ]);
});

test("names what it cannot show", () => {
  const { dashboard, omitted } = readGrafana({
    templating: { list: [{ name: "x", type: "adhoc" }] },
    panels: [
      { type: "geomap", title: "map" },
      { type: "logs", title: "lines", datasource: { type: "loki" }, targets: [{ expr: "{a=`b`}" }] },
      { type: "timeseries", title: "empty" },
    ],
  });
  expect(dashboard.panels).toEqual([]);
  expect(omitted).toEqual([
    "variable x: its type adhoc is not read",
    "panel map: its type geomap is not shown here",
    "panel lines: it has no PromQL query",
    "panel empty: it has no PromQL query",
  ]);
});

test("names queries that are too long or too many, and too many variables", () => {
  const [long, up] = [{ expr: "x".repeat(4001) }, { expr: "up" }];
  const { dashboard, omitted } = readGrafana({
    templating: { list: Array.from({ length: 22 }, (_, at) => ({ name: `v${at}`, type: "custom", query: "a" })) },
    panels: [
      { type: "stat", title: "many", targets: [long, ...Array.from({ length: 12 }, () => up)] },
      { type: "stat", title: "long", targets: [long] },
    ],
  });
  expect(dashboard.panels.map(({ queries }) => queries)).toEqual([Array.from({ length: 10 }, () => ({ query: "up" }))]);
  expect(dashboard.variables).toHaveLength(20);
  expect(omitted).toEqual([
    "2 variables: at most 20",
    "panel many: 1 of its queries: longer than 4000 characters",
    "panel many: 2 of its queries: at most 10",
    "panel long: 1 of its queries: longer than 4000 characters",
  ]);
});

test.each([null, 1, "x", [], {}, { panels: {} }, { panels: [null, 1, { type: 5, targets: "x" }], templating: { list: [null] } }])(
  "rejects %j without an exception",
  (json) => {
    expect(readGrafana(json).dashboard.panels).toEqual([]);
  },
);

test("imports the first of many panels", () => {
  const { dashboard } = readGrafana({ panels: Array.from({ length: 500 }, () => ({ type: "stat", targets: [{ expr: "up" }] })) });
  expect(dashboard.panels).toHaveLength(MAX_PANELS);
});
