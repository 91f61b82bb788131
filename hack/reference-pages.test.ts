// The table of settings is the only source: the reference page shows a changed default, every variable that is read is a row of the
// table, and the charts have the same defaults and ranges.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { readSettings as readAgentSettings } from "../agent/settings.ts";
import { readSettings as readBackendSettings } from "../backend/settings.ts";
import agentHelp from "../common/agent-metrics.json" with { type: "json" };
import { integer } from "../common/settings-kinds.ts";
import { group, setting, type Setting, type Table } from "../common/settings-table.ts";
import { AGENT_TABLE, agentMetrics, BACKEND_TABLE, LIMIT_FILES, limitsPage, readLimits, settingsSections } from "./reference-pages.ts";

const ROOT = join(import.meta.dirname, "..");

test("a changed default, range or unit in the table changes the page", () => {
  const table = (initial: string, min: number, unit: string) =>
    group("Listeners", { count: setting("COUNT", integer({ min }), { default: initial, unit, description: "Of a listener." }) });
  expect(settingsSections(table("8192", 64, "connections"))).toBe(
    "\n## Listeners\n\n| setting | type and range | default | meaning |\n| --- | --- | --- | --- |\n" +
      "| `COUNT` | integer, at least 64, connections | `8192` | Of a listener. |\n",
  );
  for (const other of [table("4096", 64, "connections"), table("8192", 1, "connections"), table("8192", 64, "files")])
    expect(settingsSections(other)).not.toBe(settingsSections(table("8192", 64, "connections")));
});

/** The names that `read` asks the environment for. */
function namesRead(read: (env: NodeJS.ProcessEnv) => unknown): Set<string> {
  const names = new Set<string>();
  const env = new Proxy<NodeJS.ProcessEnv>(
    {},
    {
      get: (_target, name) => {
        if (typeof name === "string" && /^[A-Z0-9_]+$/.test(name)) names.add(name);
        return undefined;
      },
    },
  );
  try {
    read(env);
  } catch {
    // Required settings are missing, which is reported after all were read.
  }
  return names;
}

/** Where programs are looked up; not settings of ours. */
const OF_THE_SYSTEM = new Set(["PATH", "XDG_CACHE_HOME", "HOME"]);

test.each([
  ["agent", AGENT_TABLE, (env: NodeJS.ProcessEnv) => [readAgentSettings("host", env)]],
  ["agent", AGENT_TABLE, (env: NodeJS.ProcessEnv) => [readAgentSettings("cluster", env)]],
  ["backend", BACKEND_TABLE, (env: NodeJS.ProcessEnv) => [readBackendSettings(env)]],
] as const)("the %s reads no variable that is missing in its table", (_program, table, read) => {
  const listed = new Set(Object.values(table).flatMap(({ name }) => [name, `${name}_FILE`]));
  expect([...namesRead(read)].filter((name) => !listed.has(name) && !OF_THE_SYSTEM.has(name))).toEqual([]);
});

interface Schema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly pattern?: string;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
}

/** The environment variable for the chart's default. Undefined: the value has another form, such as a Secret's name. */
function asVariable(value: unknown, row: Setting): string | undefined {
  if (Array.isArray(value)) return value.join(",");
  if (typeof value === "object" && value !== null) {
    const switches = Object.entries(value).filter(([, isOn]) => typeof isOn === "boolean");
    return row.kind.range?.values?.every((name) => Object.hasOwn(value, name))
      ? switches.flatMap(([name, isOn]) => (isOn ? [name] : [])).join(",")
      : undefined;
  }
  return String(value);
}

describe.each([
  ["cluster-agent", AGENT_TABLE],
  ["backend", BACKEND_TABLE],
] as const)("the chart %s", (chart, table) => {
  const read = (file: string) => readFileSync(join(ROOT, "charts", chart, file), "utf8");
  const values: unknown = parse(read("values.yaml"));
  const schema = JSON.parse(read("values.schema.json")) as Schema;
  const rows = Object.values(table).filter(({ value }) => value !== undefined);
  const cases = rows.map((row) => [row.value ?? "", row.name, row] as const);
  const valueAt = (path: string) => path.split(".").reduce((at, name) => (at as Record<string, unknown>)[name], values);
  const schemaAt = (path: string) => path.split(".").reduce<Schema | undefined>((at, name) => at?.properties?.[name], schema);

  test.each(cases)("has the default of the code for %s (%s)", (path, _name, row) => {
    const inCluster = typeof row.default === "object" ? row.default["cluster"] : row.default;
    const given = asVariable(valueAt(path), row);
    const expected = row.valueDefault ?? inCluster ?? "";
    expect(given ?? expected).toBe(expected);
  });

  test.each(cases)("accepts for %s what %s accepts", (path, _name, { kind }) => {
    const { enum: words = [], minimum, exclusiveMinimum, maximum, type } = schemaAt(path) ?? {};
    const { min, above, max, values: accepted = [] } = kind.range ?? {};
    // A switch is a boolean in a chart, or a map of booleans. A duration is text; the chart's template checks its bound.
    const isListed = kind.type !== "boolean" && type !== "object";
    const bounds = kind.type === "duration" ? [] : [min, above, max];
    expect({ type: kind.type === "boolean" ? type : "", words: new Set(words), bounds: [minimum, exclusiveMinimum, maximum] }).toEqual({
      type: kind.type === "boolean" ? "boolean" : "",
      words: new Set(isListed ? accepted : []),
      bounds: Object.assign([undefined, undefined, undefined], bounds),
    });
    expect(schemaAt(path)).toBeDefined();
  });
});

test("descriptions are sentences, and defaults are valid", () => {
  const tables: Table[] = [AGENT_TABLE, BACKEND_TABLE];
  const rows = tables.flatMap((table) => Object.values(table));
  expect(rows.length).toBeGreaterThan(120);
  expect(rows.filter(({ description }) => !/^[A-Z`].*\.$/.test(description)).map(({ name }) => name)).toEqual([]);
  const problems = rows.flatMap((row) => {
    const found: string[] = [];
    for (const text of typeof row.default === "object" ? Object.values(row.default) : [row.default ?? []].flat())
      row.kind.parse(text, (problem) => found.push(`${row.name}: ${problem}`));
    return found;
  });
  expect(problems).toEqual([]);
});

test("the page about the agent has every metric", () => {
  expect(
    agentMetrics()
      .map(({ name }) => name)
      .toSorted(),
  ).toEqual(Object.keys(agentHelp).toSorted());
});

test("every limit has a sentence that describes what it limits", async () => {
  const limits = (await Promise.all(LIMIT_FILES.map(readLimits))).flat();
  expect(limits.length).toBeGreaterThan(250);
  expect(limits.filter(({ reason }) => !/^[A-Z`].*[.)]$/s.test(reason)).map(({ name }) => name)).toEqual([]);
});

test("the page shows values with their unit", async () => {
  const page = await limitsPage();
  expect(page).toContain("| `MAX_BODY_BYTES` | 32 MiB |");
  expect(page).toContain("| `MAX_LOGIN_WAIT_MS` | 15m |");
  expect(page).toContain("| `MAX_ROWS_PER_ORG` | 5,000 |");
  // Internal.
  expect(page).not.toContain("MAX_REMEMBERED_QUOTAS");
});
