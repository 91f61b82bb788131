// The address of one record: its time and a hash of its content. The API has no record ids; records that are equal in all fields share an
// address, which shows the same text.
import { pagesOf, type Query } from "../state/api.ts";
import type { LogRow } from "./log-rows.ts";

const MAX_PAGES = 4;

/** `2026-11-25T16:03:22.125000000Z~1k2j3h4g5f`. */
export function recordAddress(row: LogRow): string {
  const labels = Object.entries(row.labels).sort(([a], [b]) => (a < b ? -1 : 1));
  return `${row.timestamp}~${hashOf(JSON.stringify([row.message, row.host_id, row.node, row.source, row.span_id, labels]))}`;
}

/** `parameters`: those of the query that lists the record. Undefined if the record is no longer stored, or the address is invalid. */
export async function findRecord(address: string, parameters: Query, signal: AbortSignal): Promise<LogRow | undefined> {
  const [timestamp = ""] = address.split("~");
  if (!Number.isFinite(Date.parse(timestamp))) return undefined;
  const query = { ...parameters, start: timestamp, end: timestamp, limit: 500 };
  for await (const { body } of pagesOf<LogRow>("/query/logs", { query, signal }, MAX_PAGES)) {
    const row = body.find((candidate) => recordAddress(candidate) === address);
    if (row) return row;
  }
  return undefined;
}

/**
 * cyrb53: 53 bits, enough to distinguish the records of one nanosecond.
 * https://github.com/bryc/code/blob/master/jshash/experimental/cyrb53.js
 */
function hashOf(text: string): string {
  let [high, low] = [0xdeadbeef, 0x41c6ce57];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    high = Math.imul(high ^ code, 2654435761);
    low = Math.imul(low ^ code, 1597334677);
  }
  high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909);
  low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909);
  return (4294967296 * (2097151 & low) + (high >>> 0)).toString(36);
}
