// Validation of rule bodies on real engines: which ones are refused and for which field, and which expressions are evaluated.
import { randomUUID } from "node:crypto";
import type { LightMyRequestResponse } from "fastify";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { alertingApp, type AlertingApp } from "../../test/fixtures/alerting-app.ts";

vi.setConfig({ testTimeout: 180_000 });

let service: AlertingApp;
let admin: string;

beforeAll(async () => {
  service = await alertingApp();
  admin = `${await service.makeOrg()}:admin`;
});

afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
});

const body = (more: object = {}): Record<string, unknown> => ({ name: randomUUID(), severity: "warning", expr: "up == 0", ...more });
const create = async (more: object = {}): Promise<LightMyRequestResponse> => await service.call("POST", "/rules", admin, body(more));
const shown = (answer: LightMyRequestResponse): unknown[] => [answer.statusCode, answer.json().error, answer.json().message];

const over = (more: object): object => ({
  expr: undefined,
  logs: { filter: { level: "error" }, window: "5m", operator: ">", threshold: 2, ...more },
});

describe("an invalid rule is 400 and names the field", () => {
  const long = "x".repeat(201);
  test.each<[field: string, more: object]>([
    ["name", { name: undefined }],
    ["name", { name: "" }],
    ["name", { name: long }],
    ["name", { name: 7 }],
    ["name", { name: "a\nb" }],
    ["name", { name: "a\u0000b" }],
    ["name", { name: "\ufeff" }],
    ["name", { name: "half \ud83d" }],
    ["severity", { severity: undefined }],
    ["severity", { severity: "fatal" }],
    ["severity", { severity: "Critical" }],
    ["expr", { expr: undefined }],
    ["expr", { expr: "" }],
    ["expr", { expr: `${"x".repeat(10_000)} > 1` }],
    ["expr", { expr: "up" }],
    ["expr", { expr: "up >" }],
    ["expr", { expr: "nosuchfunc(up) > 1" }],
    ["expr", { expr: "histogram_quantile(up) > 1" }],
    ["expr", { expr: 'up{x=~"("} > 1' }],
    ["expr", { expr: "max_over_time(quantile_over_time(0.5, rand(1)[1h:1s])[1d:1s]) > 0" }],
    ["expr", { expr: "up > 1 }} {{ x" }],
    ["expr", { expr: "up == 0\u0007" }],
    ["logs.window", over({ window: undefined })],
    ["logs.threshold", over({ threshold: "5" })],
    ["logs.threshold", over({ threshold: 1.5 })],
    ["logs.operator", over({ operator: "=~" })],
    ["logs.lookback", over({ lookback: "5m" })],
    ["logs.filter.sauce", over({ filter: { sauce: "x" } })],
    ["logs.filter.label.", over({ filter: { "label.": "x" } })],
    ["logs.filter.trace_id", over({ filter: { trace_id: "'; DROP" } })],
    ["for", { for: "5" }],
    ["for", { for: "5m1h" }],
    ["for", { for: 300 }],
    ["for", { for: "99999999999999y" }],
    ["enabled", { enabled: "true" }],
    ["enabled", { enabled: null }],
    ["severty", { severty: "info" }],
    ["id", { id: randomUUID() }],
    ["labels", { labels: [] }],
    ["labels.team", { labels: { team: 7 } }],
    ["labels.org_id", { labels: { org_id: "other" } }],
    ["labels.rule_id", { labels: { rule_id: "other" } }],
    ["labels.severity", { labels: { severity: "info" } }],
    ["labels.alertname", { labels: { alertname: "x" } }],
    ["labels.__name__", { labels: { __name__: "x" } }],
    ["labels.team", { labels: { team: "{{ $value }}" } }],
    ["annotations.rule_revision", { annotations: { rule_revision: "9" } }],
    ["annotations.a", { annotations: { a: '{{ query "up" }}' } }],
    ["annotations.a", { annotations: { a: '{{define "a"}}{{end}}' } }],
    ["annotations.a", { annotations: { a: "{{ $value | jsonEscape | jsonEscape | jsonEscape | jsonEscape }}" } }],
    ["annotations.a", { annotations: { a: '{{ printf "%999999d" 1 }}' } }],
    ["annotations", { expr: `up{x="${"y".repeat(8000)}"} == 0`, annotations: { a: "{{ $expr }}".repeat(9) } }],
    ["annotations", { annotations: { a: "{{ $labels.a | queryEscape | jsonEscape | htmlEscape }}" } }],
  ])("%s in %j", async (field, more) => {
    const answer = await create(more);
    expect(shown(answer)).toEqual([400, "invalid_field", expect.stringMatching(new RegExp(`^${field}(?:\\.[a-z]+)?: .`))]);
  });

  test("an invalid label name is reported with the field labels", async () => {
    expect(shown(await create({ labels: { "a b": "x" } }))).toEqual([400, "invalid_field", expect.stringMatching(/^labels/)]);
  });

  test("validation reports the same with 200, also for an expression alone", async () => {
    const answer = await service.call("POST", "/rules/validate", admin, { expr: "nosuchfunc(up) > 1" });
    expect([answer.statusCode, answer.json()]).toEqual([200, { valid: false, message: expect.stringMatching(/^expr: .*nosuchfunc/) }]);
    expect((await service.call("POST", "/rules/validate", admin, {})).statusCode).toBe(400);
  });
});

/** They are created together, so that all wait for the same evaluation. */
const VALID = Object.entries<object>({
  "every kind of text in its name": { name: "größe: {{ x }} %{HOME} - \"quoted\" 'single' # not a comment 😀 \u202e" },
  "a YAML look-alike": { name: "- !!python/object [a, b]: &x *x | >" },
  "an expression over several lines with a comment": { expr: "# first\nsum(up) # then\n\t> 1\r\n" },
  "10,000 characters": { expr: `up{x="${"y".repeat(9986)}"} > 1`.slice(0, 10_000) },
  "free labels": { labels: { team: "söl", empty: "", Exported_1: "x" } },
  "annotations with formatters": {
    annotations: { text: '{{ $value | humanize }} {{ printf "%.2f" $value }} {{ $labels.instance }} {{- humanizeDuration $value -}}' },
  },
  "a for of every unit": { for: "1w2d3h4m5s6ms" },
  "a for of 0": { for: "0" },
  "a comparison of constants": { expr: "1 > 0" },
  "a percent sign and a brace": { expr: 'up % {x="%{PATH}"} > 1' },
});

test("valid rules are returned as sent, and evaluated", async () => {
  const ids: [what: string, id: string][] = [];
  for (const [what, more] of VALID) {
    const created = await create(more);
    expect([what, created.statusCode, created.json()]).toEqual([what, 201, expect.objectContaining(more)]);
    ids.push([what, created.json().id]);
  }
  await vi.waitFor(async () => {
    for (const [what, id] of ids)
      expect((await service.call("GET", `/rules/${id}/status`, admin)).json(), what).toMatchObject({ last_eval: expect.any(String) });
  }, 60_000);
});
