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

test("any well-formed text survives quoting, on one line, without what vmalert would expand", () => {
  const odd = fc.constantFrom(
    "%",
    "{",
    "%{HOME}",
    "\\",
    '"',
    "\n",
    "\r",
    "\t",
    "\u0085",
    "\u2028",
    "\ufeff",
    "\uffff",
    "\u00a0",
    "ü",
    "😀",
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string({ unit: "binary", maxLength: 50 }),
        fc.array(odd).map((parts) => parts.join("")),
      ),
      (text) => {
        const quoted = quote(text);
        expect(quoted).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\ufeff]|%\{/);
        expect(parse(quoted)).toBe(text);
        expect(Buffer.byteLength(quoted)).toBeLessThanOrEqual(
          2.5 * Buffer.byteLength(text) + text.replaceAll(/[^\0-\x1f\x7f-\x9f]/g, "").length * 2 + 2,
        );
      },
    ),
    { numRuns: 1000 },
  );
  expect(quote("größe 😀 100 %")).toBe('"größe 😀 100 %"');
});

test("vmalert takes every character that a rule may hold", async () => {
  const isAllowed = (point: number): boolean =>
    (point >= 0x20 || [9, 10, 13].includes(point)) &&
    !(point >= 0x7f && point <= 0x9f) &&
    !(point >= 0xd800 && point <= 0xdfff) &&
    point !== 0xfeff;
  const points = Array.from({ length: 0x1_0000 }, (_, point) => point).filter(isAllowed);
  const astral = Array.from({ length: 0x1000 }, (_, at) => 0x1_0000 + at * 0x100 + (at % 0x100));
  const all = [...points, ...astral];
  const pieces = Array.from({ length: Math.ceil(all.length / 5000) }, (_, at) =>
    String.fromCodePoint(...all.slice(at * 5000, (at + 1) * 5000)),
  );
  const rules = pieces.map((piece, at) => ({ alert: `a${at}`, expr: "up == 0", forMs: 0, labels: { piece }, annotations: {} }));
  const dryRun = new DryRun({ candidates: [await toolPath("vmalert")] });
  expect(await dryRun.check({ ...group(), rules })).toBeUndefined();
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
