// OpenSLO v1 documents: what is exported is read back as the same objective, documents of other tools are understood, and what cannot be
// represented is refused by the name of its field.
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { type Sections, formatYaml, readSections } from "./alerting-file.ts";
import { formatOpenSlo } from "./openslo.ts";
import { sloKind } from "./slo-commands.ts";

function read(yaml: string): unknown[] {
  const sections: Sections = new Map();
  readSections("slo.yaml", yaml, [sloKind], sections);
  return (sections.get("slos") ?? []).map((fields) => {
    const slo = sloKind.read(fields);
    fields.end();
    return slo;
  });
}

const SLO = {
  name: "Checkout: availability",
  description: "of the shop\nand more",
  objective: 99.95,
  window: "30d",
  indicator: { availability: { service: "checkout", operation: "POST /pay" } },
  no_traffic: "ignore",
  alerts: true,
  labels: { team: "shop" },
};

describe("an exported objective is read back unchanged", () => {
  test.each([
    ["over calls", {}],
    ["over latency", { indicator: { latency: { service: "checkout", below: "300ms" } }, objective: 99 }],
    ["over PromQL", { indicator: { promql: { good: 'increase(r{code!~"5.."}[$window])', total: "increase(r[$window])" } } }],
    ["with bad events", { indicator: { promql: { bad: "increase(e[$window])", total: "increase(r[$window])" } }, objective: 99.999 }],
    ["over log records", { indicator: { logs: { total: { source: "a" }, bad: { query: "level:error", "label.x": ["1", "2"] } } } }],
    ["of a month, with bad minutes and without alerts", { window: "month", no_traffic: "bad", alerts: false, labels: {}, description: "" }],
  ])("%s", (_name, more) => {
    const slo = { ...SLO, ...more };
    expect(read(`${formatOpenSlo(slo)}---\n${formatYaml({ slos: [slo] })}`)).toEqual([slo, slo]);
  });
});

test("an exported document has the fields that OpenSLO v1 requires", () => {
  expect(parse(formatOpenSlo(SLO))).toMatchObject({
    apiVersion: "openslo/v1",
    kind: "SLO",
    metadata: { name: "checkout-availability", displayName: SLO.name },
    spec: {
      service: "checkout",
      budgetingMethod: "Occurrences",
      timeWindow: [{ duration: "30d", isRolling: true }],
      objectives: [{ target: 0.9995 }],
      indicator: { spec: { ratioMetric: { counter: true, good: {}, total: {} } } },
    },
  });
});

/** As in the specification's examples. */
const FOREIGN = `
apiVersion: openslo/v1
kind: SLI
metadata: {name: requests}
spec:
  ratioMetric:
    counter: true
    good: {metricSource: {type: Prometheus, spec: {query: 'sum(http_requests_total{code!~"5.."})'}}}
    total: {metricSource: {type: prometheus, spec: {query: 'sum(rate(http_requests_total[{{.window}}]))'}}}
---
apiVersion: openslo/v1
kind: Service
metadata: {name: web}
---
apiVersion: openslo/v1
kind: SLO
metadata: {name: web-availability, labels: {tier: [gold, web]}}
spec:
  service: web
  indicatorRef: requests
  timeWindow: [{duration: 4w, isRolling: true}]
  budgetingMethod: Occurrences
  objectives: [{displayName: good, target: 0.995}]
`;

test("documents of another tool are understood: referenced indicators, selectors of counters, weeks", () => {
  expect(read(FOREIGN)).toMatchObject([
    {
      name: "web-availability",
      objective: 99.5,
      window: "28d",
      indicator: {
        promql: { good: 'increase(http_requests_total{code!~"5.."}[$window])', total: "sum(rate(http_requests_total[$window]))" },
      },
      labels: { tier: "gold,web" },
    },
  ]);
});

test.each([
  ["budgetingMethod: Occurrences", "budgetingMethod: Timeslices", 'spec.budgetingMethod: "Timeslices" is not supported'],
  ["{displayName: good, target: 0.995}", "{target: 0.9}, {target: 0.99}", "spec.objectives: must have exactly one"],
  ["isRolling: true", "isRolling: false", "a calendar window must be 1M"],
  ["indicatorRef: requests", "indicatorRef: others", "indicatorRef must name an SLI"],
  ["type: Prometheus", "type: Datadog", "good.metricSource: its type must be Prometheus"],
  ["sum(http_requests_total", "avg(http_requests_total", "write the range as [$window]"],
  ["displayName: good, target: 0.995", "target: 0.995, targetPercent: 99", "set either target or targetPercent"],
  ["{tier: [gold, web]}", "gold", "metadata.labels: each must be text"],
  ["[gold, web]", "[{gold: web}]", "metadata.labels: each must be text"],
  ["kind: SLO\n", "kind: Slo\n", "kind Slo is not supported"],
])("what cannot be represented is refused: %s becomes %s", (from, to, message) => {
  expect(() => read(FOREIGN.replace(from, to))).toThrow(message);
});
