// MCP tools over log records.
import { firstEntries } from "./answer.ts";
import { type Arguments, count, optionalText, RANGE, readRange, screenLink, text, type Tool } from "./tool.ts";

type Row = Record<string, unknown>;

const MAX_LABELS = 12;
const QUERY = text(
  'which records, in the query language: words, field:value, level>=warn, AND, OR, NOT, wildcards, such as level:error AND source:checkout AND (timeout OR "connection reset"); or LogQL; default all',
);
const NARROW = "add source:NAME, level>=warn or words to query, or shorten since. log_patterns summarises many records.";

const selected = (given: Arguments) => ({ query: optionalText(given["query"]) });

export const LOG_TOOLS: readonly Tool[] = [
  {
    name: "search_logs",
    title: "Search log records",
    description: "Log records that match a query, newest first. Kubernetes events are records of source:kubernetes-events.",
    parameters: { query: QUERY, ...RANGE, limit: count("records", 100, 20) },
    async run(ask, given) {
      const range = readRange(given);
      const rows = (await ask("/query/logs", { ...selected(given), ...range, limit: Number(given["limit"] ?? 20) })) as Row[];
      const shown = rows.map(({ timestamp, level, source, message, labels, trace_id: traceId, node }) => ({
        timestamp,
        level,
        source,
        message,
        ...(node !== "" && { node }),
        ...(traceId !== "" && { trace_id: traceId }),
        labels: firstEntries(labels as Row, MAX_LABELS),
      }));
      const link = screenLink("logs", { q: optionalText(given["query"]) }, range);
      return { summary: `${rows.length} log records, newest first.`, rows: shown, link, narrow: NARROW };
    },
  },
  {
    name: "log_fields",
    title: "Fields of log records",
    description: "Names of fields of matching records with their most frequent values: use it to learn what a query can filter by.",
    parameters: { query: QUERY, ...RANGE },
    async run(ask, given) {
      const range = readRange(given);
      const fields = (await ask("/query/logs/fields", { ...selected(given), ...range })) as {
        name: string;
        records: number;
        values: Row[];
      }[];
      const rows = fields.map(({ name, records, values }) => ({ name, records, values: values.slice(0, 8) }));
      return {
        summary: `${fields.length} fields.`,
        rows,
        link: screenLink("logs", { q: optionalText(given["query"]), fields: "1" }, range),
        narrow: NARROW,
      };
    },
  },
  {
    name: "log_patterns",
    title: "Patterns of log messages",
    description: "Groups messages that differ only in numbers, ids or single words, most frequent first. The best start for many records.",
    parameters: { query: QUERY, ...RANGE, limit: count("patterns", 100, 30) },
    async run(ask, given) {
      const range = readRange(given);
      const parameters = { ...selected(given), ...range, limit: Number(given["limit"] ?? 30) };
      const found = (await ask("/query/logs/patterns", parameters)) as { records: number; sampled_one_of: number; patterns: Row[] };
      const estimate = found.sampled_one_of > 1 ? " Counts are estimates from a sample." : "";
      const summary = `${found.records} records in ${found.patterns.length} patterns.${estimate}`;
      return {
        summary,
        rows: found.patterns,
        link: screenLink("logs", { q: optionalText(given["query"]), view: "patterns" }, range),
        narrow: NARROW,
      };
    },
  },
  {
    name: "log_histogram",
    title: "Number of log records over time",
    description: "Counts of matching records by time and level: use it to find when something began or stopped.",
    parameters: { query: QUERY, ...RANGE, buckets: count("intervals", 100, 30) },
    async run(ask, given) {
      const range = readRange(given);
      const rows = (await ask("/query/logs/histogram", { ...selected(given), ...range, buckets: Number(given["buckets"] ?? 30) })) as Row[];
      const shown = rows.map(({ start, counts }) => ({ start, counts }));
      return {
        summary: `${rows.length} intervals, oldest first.`,
        rows: shown,
        link: screenLink("logs", { q: optionalText(given["query"]) }, range),
        narrow: NARROW,
      };
    },
  },
];
