import { expect, test } from "vitest";
import { toolPath } from "../../hack/fetch-tools.ts";
import { DryRun } from "../engines/vmalert/dry-run.ts";
import { findTemplateProblem } from "./rule-text.ts";

const TAKEN = [
  "no template } { at all }}",
  "{{ $value }}",
  "{{$value}}",
  "{{- $value -}}",
  "{{-\n$value\t-}}",
  "{{ $labels.job }} fails {{ $value | humanizePercentage }}",
  '{{ printf "%.2f" $value | toUpper | title }}',
  "a {{ .Value }} {{ $expr }}} z",
];
const REFUSED = [
  "{{{ $value }}",
  "{ {{{ $value }} }",
  "{{ $value }} {{{{ $value }}}}",
  "{{-$value}}",
  "{{ $value-}}",
  "{{ $value -}} {{ range .Labels }}",
  "{{\u00a0$value }}",
  "{{ $value",
  "{{}}",
  "{{/* a comment */}}",
];

test.each(REFUSED)("rejects %j", (text) => {
  expect(findTemplateProblem(text)).toMatch(/is not allowed: templates may print/);
});

test("vmalert accepts each accepted text", async () => {
  const dryRun = new DryRun({ candidates: [await toolPath("vmalert")] });
  const annotations = Object.fromEntries(TAKEN.map((text, at) => [`a${at}`, text]));
  expect(TAKEN.map(findTemplateProblem).filter((reason) => reason !== undefined)).toEqual([]);
  const rule = { alert: "a", expr: "up == 0", forMs: 0, labels: {}, annotations };
  expect(await dryRun.check({ name: "org", params: {}, concurrency: 1, limit: 1, rules: [rule] })).toBeUndefined();
});
