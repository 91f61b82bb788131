// `atherops logs`: shows the newest matching records, their number over time, and the values of their fields; `atherops tail`: shows
// records as they arrive. Invariant: both have the filters of the API.
import type { ApiResponses } from "../client/api.ts";
import { type Command, InvalidArgumentError, Option } from "commander";
import { histogram, type Bucket } from "./text-histogram.ts";
import { terminalWidth, type Console } from "./output.ts";
import { addRowOptions, labelFilters, NOTHING_FOUND, printQuery, type Query, type RowOptions, timeRange } from "./query-rows.ts";
import { type Row, visible } from "./text-table.ts";
import { tail } from "./tail.ts";

interface FilterOptions {
  source?: string;
  level?: string;
  word: string[];
  grep: string[];
  notGrep: string[];
  regex: string[];
  notRegex: string[];
  label: string[];
  notLabel: string[];
  hostId?: string;
  node?: string;
  traceId?: string;
}

interface LogOptions extends FilterOptions, RowOptions {
  histogram?: boolean;
  patterns?: boolean;
  buckets?: string;
  field?: string | true;
}

type Field = ApiResponses["GET /query/logs/fields"][number];

const DEFAULT_BUCKETS = "30";

const LOGS_EXAMPLES = `
Examples:
  atherops logs 'level:error,warn AND (timeout OR refused) AND NOT source:probe*' --since 24h
  atherops logs '{service_name="checkout"} |= "timeout" | json | status >= 500'
  atherops logs --level error --since 24h --grep timeout
  atherops logs --regex 'took \\d{4,} ms' --not-grep healthz --since 7d
  atherops logs --histogram --since 24h --source checkout    counts over time, with errors
  atherops logs --patterns --level error                     message patterns of errors, without numbers and ids
  atherops logs --field --level error                        fields of errors
  atherops logs --field source --since 7d --level error      sources of errors
  atherops logs --trace-id 5b8aa5a2d2c872e8321cf37308d69df2 --since 7d

Regular expressions use RE2 syntax and match anywhere in the first 64 KiB of a message; (?i) ignores case. All filters must match.`;

const TAIL_EXAMPLES = `
Examples:
  atherops tail 'level>=warn AND duration_ms>400'
  atherops tail --level error
  atherops tail --regex '(?i)timeout|refused' --not-label k8s.namespace.name=kube-system
  atherops tail --source checkout --json | jq -r .message

Prints new records in the order of arrival. After a lost connection, reconnects and continues where it stopped, up to 5 minutes later.`;

export function addLogCommands(program: Command, console: Console): void {
  withFilters(addRowOptions(program.command("logs").description("the newest logs of your organisation, oldest first")))
    .addOption(new Option("--histogram", "counts by time and level, instead of the logs").conflicts(["follow"]))
    .addOption(new Option("--buckets <lines>", `lines of the histogram, 1 to 500 (default ${DEFAULT_BUCKETS})`))
    .addOption(
      new Option(
        "--field [name]",
        "the most frequent values of a field, such as source or label.http.route; without a name: of all fields",
      ).conflicts(["follow"]),
    )
    .addHelpText("after", LOGS_EXAMPLES)
    .addOption(
      new Option("--patterns", "the most frequent patterns of messages; <_> is a part that differs").conflicts([
        "follow",
        "histogram",
        "field",
      ]),
    )
    .action(async (words: string[], options: LogOptions) => {
      const filters = apiFilters(words, options);
      if (options.patterns) return await showPatterns(console, filters, options);
      if (options.histogram) await showHistogram(console, filters, options);
      if (options.field !== undefined) await showFields(console, filters, options, options.field);
      if (!options.histogram && options.field === undefined) {
        const hint = (): string | undefined => levelHint(options.level);
        await printQuery(console, { path: "/query/logs", time: "timestamp", filters, line: logLine, hint }, options);
      }
    });

  withFilters(program.command("tail").description("logs of your organisation as they arrive, until Ctrl-C"))
    .addHelpText("after", TAIL_EXAMPLES)
    .action(async (words: string[], options: FilterOptions) => {
      await tail({ client: console.client(), console, filters: apiFilters(words, options), line: logLine });
    });
}

function withFilters(command: Command): Command {
  return command
    .argument("[query...]", "the query language of docs/log-query.md: words, field:value, field>number, AND, OR, NOT, groups; or LogQL")
    .option("--source <name>", "service.name of the sender")
    .option("--level <level>", "trace, debug, info, warn, error or fatal")
    .option("--word <words>", "whole words of the message, ignoring case, faster than --grep; repeatable", collectText, [])
    .option("--grep <text>", "text in the message, ignoring case; repeatable", collectText, [])
    .option("--not-grep <text>", "text that is not in the message; repeatable", collectText, [])
    .option("--regex <expression>", "matches the message; repeatable", collectText, [])
    .option("--not-regex <expression>", "does not match the message; repeatable", collectText, [])
    .option("--label <key=value>", "a label's exact value; repeatable", collectText, [])
    .option("--not-label <key=value>", "excludes a label's exact value; repeatable", collectText, [])
    .option("--host-id <id>", "id of the cluster, host or key that sent the record")
    .option("--node <name>", "name of the node that sent the record")
    .option("--trace-id <hex>", "only records of this trace");
}

const LEVELS = ["trace", "debug", "info", "warn", "error", "fatal"];

/** Senders may use other levels, so a misspelled one is a hint and not an error. */
function levelHint(level: string | undefined): string | undefined {
  if (level === undefined || LEVELS.includes(level.toLowerCase())) return undefined;
  return `--level ${level}: usual levels are ${LEVELS.join(", ")}`;
}

/** Rejects an empty filter, which would match everything and is probably an unset shell variable. */
function collectText(value: string, all: string[]): string[] {
  if (value === "") throw new InvalidArgumentError("Must not be empty.");
  return [...all, value];
}

function apiFilters(query: readonly string[], options: FilterOptions): Query {
  const { source, level, word, grep, notGrep, regex, notRegex, hostId, node, traceId } = options;
  return {
    query: query.length > 0 ? query.join(" ") : undefined,
    source,
    level,
    words: word,
    q: grep,
    not_q: notGrep,
    regex,
    not_regex: notRegex,
    host_id: hostId,
    node,
    trace_id: traceId,
    ...labelFilters(options.label),
    ...labelFilters(options.notLabel, "not_label"),
  };
}

async function showHistogram(console: Console, filters: Query, options: LogOptions): Promise<void> {
  const query = { ...filters, ...timeRange(options), buckets: options.buckets ?? DEFAULT_BUCKETS };
  const buckets = await console.call<Bucket[]>("GET", "/query/logs/histogram", { query });
  const { stdout } = console.world;
  if (console.json) console.lines(buckets);
  else stdout.write(`${histogram(buckets, terminalWidth(stdout)).join("\n")}\n`);
}

async function showPatterns(console: Console, filters: Query, options: LogOptions): Promise<void> {
  const query = { ...filters, ...timeRange(options), limit: options.limit };
  const {
    patterns,
    records,
    sampled_one_of: sampled,
  } = await console.call<ApiResponses["GET /query/logs/patterns"]>("GET", "/query/logs/patterns", { query });
  if (sampled > 1) console.note(`counts are estimates: one in ${sampled} parts of the time range was read, with ${records} records in all`);
  if (console.json) console.lines(patterns);
  else console.print(patterns, PATTERN_COLUMNS);
}

async function showFields(console: Console, filters: Query, options: LogOptions, name: string | true): Promise<void> {
  const query = { ...filters, ...timeRange(options) };
  const all = await console.call<Field[]>("GET", "/query/logs/fields", { query });
  const fields = name === true ? all : all.filter((field) => field.name === name);
  if (fields.length === 0 && all.length > 0) {
    const known = all.map((field) => visible(field.name)).join(", ");
    return console.note(`no ${name === true ? "field" : name} in the newest matching records; fields: ${known}`);
  }
  if (fields.length === 0) return console.note(NOTHING_FOUND);
  if (console.json) console.lines(fields);
  else
    console.print(
      fields.flatMap((field) => field.values.map(({ value, count }) => ({ field: field.name, count, value }))),
      FIELD_COLUMNS,
    );
}

const PATTERN_COLUMNS = ["count", "pattern"];
const FIELD_COLUMNS = ["field", "count", "value"];

function logLine({ timestamp, level, source, node, message }: Row): string {
  const fields = [
    String(timestamp).replace(/(\.\d{3})\d*Z$/, "$1Z"),
    String(level).padEnd(5),
    visible(`${String(node)}/${String(source)}`),
  ];
  return `${fields.join("  ")}  ${visible(String(message))}`;
}
