// `atherops logs` and `atherops traces`: the newest rows of a query, or a live tail; `atherops metrics`: the value of an expression now.
import { Option, type Command } from "commander";
import { follow } from "./follow.ts";
import type { Console } from "./output.ts";
import { addTraceCommands } from "./trace-commands.ts";
import { labels, newest, type Query, rowLimit, sinceStart } from "./query-range.ts";
import { table, visible, type Row } from "./table.ts";

interface RangeOptions {
  since?: string;
  start?: string;
  end?: string;
  limit: string;
  follow?: boolean;
}

export function addQueryCommands(program: Command, console: Console): void {
  const logs = withRange(program.command("logs").description("the newest logs of your organisation, in the order of their times"))
    .option("--source <name>", "service.name of the sender")
    .option("--level <level>", "trace, debug, info, warn, error or fatal")
    .option("--grep <text>", "part of the message, in any case")
    .option("--label <key=value>", "a label, exactly; repeatable", (value: string, all: string[]) => [...all, value], [])
    .option("--host-id <id>", "cluster, host or key that sent it")
    .option("--node <name>", "its name")
    .addHelpText("after", "\nExamples:\n  atherops logs --level error --since 24h --grep timeout\n  atherops logs --follow --node web-1");
  logs.action(async (options: RangeOptions & Record<string, string> & { label: string[] }) => {
    const { source, level, grep, hostId, node } = options;
    const query = { source, level, q: grep, host_id: hostId, node, ...labels(options.label) };
    await read(console, { path: "/query/logs", time: "timestamp", line: logLine }, query, options);
  });

  addMetrics(program, console);

  const traces = withRange(program.command("traces").description("the newest spans of your organisation, in the order of their times"))
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

interface Sample {
  metric: Record<string, string>;
  value: [number, string];
}

function addMetrics(program: Command, console: Console): void {
  program
    .command("metrics <expression>")
    .description("the value of a PromQL expression now, over the metrics of your organisation")
    .addHelpText(
      "after",
      `
Examples:
  atherops metrics system_memory_usage_bytes
  atherops metrics 'sum by (k8s_namespace_name) (k8s_pod_memory_working_set_bytes)' --json`,
    )
    .action(async (query: string) => {
      const answer = await console
        .client()
        .call<{ data: { result: Sample[] } }>("GET", "/query/prometheus/api/v1/query", { query: { query } });
      const rows = answer.data.result.map(({ metric, value: [, value] }) => {
        const { __name__: name, ...labels } = metric;
        return { name, labels, value };
      });
      console.print(rows, ["name", "value", "labels"]);
    });
}

const SPAN_COLUMNS = ["Timestamp", "Service", "Operation", "DurationMs", "StatusCode", "TraceID", "SpanID"];

function withRange(command: Command): Command {
  return command
    .addOption(new Option("--since <duration>", "how far back, such as 15m, 24h, 7d (default 1h)").conflicts(["start"]))
    .option("--start <time>", "RFC 3339, instead of --since")
    .option("--end <time>", "RFC 3339 (default now)")
    .addOption(new Option("--limit <rows>", "how many of the newest").default("100", "100"))
    .addOption(new Option("--follow", "then print what arrives, until Ctrl-C").conflicts(["end"]));
}

interface Shape {
  path: string;
  /** The field that holds the time. */
  time: string;
  line?: (row: Row) => string;
  columns?: readonly string[];
}

async function read(console: Console, shape: Shape, filters: Query, options: RangeOptions): Promise<void> {
  const query = { ...filters, start: options.start ?? sinceStart(options.since), end: options.end };
  const client = console.client();
  const rows = await newest(console, shape.path, query, rowLimit(options.limit));
  const print = (some: readonly Row[], first: boolean) => printRows(console, shape, some, first);
  print(rows.toReversed(), true);
  if (options.follow)
    await follow({
      client,
      path: shape.path,
      time: shape.time,
      filters,
      seen: rows,
      start: query.start,
      print,
      signal: console.world.signal,
    });
}

function printRows(console: Console, { line, columns = [] }: Shape, rows: readonly Row[], first: boolean): void {
  const { stdout } = console.world;
  if (console.json) for (const row of rows) stdout.write(`${JSON.stringify(row)}\n`);
  else if (line) for (const row of rows) stdout.write(`${line(row)}\n`);
  else if (rows.length > 0) stdout.write(`${first ? table(rows, columns) : table(rows, columns).split("\n").slice(1).join("\n")}\n`);
  if (first && rows.length === 0) console.note("nothing in this range; --since 24h looks further back");
}

function logLine({ timestamp, level, source, node, message }: Row): string {
  const fields = [
    String(timestamp).replace(/(\.\d{3})\d*Z$/, "$1Z"),
    String(level).padEnd(5),
    visible(`${String(node)}/${String(source)}`),
  ];
  return `${fields.join("  ")}  ${visible(String(message))}`;
}
