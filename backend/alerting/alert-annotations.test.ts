import { expect, test } from "vitest";
import { rawAnnotations, shownAnnotations } from "./alert-annotations.ts";
import { describeEvaluationError } from "./evaluation-error.ts";
import { findTemplateProblem } from "./rule-text.ts";

test.each([
  ["{{ $labels.region | humanizeDuration }} old", "{{ $labels.region }} old"],
  ["{{- .Labels.A | humanize -}}x{{humanize1024 $value}}", "{{- .Labels.A -}}x{{ $value }}"],
  ['{{ $value | printf "%.2f" | humanize }} of {{ $expr | toUpper }}', "{{ $value }} of {{ $expr }}"],
  ['{{printf "%.1f" .Value | humanizePercentage}}', "{{ .Value }}"],
  ["{{ $activeAt | humanizeTimestamp }}, {{ $for | humanizeDuration }}", "{{ $activeAt }}, {{ $for }}"],
])("the raw form of the template %s prints the values", (text, raw) => {
  const forms = rawAnnotations({ summary: text });
  expect(Object.values(forms).map((form) => form.replaceAll(/ +\}\}/g, " }}"))).toEqual([raw]);
  expect([text, ...Object.values(forms)].map(findTemplateProblem)).toEqual([undefined, undefined]);
});

test("a template that cannot fail has no raw form, and an annotation is raw only if its template failed", () => {
  expect(rawAnnotations({ text: "humanize", value: "{{ $value }}", upper: "{{ $labels.a | toUpper }}" })).toEqual({});
  const raw = { __raw_a: "eu-1", __raw_b: "0.5" };
  const error = 'error evaluating template: template: :1:336: executing "" at <humanize>: error calling humanize: parsing "eu-1"';
  expect(shownAnnotations({ a: error, b: "50%", ...raw, rule_revision: "3" })).toEqual({ a: "eu-1", b: "50%" });
});

const BODY = (error: string) =>
  `failed to execute query "up > 0": unexpected response code 422 for http://u:xx@vm/q?extra_label=org_id%3D1. Response body ${error}`;

test.each([
  ['failed to expand annotation templates: errors(1): \n(key: "summary", value: "{{…}}"): error evaluating', /^annotation summary: /],
  ["labels map[tenant:other]: result contains metrics with the same labelset during evaluation", /same labels/],
  ["exec exceeded limit of 5000 with 7123 alerts", /more series than the rule may have alerts/],
  [BODY("duplicate time series on the right side of `* on(a)`"), /one side of an operator/],
  [BODY("timeout exceeded during query execution: 10.000 seconds"), /too long/],
  [BODY("the number of matching timeseries exceeds 300000; either narrow"), /too many series/],
  [BODY("more than -search.maxMemoryPerQuery=268435456 bytes"), /too much memory/],
  [BODY("cannot parse"), /refuses the expression/],
  ["error getting response from http://vm:8428: dial tcp: connection refused", /unavailable/],
  ["unexpected response code 503 for http://x. Response body cannot get data from vmstorage vm-1", /storage node/],
  ["what no version said before", /log has the reason/],
])("the evaluator's error %s is described by its class, without its text", (lastError, expected) => {
  const reason = describeEvaluationError(lastError, { summary: "", other: "" });
  expect(reason).toMatch(expected);
  expect(reason).not.toMatch(/http|tenant|vm-1|extra_label|\d{4}/);
});
