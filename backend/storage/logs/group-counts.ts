// Counts log records grouped by some of their fields, for log alert rules: "errors by source and node, if more than 100". The answer has at
// most `maxGroups` groups, and each value is cut to a maximum length, so that records cannot make it large.
import { and, commaList, Sql, sql, unionAll } from "../../engines/clickhouse/sql.ts";
import type { ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import type { QueryOptions } from "../../admission/query-queue.ts";
import { parseLines } from "../found-page.ts";
import { MAX_GROUP_VALUE_CHARACTERS } from "../storage-limits.ts";
import type { RangeFilter } from "./counts.ts";
import { attributeOf, matchingIn, recordConditions, refusePattern } from "./filter.ts";
import { rangeParts, usesOnlyGroupColumns } from "./minute-counts.ts";

export const COMPARISONS = [">", ">=", "<", "<=", "==", "!="] as const;
export type Comparison = (typeof COMPARISONS)[number];

export interface GroupQuestion {
  readonly filter: RangeFilter;
  /** Fields for which `isGroupField` holds. Without fields, all records are one group, which is returned even with a count of 0. */
  readonly by: readonly string[];
  /** The condition on a group's count; other groups are left out. */
  readonly having: { readonly operator: Comparison; readonly threshold: number };
  readonly maxGroups: number;
  /** Values of groups that are returned before all others, for example those that already have an alert. */
  readonly known?: readonly (readonly string[])[];
}

export interface GroupCount {
  readonly values: readonly string[];
  readonly count: number;
}

const COLUMNS: Readonly<Record<string, Sql>> = { source: sql`source`, level: sql`level`, host_id: sql`host_id`, node: sql`node` };
const COLUMNS_OF_GROUPS: ReadonlySet<string> = new Set(["source", "level", "host_id"]);
const LABEL = "label.";

/** Fields that every record has. In addition, `label.<key>` is a field. */
export const GROUP_FIELDS: readonly string[] = Object.keys(COLUMNS);

export function isGroupField(field: string): boolean {
  return GROUP_FIELDS.includes(field) || (labelIn(field) ?? "") !== "";
}

/** `key` of `label.key`; undefined for other fields. */
export function labelIn(field: string): string | undefined {
  return field.startsWith(LABEL) ? field.slice(LABEL.length) : undefined;
}

/**
 * Returns the groups in `known` first, then those with most records. Throws as LogStore.query does.
 *
 * The statement is a sum over parts, because whole minutes of the range can be counted from the projection of counts by minute, and only
 * the cut minutes at its ends need the records.
 */
export async function groupCounts(
  clickhouse: Pick<ClickHouse, "read">,
  orgId: string,
  question: GroupQuestion,
  options: QueryOptions,
): Promise<GroupCount[]> {
  const { filter, by } = question;
  const isCountedByMinute = usesOnlyGroupColumns(filter) && by.every((field) => COLUMNS_OF_GROUPS.has(field));
  const parts = unionAll(rangeParts(filter.range, isCountedByMinute).map((range) => countPart(orgId, filter, by, range)));
  const statement = by.length === 0 ? sql`SELECT [] AS values, toFloat64(sum(n)) AS count FROM (${parts})` : sumGroups(parts, question);
  const lines = await clickhouse
    .read(orgId, options, (ask) => ask(statement, undefined, matchingIn(filter).blockRows))
    .catch((error: unknown) => refusePattern(error, filter));
  return parseLines(lines);
}

/** The statement that counts the records of one part of the range by their values. */
function countPart(orgId: string, filter: RangeFilter, by: readonly string[], range: Sql): Sql {
  const values = by.length === 0 ? sql`emptyArrayString()` : sql`[${commaList(by.map(valueOf))}]`;
  const conditions = and([sql`org_id = ${orgId}`, ...recordConditions(filter), range]);
  const groups = by.length === 0 ? sql`` : sql`GROUP BY values`;
  return sql`SELECT ${values} AS values, count() AS n FROM ${matchingIn(filter).from} WHERE ${conditions} ${groups}`;
}

/** The statement that adds the parts up, drops groups outside the threshold and returns the first `maxGroups`. */
function sumGroups(parts: Sql, { having, maxGroups, known = [] }: GroupQuestion): Sql {
  const compared = new Sql(`${having.operator} ${having.threshold}`);
  const knownValues = commaList(known);
  const knownFirst = known.length === 0 ? sql`` : sql`has([${knownValues}], values) DESC, `;
  return sql`SELECT values, toFloat64(sum(n)) AS count FROM (${parts})
    GROUP BY values HAVING sum(n) ${compared} ORDER BY ${knownFirst}count DESC, values LIMIT ${maxGroups}`;
}

function valueOf(field: string): Sql {
  const label = labelIn(field);
  const column = label === undefined ? COLUMNS[field] : attributeOf(label);
  if (!column) throw new Error(`no field of log records: ${field}`);
  return sql`substringUTF8(toString(${column}), 1, ${MAX_GROUP_VALUE_CHARACTERS})`;
}
