// `atherops metrics`: shows the values of a PromQL expression, now or over a time range. Invariant: every kind of value that the engine
// returns is shown.
import { Option, type Command } from "commander";
import { durationWithin } from "../../common/duration.ts";
import { parseTime } from "../../common/time.ts";
import { explainSyntax } from "../client/query-syntax.ts";
import { WrongUsage } from "./cli-error.ts";
import { terminalWidth, type Console } from "./output.ts";
import { rowLimit, sinceStart } from "./query-rows.ts";
import { type Series, sparklines, type TimeRange } from "./sparkline.ts";
import type { Row } from "./text-table.ts";

interface Sample {
  metric: Record<string, string>;
  value: [number, string];
}

type Answer =
  | { resultType: "vector"; result: Sample[] }
  | { resultType: "matrix"; result: Series[] }
  | { resultType: "scalar" | "string"; result: [number, string] };

interface MetricsOptions {
  since?: string;
  start?: string;
  end?: string;
  step?: string;
  limit: string;
}

/** The finest resolution that a terminal shows; it also fits into a page of the engine. */
const POINTS = 240;
const BASE = "/query/prometheus/api/v1";

const EXAMPLES = `
Examples:
  atherops metrics system_memory_usage_bytes
  atherops metrics 'sum by (k8s_namespace_name) (k8s_pod_memory_working_set_bytes)' --json
  atherops metrics 'rate(http_requests_total[5m])' --since 1h     a sparkline for each series
  atherops metrics up --start 2026-11-22T00:00:00Z --end 2026-11-22T06:00:00Z --step 5m --json`;

export function addMetricsCommand(program: Command, console: Console): void {
  program
    .command("metrics <expression>")
    .description("evaluate a PromQL expression now, or over a time range")
    .addOption(new Option("--since <duration>", "evaluate over this time, such as 15m, 24h, 7d").conflicts(["start"]))
    .option("--start <time>", "RFC 3339, instead of --since")
    .option("--end <time>", "RFC 3339 (default now)")
    .option("--step <duration>", "resolution (default: as fine as can be shown)")
    .addOption(new Option("--limit <series>", "maximum number of series to draw").default("100", "100"))
    .addHelpText("after", EXAMPLES)
    .action(async (query: string, options: MetricsOptions) => {
      const range = parseRange(options);
      try {
        if (range) await overTime(console, query, range, options);
        else await now(console, query);
      } catch (error) {
        if (!(error instanceof WrongUsage)) throw error;
        const explained = explainSyntax(query, error.message);
        throw explained === error.message ? error : new WrongUsage(`<expression>: ${explained}`, { cause: error });
      }
    });
}

async function now(console: Console, query: string): Promise<void> {
  const { data } = await console.call<{ data: Answer }>("GET", `${BASE}/query`, { query: { query } });
  if (data.resultType === "matrix") return draw(console, data.result, sampleRange(data.result), Number.POSITIVE_INFINITY);
  const samples = data.resultType === "vector" ? data.result : [{ metric: {}, value: data.result }];
  console.print(
    samples.map(({ metric, value: [, value] }) => ({ ...splitName(metric), value })),
    ["name", "value", "labels"],
  );
}

async function overTime(console: Console, query: string, range: TimeRange, { limit }: MetricsOptions): Promise<void> {
  const maxSeries = rowLimit(limit);
  const { startS, endS, stepS } = range;
  const params = { query, start: String(startS), end: String(endS), step: `${stepS}s` };
  const { data } = await console.call<{ data: { result: Series[] } }>("GET", `${BASE}/query_range`, { query: params });
  draw(console, data.result, range, maxSeries);
}

function draw(console: Console, series: readonly Series[], range: TimeRange, maxSeries: number): void {
  const { stdout } = console.world;
  if (console.json) {
    const rows = series.map(({ metric, values }) => ({
      ...splitName(metric),
      values: values.map(([seconds, value]) => [new Date(seconds * 1000).toISOString(), value]),
    }));
    return console.print(rows, []);
  }
  if (series.length === 0) return console.note("no series in this time range");
  stdout.write(`${sparklines(series.slice(0, maxSeries), range, terminalWidth(stdout)).join("\n")}\n`);
  if (series.length > maxSeries)
    console.note(`only the first ${maxSeries} of ${series.length} series are shown; aggregate them, or use --limit to show more`);
}

function splitName({ __name__: name, ...labels }: Readonly<Record<string, string>>): Row {
  return { name, labels };
}

/** Undefined if the current value is requested. Throws Problem if a time cannot be parsed. */
function parseRange({ since, start, end, step }: MetricsOptions): TimeRange | undefined {
  if (since === undefined && start === undefined) {
    const option = end !== undefined ? "--end" : step !== undefined ? "--step" : undefined;
    if (option !== undefined) throw new WrongUsage(`${option}: requires --since or --start`);
    return undefined;
  }
  const startS = readSeconds("--start", start ?? sinceStart(since) ?? "");
  const endS = end === undefined ? Math.floor(Date.now() / 1000) : readSeconds("--end", end);
  if (endS <= startS) throw new WrongUsage("the time range ends before it starts: see --since, --start and --end");
  return { startS, endS, stepS: parseStep(endS - startS, step) };
}

function readSeconds(option: string, text: string): number {
  const time = parseTime(text);
  if (time === undefined) throw new WrongUsage(`${option} ${text}: write it as 2026-11-22T10:00:00Z`);
  return Number(time / 1_000_000_000n);
}

function parseStep(rangeS: number, step: string | undefined): number {
  if (step === undefined) return Math.max(1, Math.ceil(rangeS / POINTS));
  const ms = durationWithin(step, { minMs: 1 });
  if (ms === undefined) throw new WrongUsage(`--step ${step}: write it as 30s, 5m or 1h`);
  return ms / 1000;
}

/** The range from the first raw sample to the last. */
function sampleRange(series: readonly Series[]): TimeRange {
  const ends = series.flatMap(({ values }) => [values[0]?.[0] ?? [], values.at(-1)?.[0] ?? []].flat());
  const [startS, endS] = [ends.reduce((a, b) => Math.min(a, b), Infinity), ends.reduce((a, b) => Math.max(a, b), 0)];
  const points = series.reduce((longest, { values }) => Math.max(longest, values.length), 2);
  return { startS, endS, stepS: (endS - startS) / (points - 1) || 1 };
}
