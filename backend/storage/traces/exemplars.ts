// Reads exemplars for the latency series of spans: the slowest span for each bucket of a series and each interval of the range, from the
// spans at query time. Invariant: an exemplar belongs to the bucket under which it is listed, and has the labels of span-series.ts.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { refusedExpression } from "../../engines/clickhouse/engine.ts";
import { and, or, type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { ApiError } from "../../errors.ts";
import { parseLines } from "../found-page.ts";
import { pageConditions, type TimeRange } from "../page.ts";
import { DURATION_BUCKET } from "./span-histogram.ts";
import { BUCKET_LIMITS, LATENCY, MAX_VALUE_CHARACTERS } from "./span-series.ts";
import { SPAN_METRICS } from "./summaries.ts";

export interface LabelMatcher {
  readonly label: string;
  readonly operator: "=" | "!=" | "=~" | "!~";
  readonly value: string;
}

/** Matchers of one selector; all have to match. */
export type ExemplarSelector = readonly LabelMatcher[];

export const EXEMPLAR_SERIES = `${LATENCY}_bucket`;

/** An element of `data` in Prometheus' response to query_exemplars. */
export interface SeriesExemplars {
  readonly seriesLabels: Readonly<Record<string, string>>;
  readonly exemplars: { readonly labels: Readonly<Record<string, string>>; readonly value: string; readonly timestamp: number }[];
}

const TIME_PARTS = 20;
export const MAX_EXEMPLARS_PER_SERIES = 100;
export const MAX_EXEMPLARS = 1000;
/** Buckets of all series and intervals; if there are more, the response is a sample. */
const MAX_GROUPS = 200_000;
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

const LE = sql`${BUCKET_LIMITS}[least(${BUCKET_LIMITS.length}, greatest(1, toUInt8(greatest(0, ceil(${DURATION_BUCKET} / 4)))))]`;
const LABELS: Readonly<Record<string, Sql>> = {
  __name__: sql`${EXEMPLAR_SERIES}`,
  service: sql`substringUTF8(service, 1, ${MAX_VALUE_CHARACTERS})`,
  span_name: sql`substringUTF8(operation, 1, ${MAX_VALUE_CHARACTERS})`,
  span_kind: sql`concat('SPAN_KIND_', kind)`,
  status_code: sql`concat('STATUS_CODE_', if(status_code = '', 'UNSET', status_code))`,
  le: LE,
  host_id: sql`${SPAN_METRICS}`,
  node: sql`${SPAN_METRICS}`,
};

interface ExemplarRow {
  readonly service_name: string;
  readonly span_name: string;
  readonly span_kind: string;
  readonly status: string;
  readonly le: string;
  readonly trace_id: string;
  readonly span_id: string;
  readonly seconds: number;
  readonly at: number;
}

/** Exemplars that match any of the selectors, oldest first. Throws ApiError invalid_parameter if a regular expression is invalid. */
export async function readExemplars(
  ask: Ask,
  orgId: string,
  selectors: readonly ExemplarSelector[],
  range: TimeRange,
): Promise<SeriesExemplars[]> {
  // The index of spans has filters of the plain column.
  const isSelected = selectedBy(selectors, ({ label, operator }) =>
    label === "service" && operator === "=" ? sql`service` : labelText(label),
  );
  const where = and([sql`org_id = ${orgId}`, ...pageConditions({ range }), isSelected]);
  const widthNs = ((range.end ?? 0n) - (range.start ?? 0n)) / BigInt(TIME_PARTS) + 1n;
  const part = sql`intDiv(toUnixTimestamp64Nano(time) - ${range.start ?? 0n}, ${widthNs})`;
  const slowest = sql`SELECT service, operation, kind, status_code, argMax((time, id), duration_ns) AS position, max(duration_ns) AS longest
    FROM spans WHERE ${where} GROUP BY service, operation, kind, status_code, ${LE}, ${part}
    ORDER BY longest DESC LIMIT ${MAX_EXEMPLARS_PER_SERIES} BY service, operation, kind, status_code LIMIT ${MAX_EXEMPLARS}`;
  const statement = sql`SELECT ${labelText("service")} AS service_name, ${labelText("span_name")} AS span_name, ${labelText("span_kind")} AS span_kind,
      ${labelText("status_code")} AS status, ${LE} AS le, trace_id, span_id, duration_ns / 1e9 AS seconds, toUnixTimestamp64Nano(time) / 1e9 AS at
    FROM spans WHERE ${where} AND (time, id) IN (SELECT position.1, position.2 FROM (${slowest})) ORDER BY time, id LIMIT ${MAX_EXEMPLARS}`;
  const lines = await ask(statement, MAX_ANSWER_BYTES, undefined, MAX_GROUPS).catch(refuseExpression);
  return groupBySeries(lines, ({ service_name: service, span_name, span_kind, status: status_code, le, ...span }: ExemplarRow) => ({
    seriesLabels: { __name__: EXEMPLAR_SERIES, le, service, span_kind, span_name, status_code },
    exemplar: { labels: { trace_id: span.trace_id, span_id: span.span_id }, value: String(span.seconds), timestamp: span.at },
  }));
}

/** Whether one of the selectors selects a row. `text`: the label of a matcher as SQL. */
export function selectedBy(selectors: readonly ExemplarSelector[], text: (matcher: LabelMatcher) => Sql): Sql {
  const selected = selectors.map((matchers) => and([sql`1`, ...matchers.map((matcher) => conditionOf(matcher, text(matcher)))]));
  return or(selected);
}

function conditionOf({ operator, value }: LabelMatcher, text: Sql): Sql {
  if (operator === "=") return sql`${text} = ${value}`;
  if (operator === "!=") return sql`${text} != ${value}`;
  const matches = sql`match(${text}, ${`^(?:${value})$`})`;
  return operator === "=~" ? matches : sql`NOT ${matches}`;
}

function labelText(name: string): Sql {
  return (Object.hasOwn(LABELS, name) && LABELS[name]) || sql`''`;
}

/** Throws ApiError invalid_parameter if the engine cannot compile a regular expression. */
export function refuseExpression(error: unknown): never {
  if (refusedExpression(error) === undefined) throw error;
  throw new ApiError("invalid_parameter", "query: a label's regular expression is not one of RE2", { cause: error });
}

/** Lines of JSON as series, in their order. */
export function groupBySeries(
  lines: Buffer,
  read: (row: never) => Pick<SeriesExemplars, "seriesLabels"> & { exemplar: SeriesExemplars["exemplars"][number] },
): SeriesExemplars[] {
  const seriesByKey = new Map<string, SeriesExemplars>();
  for (const row of parseLines(lines)) {
    const { seriesLabels, exemplar } = read(row as never);
    const key = JSON.stringify(seriesLabels);
    const series: SeriesExemplars = seriesByKey.get(key) ?? { seriesLabels, exemplars: [] };
    seriesByKey.set(key, series);
    series.exemplars.push(exemplar);
  }
  return [...seriesByKey.values()];
}
