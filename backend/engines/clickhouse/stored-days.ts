// Which days of bodies a table has: asked after a failure of unknown outcome, and after a restart. Invariant: a day is found by its sender
// and the body's hash, or, where a body is stored however often it comes, by its first record's id.
import type { ClickHouse } from "./client.ts";
import { firstRow, type JournalEntry } from "./row-journal.ts";
import type { NativeColumns } from "./native-block.ts";
import { sql, Sql } from "./sql.ts";

/** A body that comes later than this is new. */
export const WINDOW_S = 600;
/** Named in one statement: well below the 256 KiB that one may have. */
const MOST_NAMED = 2000;

export interface StoredDay {
  org_id: string;
  host_id: string;
  body_hash: string;
  day: number;
}

/** Those received since. */
export function readStoredDays(clickhouse: ClickHouse, table: string, sinceS: number, condition: Sql): Promise<StoredDay[]> {
  return clickhouse.query<StoredDay>(
    sql`SELECT DISTINCT org_id, host_id, body_hash, toRelativeDayNum(time) AS day FROM ${new Sql(table)}
        WHERE received_at >= toDateTime(${sinceS}) AND ${condition}`,
  );
}

/** Which of the entries the table has. */
export async function storedEntries(
  clickhouse: ClickHouse,
  { name, columns }: { readonly name: string; readonly columns: NativeColumns },
  entries: readonly JournalEntry[],
): Promise<Set<JournalEntry>> {
  const stored = new Set<JournalEntry>();
  const known = new Set<string>();
  for (let at = 0; at < entries.length; at += MOST_NAMED) {
    const some = entries.slice(at, at + MOST_NAMED);
    const first = new Map(some.map((entry) => [entry, firstRow(columns, entry.rows)]));
    const sinceS = Math.max(0, Math.min(...[...first.values()].map(({ receivedS }) => receivedS)) - WINDOW_S);
    const hashes = some.flatMap(({ bodyHash }) => (bodyHash === undefined ? [] : BigInt(bodyHash)));
    const ids = some.flatMap((entry) => (entry.bodyHash === undefined ? (first.get(entry)?.id ?? []) : []));
    const days = hashes.length === 0 ? [] : await readStoredDays(clickhouse, name, sinceS, sql`body_hash IN (${listed(hashes)})`);
    const found = ids.length === 0 ? [] : await readIds(clickhouse, name, sinceS, ids);
    for (const day of days) known.add(keyOf(day.org_id, day.host_id, day.body_hash, day.day));
    for (const { org_id: orgId, id } of found) known.add(keyOf(orgId, id));
    for (const entry of some) {
      const { orgId, hostId, bodyHash, day } = entry;
      const key = bodyHash === undefined ? keyOf(orgId, String(first.get(entry)?.id)) : keyOf(orgId, hostId, bodyHash, day);
      if (known.has(key)) stored.add(entry);
      // The same body again, which a failure in between let in twice.
      if (bodyHash !== undefined) known.add(key);
    }
  }
  return stored;
}

function readIds(clickhouse: ClickHouse, table: string, sinceS: number, ids: readonly bigint[]): Promise<{ org_id: string; id: string }[]> {
  return clickhouse.query(
    sql`SELECT org_id, id FROM ${new Sql(table)} WHERE received_at >= toDateTime(${sinceS}) AND id IN (${listed(ids)})`,
  );
}

/** Digits only. */
function listed(numbers: readonly bigint[]): Sql {
  return new Sql(numbers.join(", "));
}

function keyOf(...parts: (string | number)[]): string {
  return parts.join(":");
}
