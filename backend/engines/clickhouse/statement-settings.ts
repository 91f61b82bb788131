// The settings that every statement carries, embedded or remote, so that neither a server's profile nor a version's default changes what a
// statement means.
import { MAX_READ_MEMORY_BYTES } from "../limits.ts";
import type { Insert, ReadLimits } from "./engine.ts";
import { Sql, sql } from "./sql.ts";
import { tenantFilter } from "./tenant-filter.ts";

/**
 * A query of our own is bounded in time and memory; 64-bit integers arrive as strings, because a double would round them. It fails while a
 * shard (with `everyReplica`, a replica) is unavailable: whether rows are stored, erased or changed must not be decided from a part of them.
 */
export const QUERY_SETTINGS =
  "\nSETTINGS skip_unavailable_shards = 0, max_execution_time = 30, max_memory_usage = 2000000000, output_format_json_quote_64bit_integers = 1";

/**
 * Tables are sorted by time, so a filter by the times that were found so far costs a page more than it saves: without it a word that never
 * occurs takes a fifth less CPU, a rare substring two fifths less. The engine would use its cache of conditions instead, which is not
 * shown to be exact with filters of organisations and costs each page of new records an entry.
 */
const PAGE_SETTINGS = sql`use_top_k_dynamic_filtering = 0, use_query_condition_cache = 0, `;

/**
 * A tenant's query: limited to the organisation's rows, bounded in time, memory and the bytes of its result, and found by its comment when it is to be cancelled. Its rows
 * are the JSON of the answer: times in RFC 3339, 64-bit integers in quotes. `threads`: where the engine shares the processor with us.
 * `shardDatabase`: the statement reads Distributed tables over this database, and shards exchange subqueries; it fails if a shard is
 * unavailable, unless `skipsShards` is set.
 */
export function readSettings(
  comment: string,
  {
    orgId,
    maxSeconds,
    maxResultBytes,
    blockRows,
    groupLimit,
    isPage = false,
    skipsShards = false,
    threads,
    shardDatabase,
  }: ReadLimits & { threads?: number; shardDatabase?: string | undefined },
): string {
  const groups = groupLimit === undefined ? sql`` : sql`max_rows_to_group_by = ${groupLimit}, group_by_overflow_mode = 'break', `;
  const shards =
    shardDatabase === undefined ? sql`` : sql`distributed_product_mode = 'global', skip_unavailable_shards = ${Number(skipsShards)}, `;
  return sql`
SETTINGS ${tenantFilter(orgId, shardDatabase)}, ${shards}${optional("max_threads", threads)}${optional("max_block_size", blockRows)}${groups}${isPage ? PAGE_SETTINGS : sql``}max_execution_time = ${maxSeconds}, max_memory_usage = ${MAX_READ_MEMORY_BYTES},
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

/**
 * Of a cluster with replicas: an insert is answered when so many of them have it. Parallel, so that several backends insert at once; this
 * excludes `select_sequential_consistency`, which is why the question whether a body is stored goes to every replica.
 */
export function quorumSettings(quorum: string): Record<string, string | number> {
  return { insert_quorum: quorum, insert_quorum_parallel: 1, insert_quorum_timeout: 30_000 };
}

/** A replica that is away does not hold up a statement ON CLUSTER: it runs the statement when it is back. */
export const DDL_SETTINGS: Record<string, string | number> = {
  distributed_ddl_output_mode: "null_status_on_timeout_only_active",
  distributed_ddl_task_timeout: 15,
  // A failure is a status, not a line in the answer.
  wait_end_of_query: 1,
};
