// `atherops traces` lists spans, `atherops traces search` lists traces, `atherops trace ID` shows one trace as a waterfall.
import { type Command, Option } from "commander";
import { durationMs } from "../../common/duration.ts";
import { WrongUsage } from "./cli-error.ts";
import { collect } from "./named-resources.ts";
import { terminalWidth, type Console } from "./output.ts";
import {
  addRowOptions,
  addTimeOptions,
  labelFilters,
  NOTHING_FOUND,
  printQuery,
  readRows,
  type RowOptions,
  rowLimit,
  type TimeOptions,
  timeRange,
} from "./query-rows.ts";
import { visible } from "./text-table.ts";
import { type TraceSpan, waterfall } from "./waterfall.ts";

const DEFAULT_SPANS = "5000";
const SPAN_COLUMNS = ["Timestamp", "Service", "Operation", "DurationMs", "StatusCode", "TraceID", "SpanID"];
const TRACE_COLUMNS = ["start", "duration_ms", "spans", "errors", "root_service", "root_operation", "trace_id"];

export function addTraceCommands(program: Command, console: Console): void {
  const traces = addRowOptions(
    program.command("traces").description("the newest spans of your organisation, oldest first; `traces search` lists whole traces"),
  )
    .option("--service <name>", "service.name of the sender")
    .option("--error", "only spans with an error")
    .option("--trace-id <hex>", "all spans of one trace")
    .addHelpText(
      "after",
      "\nExamples:\n  atherops traces --service checkout --error\n  atherops traces --trace-id 5b8aa5a2d2c872e8321cf37308d69df2 --json",
    );
  traces.action(async (options: RowOptions & { service?: string; error?: boolean; traceId?: string }) => {
    const filters = { service: options.service, error: options.error ? "true" : undefined, trace_id: options.traceId };
    const hint = async () => await serviceHint(console, options.service);
    await printQuery(console, { path: "/query/traces", time: "Timestamp", filters, columns: SPAN_COLUMNS, hint }, options);
  });
  addSearch(traces, console);
  program
    .command("trace <id>")
    .description("one trace as a waterfall of its spans")
    .addOption(new Option("--limit <spans>", "maximum number of spans").default(DEFAULT_SPANS, DEFAULT_SPANS))
    .addHelpText(
      "after",
      "\nExamples:\n  atherops trace 5b8aa5a2d2c872e8321cf37308d69df2\n  atherops trace 5b8aa5a2d2c872e8321cf37308d69df2 --json | jq .Events",
    )
    .action(async (id: string, { limit }: { limit: string }) => showTrace(console, id, rowLimit(limit)));
}

function addSearch(traces: Command, console: Console): void {
  addTimeOptions(traces.helpCommand(true).command("search"))
    .description("traces of your organisation with a matching span, newest first unless --order is given")
    .option("--service <name>", "service.name of the sender")
    .option("--operation <name>", "name of the span")
    .option("--error", "only with an error")
    .option("--label <key=value>", "an attribute's exact value; repeatable", collect, [])
    .option("--where <comparison>", "key=value, key!=value, key>=500, key (exists), !key; repeatable", collect, [])
    .addOption(new Option("--order <order>", "what is first").choices(["time", "duration", "errors", "spans"]))
    .option("--min <duration>", "minimum duration of the trace, such as 500ms or 2s")
    .option("--max <duration>", "maximum duration of the trace")
    .addOption(new Option("--min-ms <milliseconds>", "the same in milliseconds").hideHelp().conflicts(["min"]))
    .addOption(new Option("--max-ms <milliseconds>", "the same in milliseconds").hideHelp().conflicts(["max"]))
    .addOption(new Option("--limit <traces>", "maximum number of traces").default("100", "100"))
    .addHelpText(
      "after",
      "\nExamples:\n  atherops traces search --service checkout --min 500ms --since 24h\n  atherops traces search --error --label http.route=/pay\n  atherops traces search --order duration --where 'http.response.status_code>=500'",
    )
    // If both commands have an option, commander assigns it to the parent command.
    .action(async (_options: object, command: Command) => search(console, command.optsWithGlobals<SearchOptions>()));
}

const MAX_NAMED = 10;

/** Undefined if the service is known or none was specified. */
async function serviceHint(console: Console, service: string | undefined): Promise<string | undefined> {
  if (service === undefined) return undefined;
  const known = (await console.call<{ service: string }[]>("GET", "/query/services")).map((row) => row.service);
  if (known.includes(service)) return undefined;
  const names = known.slice(0, MAX_NAMED).map(visible).join(", ");
  return `--service ${service}: unknown service; ${known.length === 0 ? "no service has sent spans" : `known services: ${names}`}`;
}

interface SearchOptions extends TimeOptions {
  service?: string;
  operation?: string;
  error?: boolean;
  label: string[];
  where: string[];
  order?: string;
  min?: string;
  max?: string;
  minMs?: string;
  maxMs?: string;
  limit: string;
  /** Option of the parent command. */
  follow?: boolean;
  traceId?: string;
}

async function search(console: Console, options: SearchOptions): Promise<void> {
  if (options.follow) throw new WrongUsage("--follow: a search is not followed; `atherops traces --follow` prints spans as they arrive");
  if (options.traceId !== undefined) throw new WrongUsage(`--trace-id: \`atherops trace ${options.traceId}\` shows one trace`);
  const { service, operation, error, minMs, maxMs } = options;
  const query = {
    service,
    operation,
    error: error ? "true" : undefined,
    min_duration_ms: minMs ?? milliseconds("min", options.min),
    max_duration_ms: maxMs ?? milliseconds("max", options.max),
    where: options.where,
    order: options.order,
    ...timeRange(options),
    ...labelFilters(options.label),
  };
  const rows = await readRows(console, "/query/traces/search", query, rowLimit(options.limit));
  if (rows.length === 0) {
    console.note(NOTHING_FOUND);
    const hint = await serviceHint(console, service);
    if (hint !== undefined) console.note(hint);
  }
  if (console.json) console.lines(rows);
  else if (rows.length > 0) console.print(rows, TRACE_COLUMNS);
}

function milliseconds(option: string, text: string | undefined): string | undefined {
  const ms = text === undefined ? undefined : durationMs(text);
  if (text !== undefined && ms === undefined) throw new WrongUsage(`--${option} ${text}: write it as 500ms, 2s or 1m`);
  return ms?.toString();
}

async function showTrace(console: Console, id: string, limit: number): Promise<void> {
  if (!/^[0-9a-f]{32}$/i.test(id)) throw new WrongUsage(`${id}: a trace has 32 hex digits; \`atherops traces search\` finds some`);
  const { stdout } = console.world;
  const spans = await console.client().rows<TraceSpan>(`/query/traces/${id}`, {}, limit + 1);
  const shown = spans.slice(0, limit);
  if (console.json) console.lines(shown);
  else stdout.write(`${waterfall(shown, terminalWidth(stdout)).join("\n")}\n`);
  if (spans.length > limit) console.note(`only the first ${limit} spans are shown; use --limit to show more`);
}
