// The rows from which services and operations are listed: the table `span_operations`, which is not read by time, or the spans themselves
// for a reader with LabelLimits, because the table has no labels.
import type { LabelLimits } from "../../admission/limited-labels.ts";
import { and, type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { type MinuteRange, timeOf } from "./red.ts";

/** Without a range, a reader with limits gets the services and operations of this time. */
const RECENT_S = 24 * 3600;

/** A table expression with the columns org_id, service, operation and kind; rows may repeat. `range`: unset, of any time. */
export function operationRows(orgId: string, limits: LabelLimits | undefined, range?: MinuteRange): Sql {
  if (!limits) return sql`span_operations`;
  const startS = range?.startS ?? Math.floor(Date.now() / 1000) - RECENT_S;
  const inRange = [sql`time >= ${timeOf(startS)}`, ...(range ? [sql`time < ${timeOf(range.endS)}`] : [])];
  return sql`(SELECT org_id, service, operation, kind FROM spans WHERE ${and([sql`org_id = ${orgId}`, ...inRange])})`;
}
