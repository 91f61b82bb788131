import * as fc from "fast-check";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { toolPath } from "../../../hack/fetch-tools.ts";
import { DryRun } from "./dry-run.ts";
import { quote, renderGroup, renderRuleFile, type RuleGroup } from "./rule-file.ts";

const group = (more: Partial<RuleGroup["rules"][number]> = {}): RuleGroup => ({
  name: "org",
  params: { extra_label: ["org_id=org"] },
  concurrency: 2,
  limit: 10,
  rules: [{ alert: "a", expr: "up == 0", forMs: 90_000, labels: { x: "y" }, annotations: {}, ...more }],
});

test("a file of groups is YAML with exactly what was given", () => {
  expect(parse(renderRuleFile([renderGroup(group()), renderGroup({ ...group(), name: "two" })]))).toEqual({
    groups: ["org", "two"].map((name) => ({
      name,
      params: { extra_label: ["org_id=org"] },
      concurrency: 2,
      limit: 10,
      eval_alignment: false,
      rules: [{ alert: "a", expr: "up == 0", for: "90000ms", labels: { x: "y" }, annotations: {} }],
    })),
  });
  expect(parse(renderRuleFile([]))).toEqual({ groups: [] });
});

test("any well-formed text survives quoting, as plain ASCII without a percent sign", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 50 }), (text) => {
      const quoted = quote(text);
      expect(quoted).toMatch(/^"[ -~]*"$/);
      expect(quoted).not.toContain("%");
      expect(parse(quoted)).toBe(text);
    }),
    { numRuns: 500 },
  );
});

test("vmalert's verdicts: taken, or its reason without file names; those who wait together do not share a verdict", async () => {
  const dryRun = new DryRun({ candidates: [await toolPath("vmalert")] });
  const verdicts = await Promise.all([
    dryRun.check(group()),
    dryRun.check(group({ expr: "up ==" })),
    dryRun.check(group({ alert: 'odd %{HOME} "\\ \u2028😀' })),
    dryRun.check(group({ annotations: { a: "{{ .Nope( }}" } })),
    dryRun.check(group({ alert: "" })),
    dryRun.check(group()),
  ]);
  expect(verdicts).toEqual([
    undefined,
    expect.stringMatching(/^bad MetricsQL expr/),
    undefined,
    expect.stringMatching(/template/),
    expect.stringMatching(/`alert` must be set/),
    undefined,
  ]);
  expect(verdicts.join(" ")).not.toContain("rules.yml");
});

test("a vmalert that is not there is said so at once, with what to do", () => {
  expect(() => new DryRun({ candidates: ["/nowhere/vmalert"] })).toThrow(/VMALERT_PATH/);
});
