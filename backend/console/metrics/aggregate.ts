// What the explorer calculates over log records and spans: a function, of a field if it needs one, for each value of some fields. Builds
// LogQL for records, and PromQL over the metrics of spans (traces_spanmetrics_…) for spans.
import { isLogQl } from "../../client/query-syntax.ts";
import { logQlLabel } from "../logs/query-line.ts";

export const FUNCTIONS = ["count", "unique", "sum", "avg", "max", "p50", "p95", "p99"] as const;
export type AggregateFunction = (typeof FUNCTIONS)[number];

export interface Aggregate {
  readonly of: AggregateFunction;
  /** The field whose values are counted or summed; not for `count`. */
  readonly field: string;
  readonly by: readonly string[];
}

const QUANTILES: Readonly<Record<string, number>> = { p50: 0.5, p95: 0.95, p99: 0.99 };
const ALL_RECORDS = '{service_name=~".+"}';

/** `by` of an address that groups by no field. */
export const NO_GROUPS = "-";

/** The parameters `of`, `field` and `by` of an address. `defaultBy`: the field to group by if the address names none. */
export function readAggregate(query: URLSearchParams, defaultBy: string): Aggregate {
  const of = FUNCTIONS.find((name) => name === query.get("of")) ?? "count";
  const by = query.has("by") ? query.getAll("by").filter((field) => field !== NO_GROUPS) : [defaultBy];
  return { of, field: query.get("field") ?? "", by: by.slice(0, 3) };
}

/**
 * The selector and the filters of LogQL for a log query. Throws an Error that names the condition for which LogQL has no equal: OR between
 * conditions, groups, wildcards and comparisons of numbers.
 */
export function logQlFilter(pieces: readonly string[], line: string): string {
  if (isLogQl(line)) return line.trim();
  return [ALL_RECORDS, ...pieces.filter((piece) => piece !== "AND").map(stageOf)].join(" ");
}

const CONDITION = /^(-?)(?:("(?:[^"\\]|\\.)*"|[A-Za-z_@][\w.@/-]*)(:|=|!=))?("(?:[^"\\]|\\.)*"|[^\s"*?()]+)$/;

function stageOf(piece: string): string {
  const [, sign, name, operator, written] = CONDITION.exec(piece) ?? [];
  // `http://host` is a text.
  const isText = name === undefined || written?.startsWith("//") === true;
  const isExpression = /^\/.*\/$/.test(written ?? "");
  const isComparison = name === undefined && /^["\w@][^:=]*[<>]/.test(written ?? "") && !written?.startsWith('"');
  if (written === undefined || ["OR", "NOT"].includes(piece) || isExpression || isComparison)
    throw new Error(`Records of this query cannot be grouped: remove ${piece}, or write the query in LogQL.`);
  const isNot = (sign === "-") !== (operator === "!=");
  if (isText) {
    const text = name === undefined ? unquote(written) : piece.slice((sign ?? "").length);
    return `${isNot ? "!~" : "|~"} ${JSON.stringify(`(?i)${escapeExpression(text)}`)}`;
  }
  const field = unquote(name);
  const values = written.startsWith('"') ? [unquote(written)] : written.split(",");
  // As in the query language, the case of a level does not matter.
  const expression = `${field === "level" ? "(?i)" : ""}${values.map(escapeExpression).join("|")}`;
  return `| ${logQlLabel(field)}${isNot ? "!~" : "=~"}${JSON.stringify(expression)}`;
}

function unquote(text: string): string {
  return text.startsWith('"') ? text.slice(1, -1).replaceAll(/\\(.)/g, "$1") : text;
}

function escapeExpression(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}

/** LogQL for one value per window, such as `5m`, and group. `filter`: of logQlFilter. */
export function logQlOf({ of, field, by }: Aggregate, filter: string, window: string): string {
  const labels = by.map(logQlLabel);
  const grouping = labels.length > 0 ? ` by (${labels.join(", ")})` : "";
  const value = logQlLabel(field);
  switch (of) {
    case "count":
      return `sum${grouping} (count_over_time(${filter} [${window}]))`;
    case "unique":
      return `count${grouping} (count by (${[...labels, value].join(", ")}) (count_over_time(${filter} | ${value}!="" [${window}])))`;
    case "sum":
      return `sum${grouping} (sum_over_time(${filter} | unwrap ${value} [${window}]))`;
    case "avg":
    case "max":
      return `${of}_over_time(${filter} | unwrap ${value} [${window}])${grouping || " by ()"}`;
    default:
      return `quantile_over_time(${QUANTILES[of]}, ${filter} | unwrap ${value} [${window}])${grouping || " by ()"}`;
  }
}

/** Labels of the metrics of spans by which spans are grouped: field → label. */
export const SPAN_LABELS = { service: "service", operation: "span_name", kind: "span_kind", status: "status_code" } as const;
/** The last two and `avg` are of durations. */
export const SPAN_FUNCTIONS = ["count", "p50", "p95", "p99"] as const satisfies readonly AggregateFunction[];

export function promQlOf({ of, by }: Aggregate, search: Readonly<Record<string, string | undefined>>, window: string): string {
  const labels = by.flatMap((field) => SPAN_LABELS[field as keyof typeof SPAN_LABELS] ?? []);
  const matchers = [
    ...(search["service"] ? [`service=${JSON.stringify(search["service"])}`] : []),
    ...(search["operation"] ? [`span_name=${JSON.stringify(search["operation"])}`] : []),
    ...(search["error"] === "true" ? ['status_code="STATUS_CODE_ERROR"'] : []),
  ].join(",");
  if (of === "count") return `sum by (${labels.join(", ")}) (increase(traces_spanmetrics_calls_total{${matchers}}[${window}]))`;
  const buckets = `sum by (${["le", ...labels].join(", ")}) (increase(traces_spanmetrics_latency_bucket{${matchers}}[${window}]))`;
  return `histogram_quantile(${QUANTILES[of] ?? 0.95}, ${buckets})`;
}
