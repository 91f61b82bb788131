// How many records there are, for each value of some fields. Invariant: an answer has few groups and short values, whatever the records are.
import { and, Sql, sql } from "../../engines/clickhouse/sql.ts";
import type { ClickHouse } from "../../engines/clickhouse/client.ts";
import type { QueryOptions } from "../../admission/query-queue.ts";
import { MAX_GROUP_VALUE_CHARACTERS } from "../limits.ts";
import { pageConditions } from "../page.ts";
import type { RangeFilter } from "./counts.ts";
import { attributeOf, matchingIn, recordConditions, refusePattern } from "./filter.ts";
import { halves, isOfGroups } from "./minute-counts.ts";

export const COMPARISONS = [">", ">=", "<", "<=", "==", "!="] as const;
export type Comparison = (typeof COMPARISONS)[number];

export interface GroupQuestion {
  readonly filter: RangeFilter;
  /** Fields as `isGroupField` has them; none: all records are one group, which is answered also where there are none. */
  readonly by: readonly string[];
  /** How a group's count compares; groups for which that is not so are left out. */
  readonly having: { readonly operator: Comparison; readonly threshold: number };
  /** Maximum number of groups that are returned: those in `known` first, then those with most records. */
  readonly maxGroups: number;
  /** Values of groups that go before others. */
  readonly known?: readonly (readonly string[])[];
}

export interface GroupCount {
  readonly values: readonly string[];
  readonly count: number;
}

const COLUMNS: Readonly<Record<string, Sql>> = { source: sql`source`, level: sql`level`, host_id: sql`host_id`, node: sql`node` };
const COLUMNS_OF_GROUPS: ReadonlySet<string> = new Set(["source", "level", "host_id"]);
const LABEL = "label.";

/** Fields of every record; label.<key> is one too. */
export const GROUP_FIELDS: readonly string[] = Object.keys(COLUMNS);

/** Whether records can be counted by its values. */
export function isGroupField(field: string): boolean {
  return GROUP_FIELDS.includes(field) || (labelIn(field) ?? "") !== "";
}

/** The key of label.<key>; undefined for other fields. */
export function labelIn(field: string): string | undefined {
  return field.startsWith(LABEL) ? field.slice(LABEL.length) : undefined;
}

/**
 * Groups that are known first, then those with most records. If only columns of the counts by minute are used, whole minutes come from those
 * counts, and the parts of minutes at both ends of the range from the records. Throws as LogStore.query does.
 */
export async function groupCounts(
  clickhouse: Pick<ClickHouse, "read">,
  orgId: string,
  { filter, by, having, maxGroups, known = [] }: GroupQuestion,
  options: QueryOptions,
): Promise<GroupCount[]> {
  const conditions = [sql`org_id = ${orgId}`, ...recordConditions(filter)];
  const isByMinute = isOfGroups(filter) && by.every((field) => COLUMNS_OF_GROUPS.has(field));
  const byMinute = isByMinute ? halves(filter.range, []) : undefined;
  const { from, blockRows } = matchingIn(filter);
  const values = new Sql(by.map((field) => valueOf(field).text).join(", "));
  const compared = new Sql(`${having.operator} ${having.threshold}`);
  const knownFirst = known.length === 0 ? sql`` : sql`has([${new Sql(known.map((one) => sql`${one}`.text).join(", "))}], values) DESC, `;
  const groups = by.length === 0 ? sql`` : sql`GROUP BY values`;
  const countsOf = (condition: Sql): Sql =>
    sql`SELECT ${by.length === 0 ? sql`emptyArrayString()` : sql`[${values}]`} AS values, count() AS n FROM ${from}
      WHERE ${and([...conditions, condition])} ${groups}`;
  const all = and(pageConditions({ range: filter.range, after: undefined }));
  const counted = byMinute ? [byMinute.whole, ...(byMinute.cut ? [byMinute.cut] : [])] : [all];
  const parts = new Sql(counted.map((condition) => countsOf(condition).text).join(" UNION ALL "));
  const statement =
    by.length === 0
      ? sql`SELECT [] AS values, toFloat64(sum(n)) AS count FROM (${parts})`
      : sql`SELECT values, toFloat64(sum(n)) AS count FROM (${parts})
          GROUP BY values HAVING sum(n) ${compared} ORDER BY ${knownFirst}count DESC, values LIMIT ${maxGroups}`;
  const lines = await clickhouse
    .read(orgId, options, (ask) => ask(statement, undefined, blockRows))
    .catch((error: unknown) => refusePattern(error, filter));
  return lines
    .toString("utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as GroupCount);
}

function valueOf(field: string): Sql {
  const label = labelIn(field);
  const column = label === undefined ? COLUMNS[field] : attributeOf(label);
  if (!column) throw new Error(`no field of log records: ${field}`);
  return sql`substringUTF8(toString(${column}), 1, ${MAX_GROUP_VALUE_CHARACTERS})`;
}
