// Reads exemplars of all series as JSON: those that senders sent with remote write or OTLP, and those of the latency series of spans
// (exemplars.ts). Invariant: a response has at most the newest 100 exemplars of a series, and at most 1,000 of each kind.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { and, sql } from "../../engines/clickhouse/sql.ts";
import { pageConditions, type TimeRange } from "../page.ts";
import {
  EXEMPLAR_SERIES,
  type ExemplarSelector,
  groupBySeries,
  MAX_EXEMPLARS,
  MAX_EXEMPLARS_PER_SERIES,
  readExemplars,
  refuseExpression,
  selectedBy,
  type SeriesExemplars,
} from "./exemplars.ts";

const MAX_ANSWER_BYTES = 8 * 1024 * 1024;

interface StoredRow {
  readonly name: string;
  readonly series: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: string;
  readonly at: number;
}

/** Exemplars of every series that a selector selects. Throws as readExemplars. */
export async function readAllExemplars(ask: Ask, orgId: string, selectors: readonly ExemplarSelector[], range: TimeRange): Promise<Buffer> {
  const ofSpans = selectors.filter((matchers) =>
    matchers.some(({ label, operator, value }) => label === "__name__" && operator === "=" && value === EXEMPLAR_SERIES),
  );
  const fromSpans = ofSpans.length > 0 ? await readExemplars(ask, orgId, ofSpans, range) : [];
  return Buffer.from(JSON.stringify([...fromSpans, ...(await readStored(ask, orgId, selectors, range))]));
}

async function readStored(ask: Ask, orgId: string, selectors: readonly ExemplarSelector[], range: TimeRange): Promise<SeriesExemplars[]> {
  const isSelected = selectedBy(selectors, ({ label }) => (label === "__name__" ? sql`name` : sql`series[${label}]`));
  const where = and([sql`org_id = ${orgId}`, ...pageConditions({ range }), isSelected]);
  const newest = sql`SELECT name, series, labels, value, time, id FROM exemplars WHERE ${where}
    ORDER BY time DESC, id DESC LIMIT ${MAX_EXEMPLARS_PER_SERIES} BY name, toString(series) LIMIT ${MAX_EXEMPLARS}`;
  const statement = sql`SELECT name, series, labels, value, toUnixTimestamp64Milli(time) / 1000 AS at FROM (${newest}) ORDER BY time, id`;
  const lines = await ask(statement, MAX_ANSWER_BYTES).catch(refuseExpression);
  return groupBySeries(lines, ({ name, series, labels, value, at }: StoredRow) => ({
    seriesLabels: { __name__: name, ...series },
    exemplar: { labels, value, timestamp: at },
  }));
}
