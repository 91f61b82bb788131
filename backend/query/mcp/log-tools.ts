// MCP tools over log records.
import { firstEntries } from "./answer.ts";
import { count, RANGE, type Row, routeTool, screenLink, text, type Tool } from "./tool.ts";

const MAX_LABELS = 12;
const MAX_VALUES = 8;
const QUERY = text(
  'which records, in the query language: words, field:value, level>=warn, AND, OR, NOT, wildcards, such as level:error AND source:checkout AND (timeout OR "connection reset"); or LogQL; default all',
);
const NARROW = "add source:NAME, level>=warn or words to query, or shorten since. log_patterns summarises many records.";

interface LogTool<T> extends Pick<Tool, "name" | "title" | "description"> {
  readonly parameters?: Tool["parameters"];
  readonly path: string;
  /** Parameters of the console's screen. */
  readonly shown?: Readonly<Record<string, string>>;
  readonly answer: (found: T) => { readonly summary: string; readonly rows: readonly unknown[] };
}

function logTool<T = Row[]>({ parameters, path, shown, ...tool }: LogTool<T>): Tool {
  return routeTool<T>({
    ...tool,
    parameters: { query: QUERY, ...RANGE, ...parameters },
    route: (given, range) => [path, { ...given, ...range }],
    link: ({ query }, range) => screenLink("logs", { q: query, ...shown }, range),
    narrow: NARROW,
  });
}

export const LOG_TOOLS: readonly Tool[] = [
  logTool({
    name: "search_logs",
    title: "Search log records",
    description: "Log records that match a query, newest first. Kubernetes events are records of source:kubernetes-events.",
    parameters: { limit: count("records", 100, 20) },
    path: "/query/logs",
    answer: (records) => ({
      summary: `${records.length} log records, newest first.`,
      rows: records.map(({ timestamp, level, source, message, labels, trace_id: traceId, node }) => ({
        timestamp,
        level,
        source,
        message,
        ...(node !== "" && { node }),
        ...(traceId !== "" && { trace_id: traceId }),
        labels: firstEntries(labels as Row, MAX_LABELS),
      })),
    }),
  }),
  logTool<{ name: string; records: number; values: Row[] }[]>({
    name: "log_fields",
    title: "Fields of log records",
    description: "Names of fields of matching records with their most frequent values: use it to learn what a query can filter by.",
    path: "/query/logs/fields",
    shown: { fields: "1" },
    answer: (fields) => ({
      summary: `${fields.length} fields.`,
      rows: fields.map(({ name, records, values }) => ({ name, records, values: values.slice(0, MAX_VALUES) })),
    }),
  }),
  logTool<{ records: number; sampled_one_of: number; patterns: Row[] }>({
    name: "log_patterns",
    title: "Patterns of log messages",
    description: "Groups messages that differ only in numbers, ids or single words, most frequent first. The best start for many records.",
    parameters: { limit: count("patterns", 100, 30) },
    path: "/query/logs/patterns",
    shown: { view: "patterns" },
    answer: ({ records, sampled_one_of: oneOf, patterns }) => ({
      summary: `${records} records in ${patterns.length} patterns.${oneOf > 1 ? " Counts are estimates from a sample." : ""}`,
      rows: patterns,
    }),
  }),
  logTool({
    name: "log_histogram",
    title: "Number of log records over time",
    description: "Counts of matching records by time and level: use it to find when something began or stopped.",
    parameters: { buckets: count("intervals", 100, 30) },
    path: "/query/logs/histogram",
    answer: (intervals) => ({
      summary: `${intervals.length} intervals, oldest first.`,
      rows: intervals.map(({ start, counts }) => ({ start, counts })),
    }),
  }),
];
