import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { toolPath } from "../../../hack/fetch-tools.ts";
import { DryRun } from "./dry-run.ts";
import { quote, renderGroup, renderRuleFile, type RuleGroup } from "./rule-files.ts";

const group = (more: Partial<RuleGroup["rules"][number]> = {}): RuleGroup => ({
  name: "org",
  params: { extra_label: ["org_id=org"] },
  concurrency: 2,
  limit: 10,
  rules: [{ alert: "a", expr: "up == 0", forMs: 90_000, labels: { x: "y" }, annotations: {}, ...more }],
});

test("a file of groups is YAML with exactly the given content", () => {
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

test("any well-formed text survives quoting, on one line, without expansion by vmalert", () => {
  const odd = fc.constantFrom(...'% { %{HOME} \\ " \n \r \t \u0085 \u2028 \ufeff \uffff \u00a0 ü 😀'.split(" "));
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

test("vmalert accepts every character that a rule can contain", async () => {
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

test("vmalert accepts a group, or rejects it with a reason without file names; groups in one run have separate results", async () => {
  const dryRun = new DryRun({ candidates: [await toolPath("vmalert")] });
  const rejections = await Promise.all([
    dryRun.check(group()),
    dryRun.check(group({ expr: "up ==" })),
    dryRun.check(group({ alert: 'odd %{HOME} "\\ \u2028😀' })),
    dryRun.check(group({ annotations: { a: "{{ .Nope( }}" } })),
    dryRun.check(group({ alert: "" })),
    dryRun.check(group()),
  ]);
  expect(rejections).toEqual([
    undefined,
    expect.stringMatching(/^bad MetricsQL expr/),
    undefined,
    expect.stringMatching(/template/),
    expect.stringMatching(/`alert` must be set/),
    undefined,
  ]);
  expect(rejections.join(" ")).not.toContain("rules.yml");
});

test("an invalid group costs the others in its run one more run, and a group whose client disconnected is not run", async () => {
  using folder = temporaryFolder();
  const runs = join(folder.path, "runs");
  const program = join(folder.path, "vmalert");
  const counted = `#!/bin/sh\nfor a in "$@"; do case "$a" in -rule=*) ls $(dirname "\${a#-rule=}") | wc -l >> '${runs}';; esac; done\n`;
  writeFileSync(program, `${counted}exec '${await toolPath("vmalert")}' "$@"\n`, { mode: 0o755 });
  const dryRun = new DryRun({ candidates: [program] });
  const first = dryRun.check(group());
  const left = AbortSignal.abort(new Error("the client has left"));
  const spoof = `x\ninvalid group "org" in file "${folder.path}/1.yml": y`;
  const drafts = Array.from({ length: 12 }, (_, at) => group(at % 3 === 0 ? { expr: "up ==", alert: spoof } : {}));
  const rejections = Promise.all(drafts.map(async (draft) => await dryRun.check(draft)));
  const abandoned = Promise.all(drafts.map(async (draft) => await dryRun.check(draft, left).catch((error: Error) => error.message)));
  expect([await first, new Set(await abandoned)]).toEqual([undefined, new Set(["the client has left"])]);
  const bad = expect.stringMatching(/^bad MetricsQL expr/);
  expect(await rejections).toEqual(drafts.map((_, at) => (at % 3 === 0 ? bad : undefined)));
  expect(readFileSync(runs, "utf8").trim().split(/\s+/)).toEqual(["13", "9"]);
});

test("reports a missing vmalert immediately, with what to do", () => {
  expect(() => new DryRun({ candidates: ["/nowhere/vmalert"] })).toThrow(/VMALERT_PATH/);
});
