// Files of `atherops apply`: which are valid, which are refused, and which changes they plan.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { type Change, type Existing, planChanges, readSections, type Sections, formatYaml } from "./alerting-file.ts";
import { readInput } from "./text-files.ts";
import { dashboardKind, viewKind } from "./dashboards.ts";
import { channelKind } from "./channel-kind.ts";
import { issuerKind } from "./issuer-commands.ts";
import { inhibitRuleKind, timeIntervalKind } from "./named-settings.ts";
import { routeKind } from "./notification-routes.ts";
import { ruleKind } from "./rule-command.ts";
import { silenceKind } from "./silences.ts";
import { sloKind } from "./slo-commands.ts";

const folder = mkdtempSync(join(tmpdir(), "atherops-files-"));
afterAll(() => rmSync(folder, { recursive: true }));

function read(yaml: string, file = "a.yaml"): Sections {
  const sections: Sections = new Map();
  readSections(file, yaml, [{ section: "channels" }, { section: "rules" }], sections);
  return sections;
}

const RULE = { name: "Down", severity: "critical", expr: "up == 0", for: "5m", enabled: true, labels: {}, annotations: {} };
const exists = (resource: object): Existing => ({ id: "id-1", name: "Down", resource: { ...RULE, ...resource } });
function plan(yaml: string, existing: readonly Existing[] = [], prune = false): Change[] {
  return planChanges(ruleKind, read(yaml).get("rules") ?? [], existing, { prune });
}
const LEAST = "rules: [{name: Down, severity: critical, expr: up == 0, for: 5m}]";

describe("an alerting file", () => {
  test("can have several documents and empty sections, and be one of several", () => {
    const sections = read(`${LEAST}\n---\nchannels:\n---\n# nothing\n`);
    readSections("b.yaml", LEAST, [{ section: "rules" }], sections);
    expect([...sections].map(([name, entries]) => [name, entries.map(({ where }) => where)])).toEqual([
      ["rules", ["a.yaml: rules[0]", "b.yaml: rules[0]"]],
      ["channels", []],
    ]);
  });

  test.each([
    ["what is no YAML", "rules: [", /^a\.yaml: .* at line 1/],
    ["a key that comes twice", "rules: []\nrules: []", /^a\.yaml: Map keys must be unique at line 2/],
    ["a tag that is not known", "rules: !shell [x]", /^a\.yaml: Unresolved tag/],
    ["a section that is not known", "rulez: []", "a.yaml: unknown section rulez: known sections are channels, rules"],
    ["a section that is no list", "rules: {name: x}", "a.yaml: rules: must be a list"],
    ["a file without sections", "- name: x", "a.yaml: must have sections such as `rules:`"],
    ["an entry that has no fields", "rules: [x]", "a.yaml: rules[0]: must be a mapping of fields"],
  ])("is rejected: %s", (_, yaml, message) => {
    expect(() => read(yaml)).toThrow(message);
  });

  test("cannot grow by aliases", () => {
    const lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"];
    for (let level = 1; level < 9; level++)
      lines.push(
        `a${level}: &a${level} [${Array(10)
          .fill(`*a${level - 1}`)
          .join(", ")}]`,
      );
    expect(() => read(lines.join("\n"))).toThrow(/^a\.yaml: Excessive alias count/);
  });

  test("that is missing or a folder is named in the error", async () => {
    await expect(readInput(join(folder, "nope.yaml"), process.stdin)).rejects.toThrow(/nope\.yaml: cannot be read: ENOENT$/);
    await expect(readInput(folder, process.stdin)).rejects.toThrow(/cannot be read: EISDIR$/);
  });
});

describe("rejects an entry", () => {
  test.each([
    ["a field that is missing", "rules: [{name: a, severity: info}]", "a.yaml: rules[0].expr: is missing"],
    ["a field that is not known", `${LEAST.slice(0, -2)}, labls: {}}]`, "a.yaml: rules[0].labls: unknown field"],
    ["a number for text", "rules: [{name: 5, severity: info, expr: up == 0}]", "a.yaml: rules[0].name: must be text; put it in quotes"],
    ["another severity", "rules: [{name: a, severity: loud, expr: up == 0}]", "rules[0].severity: must be one of critical, warning, info"],
    ["text for a flag", `${LEAST.slice(0, -2)}, enabled: "no"}]`, "rules[0].enabled: must be true or false"],
    ["a number as a label", `${LEAST.slice(0, -2)}, labels: {a: 1}}]`, "rules[0].labels: must be a mapping of names to text"],
    ["a rule that comes twice", `${LEAST}\n---\n${LEAST}`, "a.yaml: rules[0]: rule Down appears twice"],
  ])("%s", (_, yaml, message) => {
    expect(() => plan(yaml)).toThrow(message);
  });
});

describe("the plan of changes", () => {
  test("creates a missing rule, with defaults for omitted fields", () => {
    expect(plan(LEAST)).toEqual([{ kind: ruleKind, name: "Down", action: "create", resource: RULE }]);
  });

  test("leaves an equal rule alone, even if its duration is spelled differently", () => {
    expect(plan(LEAST, [exists({ for: "300s" })])).toEqual([{ kind: ruleKind, name: "Down", action: "none" }]);
    expect(plan(LEAST.replace("5m", "five"), [exists({ for: "6 m" })])).toMatchObject([{ action: "change", fields: [{ to: "five" }] }]);
  });

  test("changes a different rule, and prints the changed fields", () => {
    expect(plan(LEAST, [exists({ expr: "up == 1", labels: { a: "b" } })])).toMatchObject([
      {
        action: "change",
        id: "id-1",
        resource: RULE,
        fields: [
          { field: "expr", from: "up == 1", to: "up == 0" },
          { field: "labels", from: { a: "b" }, to: {} },
        ],
      },
    ]);
  });

  test("removes a rule that is in no file only if requested", () => {
    const other = { ...exists({}), name: "Other", id: "id-2" };
    expect(plan(LEAST, [exists({}), other]).map(({ action }) => action)).toEqual(["none"]);
    expect(plan("rules: []", [exists({}), other], true)).toMatchObject([
      { action: "remove", id: "id-1" },
      { action: "remove", id: "id-2" },
    ]);
  });

  test("reads back what it exported", () => {
    const resource = { ...RULE, expr: "a == 0\n  or b > 1", labels: { yes: "no" }, annotations: { text: '{{ $value }}: "x"\n#1\n' } };
    expect(plan(formatYaml({ rules: [resource] }), [exists(resource)])).toMatchObject([{ action: "none" }]);
    expect(plan(formatYaml({ rules: [resource] }))).toMatchObject([{ action: "create", resource }]);
  });
});

describe("the documented example", () => {
  const notification = [channelKind, timeIntervalKind, routeKind, inhibitRuleKind];
  const kinds = [...notification, ruleKind, sloKind, silenceKind, dashboardKind, viewKind, issuerKind];
  const text = (path: string): string => readFileSync(join(import.meta.dirname, path), "utf8");
  const shown = (where: string): string[] => {
    if (where === "help") return [/\n( {2}channels:\n[^]*?)\nExamples:/.exec(text("apply-commands.ts"))?.[1] ?? ""];
    return [...text("../../docs/notification.md").matchAll(/```yaml\n([^]*?)```/g)].map(([, yaml = ""]) => yaml);
  };

  test.each(["help", "page"])("by the %s is parsed as a whole", (where) => {
    const secret = join(folder, "secret");
    writeFileSync(secret, "https://hooks.slack.com/services/k");
    const sections: Sections = new Map();
    for (const yaml of shown(where)) readSections(where, yaml.replaceAll(/(_file: )[\w-]+/g, `$1${secret}`), kinds, sections);
    const changes = kinds.flatMap((kind) => planChanges(kind, sections.get(kind.section) ?? [], [], { prune: false }));
    expect(changes.map(({ kind }) => kind.noun)).toEqual(expect.arrayContaining(["channel", "route", "rule"]));
    const settings = { routing_key: "https://hooks.slack.com/services/k" };
    expect(changes).toContainEqual(expect.objectContaining({ resource: expect.objectContaining({ settings }) }));
  });
});

test("an old file does not create a silence again that has ended", () => {
  const yaml = "rules: [{matchers: [a=b], ends_at: 2026-01-01T00:00:00Z, comment: over}]";
  expect(planChanges(silenceKind, read(yaml).get("rules") ?? [], [], { prune: false })).toMatchObject([{ action: "none" }]);
});
