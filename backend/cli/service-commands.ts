// `atherops services`: shows rate, errors and latency of services, of one service's operations, and the map of calls between services.
import { Option, type Command } from "commander";
import { columnsOf, type Console } from "./output.ts";
import { sinceStart } from "./query-rows.ts";
import { shapeOfNumbers } from "./sparkline.ts";
import type { Row } from "./table.ts";

const FIGURES = ["rate", "errors", "error_percent", "p50_ms", "p95_ms", "p99_ms"];
/** Width of the sparkline, in points and characters. */
const SHAPE_POINTS = 24;
/** Narrower terminals have no space for it. */
const NARROW_COLUMNS = 90;

interface RangeOptions {
  since?: string;
  start?: string;
  end?: string;
}

const withTimes = (command: Command): Command =>
  command
    .addOption(new Option("--since <duration>", "how far back, such as 15m, 24h, 7d (default 1h)").conflicts(["start"]))
    .option("--start <time>", "RFC 3339, instead of --since")
    .option("--end <time>", "RFC 3339 (default now)");

export function addServiceCommands(program: Command, console: Console): void {
  const services = withTimes(program.command("services").description("services with rate, errors and latency, from their spans"))
    .helpCommand(true)
    .addHelpText("after", "\nExamples:\n  atherops services --since 24h\n  atherops services operations checkout")
    .action(async (options: RangeOptions) => {
      const rows = await rowsOf(console, "/query/services", { ...range(options), points: String(SHAPE_POINTS) });
      const shape = columnsOf(console.world.stdout) < NARROW_COLUMNS ? [] : ["calls_over_time"];
      print(console, rows.map(withShape), ["service", ...FIGURES, ...shape], rows);
    });
  withTimes(services.command("operations <service>"))
    .description("operations of a service, most calls first")
    .addHelpText("after", "\nExample:\n  atherops services operations checkout --since 15m")
    // If both commands have an option, commander assigns it to the parent command.
    .action(async (service: string, _options: RangeOptions, command: Command) => {
      const rows = await rowsOf(console, `/query/services/${encodeURIComponent(service)}/operations`, range(command.optsWithGlobals()));
      print(console, rows.map(roundNumbers), ["operation", "kind", ...FIGURES], rows);
    });
  withTimes(services.command("map"))
    .description("which services call which services, databases, queues and hosts")
    .addHelpText("after", "\nExample:\n  atherops services map --since 24h")
    .action(async (_options: RangeOptions, command: Command) => {
      const { edges } = await console
        .client()
        .call<{ edges: readonly Row[] }>("GET", "/query/services/graph", { query: range(command.optsWithGlobals()) });
      print(console, edges.map(roundNumbers), ["client", "server", "connection", "rate", "failed", "error_percent", "p95_ms"], edges);
    });
}

function range({ since, start, end }: RangeOptions): Record<string, string | undefined> {
  return { start: start ?? sinceStart(since), end };
}

async function rowsOf(console: Console, path: string, query: Record<string, string | undefined>): Promise<readonly Row[]> {
  return (await console.client().page(path, query)).rows;
}

function print(console: Console, shown: readonly Row[], columns: readonly string[], rows: readonly Row[]): void {
  if (rows.length === 0) console.note("no spans in this range; --since 24h looks further back");
  if (console.json) console.lines(rows);
  else if (rows.length > 0) console.print(shown, columns);
}

function withShape(row: Row): Row {
  const { calls } = (row["series"] ?? { calls: [] }) as { calls: readonly number[] };
  return { ...roundNumbers(row), calls_over_time: shapeOfNumbers(calls) };
}

/** Numbers for people, rounded to three significant digits. */
function roundNumbers(row: Row): Row {
  const figures = Object.fromEntries(Object.entries(row).map(([name, value]) => [name, name === "errors" ? value : short(value)]));
  return { ...figures, error_percent: short(Number(row["error_ratio"] ?? 0) * 100) };
}

function short(value: unknown): unknown {
  return typeof value === "number" ? Number(value.toPrecision(3)) : value;
}
