// Reads a page of GET /query/logs for LogQL with stages that ClickHouse cannot evaluate: reads records in the order of the page, and
// returns those that pass all stages in that route's format. Invariant: a page starts after the last record of the previous one.
import { Sql } from "../../engines/clickhouse/sql.ts";
import { type Cursor, formatTime, type Page } from "../../storage/page.ts";
import { MAX_LOKI_ANSWER_BYTES } from "../query-limits.ts";
import { mayDropRecords, pushDown } from "./conditions.ts";
import { type Entry, labelName, type Row } from "./entry.ts";
import { pipelineOf } from "./pipeline.ts";
import { type QueryContext, records } from "./range-points.ts";
import type { LogQuery } from "./syntax.ts";

/** The latest time that can be stored, for a page without an end. */
const END_OF_TIME_NS = 9_223_372_036_000_000_000n;

export interface PageRequest {
  readonly page: Page;
  /** SQL of further conditions. */
  readonly conditions: readonly string[];
}

/** A line with the cursor of the next page, or an empty one; then the records as a JSON array. */
export async function answerRecords(context: QueryContext, query: LogQuery, { page, conditions }: PageRequest): Promise<Buffer> {
  const { conditions: pushedConditions, matching, rest } = pushDown(query);
  const passes = pipelineOf(rest);
  const { range, limit, after, oldestFirst = false } = page;
  const selected: string[] = [];
  let [bytes, last, hasMore]: [number, Cursor | undefined, boolean] = [0, undefined, false];
  const isFull = (): boolean => selected.length === limit || bytes > MAX_LOKI_ANSWER_BYTES;
  const recordQuery = {
    conditions: [...pushedConditions, ...conditions.map((text) => new Sql(text))],
    matching,
    span: { start: range.start ?? 0n, end: range.end ?? END_OF_TIME_NS },
    oldestFirst,
    hasLines: true,
    limit: mayDropRecords(rest) ? undefined : limit,
    after,
    hasIds: true,
    // It is not known whether one of the further records passes all stages, so the next page may be empty.
    isEnough: () => (hasMore = isFull()),
  };
  for await (const entry of records(context, recordQuery)) {
    if (!passes(entry)) continue;
    hasMore = isFull();
    if (hasMore) break;
    const row = entry.row as Row;
    const record = JSON.stringify(recordOf(row, entry));
    selected.push(record);
    bytes += record.length;
    last = { time: BigInt(row.ns), id: BigInt(row.row_id ?? 0) };
  }
  return Buffer.from(`${hasMore && last ? `${last.time}.${last.id}` : ""}\n[${selected.join(",")}]`);
}

/** A record in the format of GET /query/logs: stored labels that the stages kept have their attribute keys, parsed ones their names. */
function recordOf({ ns, scope_name: scope, row_id: _id, line: _line, ...row }: Row, entry: Entry): object {
  const labels = [...entry.labels()];
  const names = new Set(labels.map(([name]) => name));
  const kept = Object.entries(row.labels).filter(([key]) => names.has(labelName(key)));
  const parsed = labels.filter(([, , category]) => category === "parsed").map(([name, value]) => [name, value] as const);
  return { ...row, timestamp: formatTime(BigInt(ns)), scope, message: entry.line, labels: Object.fromEntries([...kept, ...parsed]) };
}
