// The commands that read telemetry: `atherops logs`, `tail`, `metrics`, `traces` and `trace`.
import type { Command } from "commander";
import { addLogCommands } from "./log-commands.ts";
import { addMetricsCommand } from "./metrics-command.ts";
import type { Console } from "./output.ts";
import { type RangeOptions, read, withRange } from "./read-rows.ts";
import { addTraceCommands } from "./trace-commands.ts";

const SPAN_COLUMNS = ["Timestamp", "Service", "Operation", "DurationMs", "StatusCode", "TraceID", "SpanID"];

export function addQueryCommands(program: Command, console: Console): void {
  addLogCommands(program, console);
  addMetricsCommand(program, console);

  const traces = withRange(program.command("traces").description("the newest spans of your organisation, oldest first"))
    .option("--service <name>", "service.name of the sender")
    .option("--error", "only spans with an error")
    .option("--trace-id <hex>", "all spans of one trace")
    .addHelpText(
      "after",
      "\nExamples:\n  atherops traces --service checkout --error\n  atherops traces --trace-id 5b8aa5a2d2c872e8321cf37308d69df2 --json",
    );
  traces.action(async (options: RangeOptions & { service?: string; error?: boolean; traceId?: string }) => {
    const query = { service: options.service, error: options.error ? "true" : undefined, trace_id: options.traceId };
    await read(console, { path: "/query/traces", time: "Timestamp", columns: SPAN_COLUMNS }, query, options);
  });
  addTraceCommands(program, traces, console);
}
