// Finds which days of request bodies a table already has, after a failure of unknown outcome and after a restart. Invariant: a day is found
// by its sender and the hash of the body or, if bodies are not deduplicated, by the id of its first record.
import type { ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { firstRow, type JournalEntry } from "../../engines/clickhouse/row-journal.ts";
import type { NativeColumns } from "../../engines/clickhouse/native-block.ts";
import { commaList, sql, Sql } from "../../engines/clickhouse/sql.ts";
import { MAX_KEYS_PER_STATEMENT } from "../storage-limits.ts";

/** A body that arrives again after this time is stored again. */
export const WINDOW_S = 600;

/** The times of receipt within the window. The clock may be set back and forward again meanwhile, so the lowest one counts. */
export class ReceivedWindow {
  /** By how much the wall clock was ahead of the time that has passed, at least: in this window, and in the one before. */
  #aheadMs: readonly [number, number] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  #beganMs = performance.now();

  /** Call when a body arrives. */
  note(): void {
    const nowMs = performance.now();
    const [current, last] = this.#aheadMs;
    const aheadMs = Date.now() - nowMs;
    if (nowMs - this.#beganMs < WINDOW_S * 1000) this.#aheadMs = [Math.min(current, aheadMs), last];
    else [this.#aheadMs, this.#beganMs] = [[aheadMs, current], nowMs];
  }

  /** Bodies of the window were received since then, in seconds since 1970. */
  sinceS(): number {
    this.note();
    return Math.floor((performance.now() + Math.min(...this.#aheadMs)) / 1000) - WINDOW_S;
  }
}

export interface StoredDay {
  org_id: string;
  host_id: string;
  body_hash: string;
  day: number;
}

/** Days of bodies that were received since `sinceS`. */
export function readStoredDays(clickhouse: ClickHouse, table: string, sinceS: number, condition: Sql): Promise<StoredDay[]> {
  return clickhouse.query<StoredDay>(
    sql`SELECT DISTINCT org_id, host_id, body_hash, toRelativeDayNum(time) AS day FROM ${new Sql(table)}
        WHERE received_at >= toDateTime(${sinceS}) AND ${condition}`,
  );
}

/** Rows were usually received lately, and an index on `received_at` finds them: only an idle table is read whole. */
const FIRST_SPANS_S = [3600, 86_400];

/** Start of the newest minutes in which rows were received, as many as the window has, in seconds since 1970. */
export async function readNewestMinutesS(clickhouse: ClickHouse, table: string): Promise<number> {
  const wanted = WINDOW_S / 60 + 1;
  const nowS = Math.floor(Date.now() / 1000);
  let fromS = 0;
  for (const sinceS of [...FIRST_SPANS_S.map((spanS) => nowS - spanS), 0]) {
    const since = sql`received_at >= toDateTime(${sinceS})`;
    const minutes = sql`SELECT DISTINCT toStartOfMinute(received_at) AS minute FROM ${new Sql(table)} WHERE ${since} ORDER BY minute DESC LIMIT ${wanted}`;
    const found = sql`SELECT count() AS minutes, toUnixTimestamp(min(minute)) AS from_s FROM (${minutes})`;
    const [row] = await clickhouse.query<{ minutes: string; from_s: string }>(found);
    fromS = Number(row?.from_s ?? 0);
    if (Number(row?.minutes ?? 0) === wanted) break;
  }
  return fromS;
}

/** Returns the entries that the table has. */
export async function findStoredEntries(
  clickhouse: ClickHouse,
  { name, columns }: { readonly name: string; readonly columns: NativeColumns },
  entries: readonly JournalEntry[],
): Promise<Set<JournalEntry>> {
  const stored = new Set<JournalEntry>();
  const known = new Set<string>();
  for (let at = 0; at < entries.length; at += MAX_KEYS_PER_STATEMENT) {
    const batch = entries.slice(at, at + MAX_KEYS_PER_STATEMENT);
    const firstRows = new Map(batch.map((entry) => [entry, firstRow(columns, entry.rows)]));
    // The clock may have been set back since, and forward again.
    const newestS = Math.min(Math.floor(Date.now() / 1000), await readNewestMinutesS(clickhouse, name));
    const sinceS = Math.max(0, Math.min(newestS, ...[...firstRows.values()].map(({ receivedS }) => receivedS)) - WINDOW_S);
    const hashes = batch.flatMap(({ bodyHash }) => (bodyHash === undefined ? [] : BigInt(bodyHash)));
    const ids = batch.flatMap((entry) => (entry.bodyHash === undefined ? (firstRows.get(entry)?.id ?? []) : []));
    const days = hashes.length === 0 ? [] : await readStoredDays(clickhouse, name, sinceS, sql`body_hash IN (${commaList(hashes)})`);
    const byId = sql`SELECT org_id, id FROM ${new Sql(name)} WHERE received_at >= toDateTime(${sinceS}) AND id IN (${commaList(ids)})`;
    const found = ids.length === 0 ? [] : await clickhouse.query<{ org_id: string; id: string }>(byId);
    for (const day of days) known.add(keyOf(day.org_id, day.host_id, day.body_hash, day.day));
    for (const { org_id: orgId, id } of found) known.add(keyOf(orgId, id));
    for (const entry of batch) {
      const { orgId, hostId, bodyHash, day } = entry;
      const key = bodyHash === undefined ? keyOf(orgId, String(firstRows.get(entry)?.id)) : keyOf(orgId, hostId, bodyHash, day);
      if (known.has(key)) stored.add(entry);
      // A failure in between can leave the same body in the journal twice, and a start writes it again.
      known.add(key);
    }
  }
  return stored;
}

function keyOf(...parts: (string | number)[]): string {
  return parts.join(":");
}
