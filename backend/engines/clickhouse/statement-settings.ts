// The settings that every statement carries, embedded or remote, so that neither a server's profile nor a version's default changes
// what a statement means. Used by embedded.ts and remote.ts.
import type { Insert } from "./client.ts";

/** A query is bounded in time and memory; 64-bit integers arrive as strings, because a double would round them. */
export const QUERY_SETTINGS =
  "\nSETTINGS max_execution_time = 30, max_memory_usage = 2000000000, output_format_json_quote_64bit_integers = 1";

/**
 * `async_insert` off: the answer comes after the commit. One block per statement: within a partition all rows are committed or none,
 * which the deduplication of retries stands on. The callers cut statements well below these limits.
 */
export function insertSettings(insert: Insert): Record<string, string | number> {
  return {
    async_insert: 0,
    insert_deduplicate: 1,
    max_insert_block_size: 10_000_000,
    min_insert_block_size_rows: 10_000_000,
    min_insert_block_size_bytes: 4_000_000_000,
    max_partitions_per_insert_block: 0,
    ...(insert.deduplicationToken !== undefined && { insert_deduplication_token: insert.deduplicationToken }),
  };
}
