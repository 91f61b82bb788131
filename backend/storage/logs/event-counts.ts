// Counts matching log records by minute, for service level objectives.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { and, sql } from "../../engines/clickhouse/sql.ts";
import { parseLines } from "../found-page.ts";
import { pageConditions } from "../page.ts";
import type { RangeFilter } from "./counts.ts";
import { matchingIn, recordConditions } from "./filter.ts";
import { GROUP_NS, MINUTE_NS, splitByMinute, usesOnlyGroupColumns } from "./minute-counts.ts";

/** Minute, in seconds since 1970 → records. Minutes without records are missing. `filter.range` has whole minutes. */
export async function countByMinute(ask: Ask, orgId: string, filter: RangeFilter): Promise<Map<number, number>> {
  const { from, blockRows } = matchingIn(filter);
  const split = usesOnlyGroupColumns(filter) ? splitByMinute(filter.range, []) : undefined;
  const [time, range] = split ? [GROUP_NS, split.groups] : [sql`toUnixTimestamp64Nano(time)`, and(pageConditions({ range: filter.range }))];
  const lines = await ask(
    sql`SELECT toUInt32(intDiv(${time}, ${MINUTE_NS}) * 60) AS minute_s, toFloat64(count()) AS n FROM ${from}
      WHERE ${and([sql`org_id = ${orgId}`, ...recordConditions(filter), range])} GROUP BY minute_s`,
    undefined,
    blockRows,
  );
  return new Map(parseLines<{ minute_s: number; n: number }>(lines).map(({ minute_s, n }) => [minute_s, n]));
}
