// Finds the minutes whose rows arrived since a time: figures that are derived by minute are computed again for these minutes.
import type { Ask } from "../engines/clickhouse/clickhouse-client.ts";
import { Sql, sql } from "../engines/clickhouse/sql.ts";
import { parseLines } from "./found-page.ts";

const MINUTE_S = 60;
/** The minute of a row, in seconds since 1970. */
export const MINUTE_OF_ROW = sql`toUInt32(intDiv(toUnixTimestamp(time), ${MINUTE_S}) * ${MINUTE_S})`;

interface ArrivalQuestion {
  readonly table: "spans" | "logs";
  /** Rows that were received since then, in seconds since 1970. */
  readonly sinceS: number;
  /** Maximum number of minutes: the newest. */
  readonly limit: number;
  /** Rows before this time are ignored. */
  readonly fromS?: number;
}

/** Minutes with rows that were received since `sinceS`, in seconds since 1970, oldest first. */
export async function changedMinutes(ask: Ask, orgId: string, { table, sinceS, limit, fromS }: ArrivalQuestion): Promise<number[]> {
  const from = fromS === undefined ? sql`` : sql`AND time >= toDateTime(${fromS})`;
  const lines = await ask(
    sql`SELECT ${MINUTE_OF_ROW} AS minute_s FROM ${new Sql(table)}
      WHERE org_id = ${orgId} AND received_at >= toDateTime(${sinceS}) ${from} GROUP BY minute_s ORDER BY minute_s DESC LIMIT ${limit}`,
  );
  return parseLines<{ minute_s: number }>(lines)
    .map(({ minute_s }) => minute_s)
    .toReversed();
}
