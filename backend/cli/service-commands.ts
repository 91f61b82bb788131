// `atherops services`: shows rate, errors and latency of services, of one service's operations, and the map of calls between services.
import type { Command } from "commander";
import { terminalWidth, type Console } from "./output.ts";
import { addTimeOptions, NOTHING_FOUND, type TimeOptions, timeRange } from "./query-rows.ts";
import { shapeOfNumbers } from "./sparkline.ts";
import type { Row } from "./text-table.ts";

const METRIC_COLUMNS = ["rate", "errors", "error_percent", "p50_ms", "p95_ms", "p99_ms"];
/** Width of the sparkline, in points and characters. */
const TREND_POINTS = 24;
/** Narrower terminals have no space for it. */
const NARROW_COLUMNS = 90;

export function addServiceCommands(program: Command, console: Console): void {
  const services = addTimeOptions(program.command("services").description("services with rate, errors and latency, from their spans"))
    .helpCommand(true)
    .addHelpText("after", "\nExamples:\n  atherops services --since 24h\n  atherops services operations checkout")
    .action(async (options: TimeOptions) => {
      const { rows } = await console.client().page("/query/services", { ...timeRange(options), points: String(TREND_POINTS) });
      const trend = terminalWidth(console.world.stdout) < NARROW_COLUMNS ? [] : ["calls_over_time"];
      print(console, rows, ["service", ...METRIC_COLUMNS, ...trend], withTrend);
    });
  addTimeOptions(services.command("operations <service>"))
    .description("operations of a service, most calls first")
    .addHelpText("after", "\nExample:\n  atherops services operations checkout --since 15m")
    // If both commands have an option, commander assigns it to the parent command.
    .action(async (service: string, _options: TimeOptions, command: Command) => {
      const { rows } = await console
        .client()
        .page(`/query/services/${encodeURIComponent(service)}/operations`, timeRange(command.optsWithGlobals()));
      print(console, rows, ["operation", "kind", ...METRIC_COLUMNS]);
    });
  addTimeOptions(services.command("map"))
    .description("which services call which services, databases, queues and hosts")
    .addHelpText("after", "\nExample:\n  atherops services map --since 24h")
    .action(async (_options: TimeOptions, command: Command) => {
      const { edges } = await console.call<{ edges: readonly Row[] }>("GET", "/query/services/graph", {
        query: timeRange(command.optsWithGlobals()),
      });
      print(console, edges, ["client", "server", "connection", "rate", "failed", "error_percent", "p95_ms"]);
    });
}

function print(console: Console, rows: readonly Row[], columns: readonly string[], toCells = roundNumbers): void {
  if (rows.length === 0) console.note(NOTHING_FOUND);
  if (console.json || rows.length > 0) console.print(rows, columns, toCells);
}

function withTrend(row: Row): Row {
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
