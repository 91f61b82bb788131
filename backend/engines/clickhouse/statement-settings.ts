// The settings that every statement carries, embedded or remote, so that neither a server's profile nor a version's default changes what a
// statement means.
import { MAX_READ_MEMORY_BYTES } from "../limits.ts";
import type { Insert, ReadLimits } from "./engine.ts";
import { Sql, sql } from "./sql.ts";
import { tenantFilter } from "./tenant-filter.ts";

/** A query of our own is bounded in time and memory; 64-bit integers arrive as strings, because a double would round them. */
export const QUERY_SETTINGS =
  "\nSETTINGS max_execution_time = 30, max_memory_usage = 2000000000, output_format_json_quote_64bit_integers = 1";

/**
 * A tenant's query: limited to the organisation's rows, bounded in time, memory and the bytes of its result, and found by its comment when it is to be cancelled. Its rows
 * are the JSON of the answer: times in RFC 3339, 64-bit integers in quotes. `threads`: where the engine shares the processor with us.
 */
export function readSettings(
  comment: string,
  { orgId, maxSeconds, maxResultBytes, blockRows, groupLimit, threads }: ReadLimits & { threads?: number },
): string {
  const groups = groupLimit === undefined ? sql`` : sql`max_rows_to_group_by = ${groupLimit}, group_by_overflow_mode = 'break', `;
  return sql`
SETTINGS ${tenantFilter(orgId)}, ${optional("max_threads", threads)}${optional("max_block_size", blockRows)}${groups}max_execution_time = ${maxSeconds}, max_memory_usage = ${MAX_READ_MEMORY_BYTES},
  max_result_bytes = ${maxResultBytes}, result_overflow_mode = 'throw', log_comment = ${comment}, date_time_output_format = 'iso',
  output_format_json_quote_64bit_integers = 1, output_format_json_escape_forward_slashes = 0
FORMAT JSONEachRow`.text;
}

function optional(name: string, value: number | undefined): Sql {
  return new Sql(value === undefined ? "" : `${name} = ${value}, `);
}

/** The query that carries this comment, and no other. */
export function killStatement(comment: string): string {
  return sql`KILL QUERY WHERE Settings['log_comment'] = ${comment} ASYNC`.text;
}

/**
 * `async_insert` off: the answer comes after the commit. One block per statement: within a partition all rows are committed or none,
 * which the deduplication of retries relies on. The callers keep statements well below these limits.
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
