// Evaluates generated metric queries over random records with ClickHouse and with JavaScript: all points must be equal. The JavaScript side
// tests every record itself, including the selector. LOGQL_QUERIES and LOGQL_SEED set the number of queries and the seed.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openEngine } from "../../../test/fixtures/clickhouse-engine.ts";
import type { ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { sql, Sql } from "../../engines/clickhouse/sql.ts";
import { Random } from "../../ingest/otlp/random-documents.fixture.ts";
import { NO_MATCHING } from "../../storage/logs/matching.ts";
import { jsonLine, logfmtLine } from "./line-records.fixture.ts";
import { BOUNDS, Budget } from "./regex.ts";
import { leafOf, neededStages, type SeriesLabels } from "./leaf.ts";
import type { Points } from "./points.ts";
import { type Evaluation, evaluateInEngine, evaluateEachRecord } from "./range-points.ts";
import { readQuery } from "./read-query.ts";
import type { RangeAggregation, Stage } from "./syntax.ts";

const ORG = "org";
const QUERIES = Number(process.env["LOGQL_QUERIES"] ?? 80);
const SEED = Number(process.env["LOGQL_SEED"] ?? 1);
const RECORDS = 400;
/** Behind the others: their lines are JSON or logfmt. */
const LINE_RECORDS = 400;
const START_NS = 1_790_000_000_000_000_000n;
const SPAN_S = 600;
const S = 1_000_000_000n;

const stack = new AsyncDisposableStack();
let clickhouse: ClickHouse;
const generator = new Random(SEED);
const random = (): number => generator.next();
const pick = <T>(values: readonly T[]): T => generator.pick(values);

beforeAll(async () => {
  clickhouse = await openEngine(stack);
  await clickhouse.command(sql`INSERT INTO logs (org_id, host_id, node, time, id, level, severity_number, source, message, labels, trace_id, span_id,
    scope_name) VALUES ${new Sql(Array.from({ length: RECORDS + LINE_RECORDS }, (_, index) => record(index).text).join(", "))}`);
});
afterAll(() => stack[Symbol.asyncDispose]());

// Texts at the edges of what is a number, a duration, a size.
const NUMBERS = ["1", "2.5", "-3", "1e2", "0.1", "12", "100", "7", "3.25"];
const DURATIONS = ["5ms", "1.5s", "1h2m3.5s", "250us", "3m", "0.25s", "-2s", "10ns", "2\u00b5s"];
const SIZES = ["1KB", "2 MiB", "3.5kb", "512", "1.5G", "7b", "1kib"];
const ODD_NUMBERS = ["5.", ".5", "+5", "1_000", "0x1p-2", "inf", "NaN", "1e400", " 5", "abc", "5ms", "1e", "-", "9007199254740993"];
const ODD_DURATIONS = ["0", "5", "1d", ".5s", "1.s", "999999999h", "1h1h1h1h1h", "5 s", "123456789ns", "s"];
const ODD_SIZES = ["1,024", " 7 kb ", "5e", "1ib", "kb", "-1kb", "1e5", "1..5k", "1.5.5"];

/** The attributes of records; those of `messy` ones have what is seldom seen. */
function attributes(isMessy: boolean): Record<string, string> {
  const found: Record<string, string> = {};
  const maybe = (chance: number, key: string, values: readonly string[]) => {
    if (random() < chance) found[key] = pick(values);
  };
  maybe(0.8, "http.route", ["/a", "/b", "/c"]);
  maybe(0.6, "k8s.pod.name", ["p1", "p2"]);
  maybe(0.5, "thread", ["1", "2", "3"]);
  maybe(0.7, "n", NUMBERS);
  maybe(0.6, "took", DURATIONS);
  maybe(0.6, "size", SIZES);
  if (!isMessy) return found;
  maybe(0.3, "http_route", ["/x", "", "/a"]);
  maybe(0.3, "http/route", ["/y", ""]);
  maybe(0.3, "k8s_pod_name", ["q1", ""]);
  maybe(0.2, "service_name", ["fake", ""]);
  maybe(0.2, "service_name_extracted", ["direct"]);
  maybe(0.2, "level", ["loud", ""]);
  maybe(0.2, "detected.level", ["louder", ""]);
  maybe(0.2, "trace_id", ["own", ""]);
  maybe(0.2, "k8s.pod.name", [""]);
  maybe(0.1, "1st", ["one"]);
  maybe(0.2, "n", [...ODD_NUMBERS, ""]);
  maybe(0.2, "took", [...ODD_DURATIONS, ""]);
  maybe(0.2, "size", [...ODD_SIZES, ""]);
  return found;
}

function record(index: number): Sql {
  const isMessy = index % 2 === 0;
  const [source, message] = index < RECORDS ? [isMessy ? "messy" : "tidy", `GET ${index} ${pick(["ok", "failed"])}`] : line(index, isMessy);
  // Tidy lines have no attributes that a label of the line could be mistaken for.
  const labels = index < RECORDS || isMessy ? Object.entries(attributes(isMessy)).flat() : ["http.method", "GET"];
  const map =
    labels.length === 0
      ? sql`map()`
      : sql`CAST(map(${new Sql(labels.map((text) => sql`${text}`.text).join(", "))}), 'Map(String, String)')`;
  const second = BigInt(Math.floor(random() * SPAN_S));
  // Some are of the first nanosecond of a minute, or the ones around it.
  const aroundMinute = 40n + (second / 60n) * 60n;
  const timeNs = START_NS + (index % 4 === 0 ? aroundMinute * S + BigInt((index % 3) - 1) : second * S + BigInt(index));
  // Records that a query selects by their source "tidy" have nothing that only JavaScript reads.
  const cells = [
    sql`${ORG}, 'h1', ${pick(["n1", "n2"])}, fromUnixTimestamp64Nano(toInt64(${timeNs}), 'UTC'), ${index}, ${pick(["info", "warn", "error"])}`,
    sql`${pick([0, 9, 17])}, ${source}, ${message}, ${map}`,
    sql`${pick(["", "t1"])}, '', ${pick(["", "scope"])}`,
  ];
  return new Sql(`(${cells.map(({ text }) => text).join(", ")})`);
}

function line(index: number, isMessy: boolean): [source: string, message: string] {
  const isJson = index % 4 < 2;
  const source = `${isMessy ? "messy" : "tidy"} ${isJson ? "json" : "logfmt"}`;
  return [source, isJson ? jsonLine(pick, isMessy) : logfmtLine(pick, isMessy)];
}

const NAMES = ["http_route", "k8s_pod_name", "thread", "level", "detected_level", "service_name", "trace_id", "severity_number", "node"];
const RARE_NAMES = ["service_name_extracted", "k8s_pod_name_extracted", "_1st", "scope_name", "nothing_at_all", "host_id"];

function matcher(): string {
  return `${pick([...NAMES, ...RARE_NAMES])} ${pick(['="/a"', '!="/a"', '=~"/.+|p1|info"', '!~".*r.*"', '=""', '!=""', '="loud"', '="p1"'])}`;
}

function comparison(): string {
  const operator = pick([">", ">=", "<", "<=", "==", "!="]);
  return pick([
    `n ${operator} ${pick(["2", "2.5", "0", "-1"])}`,
    `took ${operator} ${pick(["1s", "5ms"])}`,
    `size ${operator} ${pick(["1KB", "1MiB"])}`,
  ]);
}

function stage(): string {
  return pick([
    () => `|= "${pick(["ok", "GET 1", ""])}"`,
    () => `!~ "fail.*"`,
    () => `| ${matcher()}`,
    () => `| ${comparison()}`,
    () => `| ${comparison()} ${pick(["and", "or"])} ${pick([comparison, matcher])()}`,
    () => `| drop ${pick(NAMES)}, trace_id`,
    () => `| keep http_route, n, took, size, thread`,
    () => `| __error__=""`,
    () => `| drop __error__, __error_details__`,
  ])();
}

function names(): string {
  return Array.from({ length: 1 + Math.floor(random() * 2) }, () => pick([...NAMES, ...NAMES, ...RARE_NAMES])).join(", ");
}

const LINE_NAMES = ["took_ms", "user", "level", "code", "trace_id", "n", "http_route", "service_name", "who", "ms", "nothing_at_all"];

function lineFilter(): string {
  return pick([
    () => '| __error__=""',
    () => `| ${pick(LINE_NAMES)} ${pick(['="ada"', '!="ada"', '=""', '!=""', '=~"ada|x y|12"', '="1"', '="null"'])}`,
    () => `| ${pick(["took_ms", "n", "code", "ms"])} ${pick([">", "<=", "==", "!="])} ${pick(["2", "2.5", "0"])}`,
    () => `| ${pick(["took_ms", "code"])} > ${pick(["1ms", "1KB"])}`,
    () => `| drop ${pick(LINE_NAMES)}`,
    () => "| drop __error__, __error_details__",
    () => `| keep ${pick(LINE_NAMES)}, took_ms, n`,
  ])();
}

/** With labels that a stage reads of the line. */
function ofLine(): Generated {
  const form = pick(["json", "logfmt"]);
  const selector = pick([
    `{service_name="tidy ${form}"}`,
    `{service_name="tidy ${form}"}`,
    `{service_name="messy ${form}"}`,
    '{service_name=~".*json"}',
  ]);
  const parser = pick(
    form === "json" ? ["json", "json", 'json took_ms="took_ms", who="user.name", ms="took.ms"', 'json code, n="n"'] : ["logfmt"],
  );
  const stages = [`| ${parser}`, ...Array.from({ length: Math.floor(random() * 3) }, lineFilter)].join(" ");
  const range = `[${pick(["60s", "300s"])}]`;
  const names = Array.from({ length: 1 + Math.floor(random() * 2) }, () => pick(LINE_NAMES));
  const outer: SeriesLabels = pick([{ kind: "none" }, { kind: "by", names }]);
  if (random() < 0.5) return { query: `${pick(["count_over_time", "rate", "bytes_over_time"])}(${selector} ${range} ${stages})`, outer };
  const unwrap = pick(["took_ms", "took_ms", "n", "code", "duration(code)", "bytes(code)", "ms"]);
  const operation = pick(["sum", "avg", "min", "max", "first", "last", "stddev", "quantile"]);
  const parameter = operation === "quantile" ? "0.9, " : "";
  const after = pick(["", '| __error__=""', "| code > 2", '| user!="ada"']);
  const isSum = operation === "sum";
  const grouping = isSum ? "" : pick([` by (${names.join(", ")})`, " by (service_name)"]);
  return {
    query: `${operation}_over_time(${parameter}${selector} ${range} ${stages} | unwrap ${unwrap} ${after})${grouping}`,
    outer: isSum ? outer : undefined,
  };
}

interface Generated {
  readonly query: string;
  readonly outer: SeriesLabels | undefined;
}

function generated(): Generated {
  const selector = pick([
    '{service_name="tidy"}',
    '{service_name="tidy"}',
    '{service_name=~".+"}',
    `{service_name="messy", ${matcher().replace(" ", "")}}`,
  ]);
  const stages = Array.from({ length: Math.floor(random() * 3) }, stage).join(" ");
  const range = `[${pick(["30s", "60s", "150s", "300s", "7s"])}]${pick(["", "", " offset 30s"])}`;
  if (random() < 0.45) {
    const operation = pick(["count_over_time", "rate", "bytes_over_time", "bytes_rate", "absent_over_time"]);
    const outer = pick<SeriesLabels | undefined>([
      undefined,
      { kind: "none" },
      { kind: "by", names: names().split(", ") },
      { kind: "without", names: names().split(", ") },
    ]);
    return { query: `${operation}(${selector} ${range} ${stages})`, outer };
  }
  const unwrap = pick(["unwrap n", "unwrap duration(took)", "unwrap bytes(size)", "unwrap thread"]);
  const after = pick(["", '| __error__=""', `| ${comparison()}`]);
  const operation = pick(["sum", "rate", "avg", "min", "max", "first", "last", "stddev", "stdvar", "quantile"]);
  const parameter = operation === "quantile" ? `${pick(["0", "0.5", "0.9", "1"])}, ` : "";
  const mayGroup = operation !== "sum" && operation !== "rate";
  const grouping = mayGroup ? pick([` by (${names()})`, ` without (${names()})`, ""]) : "";
  const name = operation === "rate" ? "rate" : `${operation}_over_time`;
  const outer = mayGroup
    ? undefined
    : pick<SeriesLabels | undefined>([undefined, { kind: "none" }, { kind: "by", names: names().split(", ") }]);
  return { query: `${name}(${parameter}${selector} ${range} ${stages} | ${unwrap} ${after})${grouping}`, outer };
}

/** What a query answers, by series and step; or why it is refused. */
async function answered(
  work: () => Promise<Points | undefined>,
  { count, isAbsence }: { count: number; isAbsence: boolean },
): Promise<Map<string, number> | string | undefined> {
  try {
    const points = await work();
    if (!points) return undefined;
    const found = new Map<string, number>();
    for (let stepIndex = 0; stepIndex < count; stepIndex += 1) {
      for (const { labels, value } of points.at(stepIndex)) found.set(`${labels.key} @${stepIndex}`, isAbsence ? 1 : value);
    }
    return found;
  } catch (error) {
    return (error as Error).message.replace(/ for series:.*/s, "");
  }
}

function differences(engine: Map<string, number>, script: Map<string, number>): string[] {
  const keys = new Set([...engine.keys(), ...script.keys()]);
  return [...keys].flatMap((key) => {
    const [one, other] = [engine.get(key), script.get(key)];
    return isNear(one, other) ? [] : [`${key}: ClickHouse ${one}, JavaScript ${other}`];
  });
}

function isNear(one: number | undefined, other: number | undefined): boolean {
  if (one === undefined || other === undefined) return false;
  return Object.is(one, other) || Math.abs(one - other) <= 1e-9 * Math.max(1, Math.abs(one), Math.abs(other));
}

/** "JavaScript": ClickHouse does not evaluate it. */
async function compare({ query, outer }: Generated, steps: Evaluation["steps"]): Promise<string[] | "JavaScript"> {
  const range = readQuery(query) as RangeAggregation;
  const leaf = leafOf(range, outer);
  const { selector, stages } = range.log;
  const tested: Stage[] = selector.map((one) => ({ kind: "label_filter", filter: { kind: "match", matcher: one } }));
  return await clickhouse.read(ORG, { labelLimits: undefined }, async (ask) => {
    const evaluation = { ask, orgId: ORG, steps, budget: new Budget(BOUNDS, undefined) };
    const whole = { conditions: [], matching: NO_MATCHING, rest: [...tested, ...neededStages(leaf, stages)] };
    // For absent_over_time, only the existence of a point matters.
    const points = { count: steps.count, isAbsence: range.operation === "absent_over_time" };
    const script = await answered(() => evaluateEachRecord(evaluation, leaf, whole), points);
    const engine = await answered(() => evaluateInEngine(evaluation, leaf), points);
    if (engine === undefined) return "JavaScript";
    const what = `${query} ${JSON.stringify(outer)} of ${steps.count}: `;
    if (typeof engine !== "string" && typeof script === "object")
      return differences(engine, script)
        .map((text) => what + text)
        .slice(0, 3);
    return engine === script ? [] : [`${what}ClickHouse ${JSON.stringify(engine)}, JavaScript ${JSON.stringify(script)}`];
  });
}

const STEPS = [
  { start: START_NS + 300_000_000_000n, step: 1n, count: 1 },
  { start: START_NS, step: 60_000_000_000n, count: 11 },
  { start: START_NS + 7n, step: 25_000_000_000n, count: 20 },
];

describe.each([
  ["a range aggregation", generated, 2],
  ["a range aggregation over labels of the line", ofLine, 4],
] as const)("%s", (_, generate, least) => {
  it(
    `returns the same points by ClickHouse and by JavaScript, ${QUERIES} queries`,
    async () => {
      const found = { alike: 0, JavaScript: 0, otherwise: [] as string[] };
      for (let index = 0; index < QUERIES; index += 1) {
        const problems = await compare(generate(), pick(STEPS));
        if (problems === "JavaScript") found.JavaScript += 1;
        else if (problems.length === 0) found.alike += 1;
        else found.otherwise.push(...problems);
      }
      console.log(JSON.stringify({ seed: SEED, alike: found.alike, JavaScript: found.JavaScript }));
      expect(found.otherwise).toEqual([]);
      expect(found.alike).toBeGreaterThan(QUERIES / least);
    },
    60_000 + QUERIES * 2000,
  );
});

describe("counts by minute", () => {
  const minute = START_NS + 40n * S;
  const BY_MINUTE = [
    { start: minute + 240n * S, step: 1n, count: 1 },
    { start: minute + 247n * S + 5n, step: 1n, count: 1 },
    { start: minute, step: 60n * S, count: 10 },
    { start: minute + 60n * S, step: 120n * S, count: 4 },
    { start: minute + 13n * S, step: 180n * S, count: 4 },
    { start: minute + 1n, step: 60n * S, count: 10 },
    { start: minute - 1n, step: 60n * S, count: 10 },
  ];
  const selectors = ['{service_name="tidy"}', '{service_name=~"tidy|messy"}', '{host_id="h1", service_name!="messy"}'];
  const queries = selectors.flatMap((selector) =>
    ["[60s]", "[300s]", "[300s] offset 60s", "[420s]", "[90s]"].map((range) => `${selector} ${range}`),
  );

  const groupings = [[], ["service_name"], ["level", "host_id"], ["detected_level"]];

  // Each grouping meets each query and each range of steps.
  it.each(queries.map((query, at) => [query, at] as const))("are equal by ClickHouse and by JavaScript: %s", async (query, at) => {
    for (const [nth, steps] of BY_MINUTE.entries()) {
      const names = groupings[(at + nth) % groupings.length] ?? [];
      const outer: SeriesLabels = names.length === 0 ? { kind: "none" } : { kind: "by", names };
      expect(await compare({ query: `count_over_time(${query})`, outer }, steps)).toEqual([]);
      expect(await compare({ query: `absent_over_time(${query})`, outer: undefined }, steps)).toEqual([]);
    }
  });
});

describe("a hostile cardinality", () => {
  const MANY = "many";
  const VALUES = 300_000;
  const instant = { start: START_NS + 300_000_000_000n, step: 1n, count: 1 };
  const perNs = { start: START_NS, step: 1n, count: 10_000 };
  const points = (query: string, name: string, steps: Evaluation["steps"]) => {
    const leaf = leafOf(readQuery(query) as RangeAggregation, { kind: "by", names: [name] });
    return clickhouse.read(MANY, { labelLimits: undefined }, (ask) =>
      evaluateInEngine({ ask, orgId: MANY, steps, budget: new Budget(BOUNDS, undefined) }, leaf),
    );
  };
  beforeAll(async () => {
    await clickhouse.command(sql`INSERT INTO logs (org_id, host_id, time, id, level, source, message, labels)
      SELECT ${MANY}, 'h1', fromUnixTimestamp64Nano(toInt64(${START_NS} + intDiv(number, 30)), 'UTC'), number, 'info', if(number < 30000, 'some', 'all'), 'x',
        map('user.id', toString(number), 'n', toString(number), 'part', toString(number % 30)) FROM numbers(${VALUES})`);
  });

  const SERIES = "this query has more than 20000 series, or 5000000 points: write sum by (…) around it";
  const CELLS = "this query has more than 200000 counts by series and time; write sum by (…) around it";

  it.each([
    ['count_over_time({host_id="h1"}[10m])', "user_id", instant, SERIES],
    ['sum_over_time({host_id="h1"} | unwrap n [10m])', "user_id", instant, SERIES],
    ['count_over_time({service_name="some"}[10m])', "user_id", instant, SERIES],
    ['count_over_time({host_id="h1"}[1us])', "part", perNs, CELLS],
    ['sum_over_time({host_id="h1"} | unwrap n [1us])', "part", perNs, CELLS],
  ] as const)("is rejected: %s by %s", async (query, name, steps, message) => {
    await expect(points(query, name, steps)).rejects.toMatchObject({
      code: "query_too_expensive",
      message: expect.stringContaining(message),
    });
  });
});
