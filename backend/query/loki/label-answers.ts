// Names of labels, their values, and streams by their labels, asked of the records of a range. Invariant: answers are bounded: of more names,
// values or streams than MOST the first are told, by their order.
import type { Ask } from "../../engines/clickhouse/client.ts";
import type { QueryOptions } from "../../admission/query-queue.ts";
import { and, type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { NO_MATCHING } from "../../storage/logs/matching.ts";
import { pageConditions } from "../../storage/page.ts";
import { dataOf } from "./json-answer.ts";
import { selectAny } from "./conditions.ts";
import { findKeys, labelValue } from "./label-columns.ts";
import { OWN_LABELS, STREAM_LABELS } from "./label-names.ts";
import { LabelSet } from "./label-set.ts";
import type { Selected } from "./records.ts";
import { runQueued, type Reading } from "./queries.ts";

const MOST = 10_000;
/** Of what is listed; labels may be long. */
const MOST_BYTES = 16 * 1024 * 1024;

export async function labelNames(engine: Reading, orgId: string, selected: Selected, options: QueryOptions): Promise<Buffer> {
  return await runQueued(engine, orgId, options, async (ask) => {
    const { from, where, blockRows } = rowsIn(orgId, selected);
    const keys = await rowsOf<{ key: string }>(
      ask,
      sql`SELECT DISTINCT toString(arrayJoin(mapKeys(labels))) AS key FROM ${from} WHERE ${where} AND key IN ${[...STREAM_LABELS.values()]} LIMIT ${MOST}`,
      blockRows,
    );
    const found = new Set(keys.map(({ key }) => key));
    const any = await rowsOf(ask, sql`SELECT 1 AS one FROM ${from} WHERE ${where} LIMIT 1`, blockRows);
    const names = [...(any.length > 0 ? OWN_LABELS : []), ...[...STREAM_LABELS].flatMap(([name, key]) => (found.has(key) ? [name] : []))];
    return dataOf(names.sort());
  });
}

export async function labelValues(
  engine: Reading,
  orgId: string,
  { name, ...selected }: Selected & { name: string },
  options: QueryOptions,
): Promise<Buffer> {
  return await runQueued(engine, orgId, options, async (ask) => {
    const { from, where, blockRows } = rowsIn(orgId, selected);
    const value = labelValue(name, await findKeys(ask, [name], { from, where: [where] }, blockRows));
    const rows = await rowsOf<{ value: string }>(
      ask,
      sql`SELECT ${value} AS value FROM ${from} WHERE ${where} AND value != '' GROUP BY value ORDER BY value LIMIT ${MOST}`,
      blockRows,
    );
    return dataOf(rows.map((row) => row.value));
  });
}

export async function seriesOf(engine: Reading, orgId: string, selected: Selected, options: QueryOptions): Promise<Buffer> {
  return await runQueued(engine, orgId, options, async (ask) =>
    dataOf((await streamsOf(ask, orgId, selected)).map(({ labels }) => labels.toObject())),
  );
}

/** The streams of what is selected, and how many records and bytes of messages each has. */
export async function streamsOf(
  ask: Ask,
  orgId: string,
  selected: Selected,
): Promise<{ labels: LabelSet; entries: number; bytes: number }[]> {
  const keys = [...STREAM_LABELS.values()];
  const { from, where, blockRows } = rowsIn(orgId, selected);
  const rows = await rowsOf<{ own: string[]; attributes: Record<string, string>; entries: number; bytes: number }>(
    ask,
    sql`SELECT [toString(source), toString(level), toString(host_id), toString(node)] AS own,
        mapFilter((key, value) -> key IN ${keys} AND value != '', labels) AS attributes, toFloat64(count()) AS entries,
        toFloat64(sum(length(message))) AS bytes
      FROM ${from} WHERE ${where} GROUP BY own, attributes ORDER BY own LIMIT ${MOST}`,
    blockRows,
  );
  const nameOf = new Map([...STREAM_LABELS].map(([name, key]) => [key, name]));
  return rows.map(({ own, attributes, entries, bytes }) => {
    const labels = [
      ...OWN_LABELS.map((name, index) => [name, own[index] ?? ""] as const),
      ...Object.entries(attributes).map(([key, value]) => [nameOf.get(key) as string, value] as const),
    ];
    return { labels: new LabelSet(labels.filter(([, value]) => value !== "")), entries, bytes };
  });
}

/** Where the records are that are selected. `blockRows`: as of Ask. */
export function rowsIn(orgId: string, { span, selectors }: Selected): { from: Sql; where: Sql; blockRows: number | undefined } {
  const own = [sql`org_id = ${orgId}`, ...pageConditions({ range: span, after: undefined })];
  if (selectors.length === 0) return { ...NO_MATCHING, where: and(own) };
  const { where, matching } = selectAny(selectors);
  return { ...matching, where: and([...own, where]) };
}

export async function rowsOf<Row>(ask: Ask, statement: Sql, blockRows: number | undefined): Promise<Row[]> {
  const lines = (await ask(statement, MOST_BYTES, blockRows)).toString("utf8").split("\n");
  return lines.filter(Boolean).map((line) => JSON.parse(line) as Row);
}
