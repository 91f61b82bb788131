// The settings that every statement carries, so that neither a server's profile nor a version's default changes its meaning.
import { MAX_READ_MEMORY_BYTES } from "../engine-limits.ts";
import type { Insert, ReadLimits } from "./engine.ts";
import { Sql, sql } from "./sql.ts";
import { tenantFilter } from "./tenant-filter.ts";

/**
 * A query of the backend itself has limits of time and memory, and returns 64-bit integers as strings, because a double would round them.
 * It fails while a shard (with `everyReplica` of clickhouse-client.ts, a replica) is unavailable, because whether rows are stored, deleted or changed
 * must not be decided from incomplete data.
 */
export const QUERY_SETTINGS =
  "\nSETTINGS skip_unavailable_shards = 0, max_execution_time = 30, max_memory_usage = 2000000000, output_format_json_quote_64bit_integers = 1";

/**
 * The cache of conditions is off, because it is not proven to be exact with filters of organisations, and each page of new records would add
 * an entry. A page is small, so threads that format it cost more than they save.
 */
const PAGE_SETTINGS = sql`use_query_condition_cache = 0, output_format_parallel_formatting = 0, `;
/**
 * Only for the embedded engine, because ClickHouse 25.8 does not know these settings. Tables are sorted by (org_id, time, id), so top-K
 * dynamic filtering costs more than it saves for a page of results; disabling it cuts CPU by 20 % (no match) or 40 % (rare substring). Skip
 * indexes are read before rows: a page merges all parts, so it reads the indexes of all parts in any case, and each part without a match
 * then needs no reader (0.4 ms of CPU).
 */
const EMBEDDED_PAGE_SETTINGS = sql`use_top_k_dynamic_filtering = 0, use_skip_indexes_on_data_read = 0, `;
/** A thread for each part costs more than it saves: about a millisecond of CPU of a page with nine parts. */
const ONE_INDEX_THREAD = sql`max_threads_for_indexes = 1, `;

/**
 * Settings of a tenant's query. The query is limited to the organisation's rows, has limits for time, memory and result size, and carries a
 * comment by which it can be found and cancelled. Its rows are returned as JSON: times in RFC 3339, 64-bit integers in quotes. `threads`:
 * set if the engine shares the processor with this process. `shardDatabase`: set if the statement reads Distributed tables over this
 * database; shards then exchange subqueries, and the query fails if a shard is unavailable, unless `skipsShards` is set.
 */
export function readSettings(
  comment: string,
  {
    orgId,
    labelLimits,
    maxSeconds,
    maxResultBytes,
    blockRows,
    groupLimit,
    isPage = false,
    readsLargeIndex = false,
    skipsShards = false,
    threads,
    shardDatabase,
  }: ReadLimits & { threads?: number; shardDatabase?: string | undefined },
): string {
  const groups = groupLimit === undefined ? sql`` : sql`max_rows_to_group_by = ${groupLimit}, group_by_overflow_mode = 'break', `;
  const page = isPage ? pageSettings(threads !== undefined, readsLargeIndex) : sql``;
  const shards =
    shardDatabase === undefined ? sql`` : sql`distributed_product_mode = 'global', skip_unavailable_shards = ${Number(skipsShards)}, `;
  return sql`
SETTINGS ${tenantFilter(orgId, shardDatabase, labelLimits)}, ${shards}${optional("max_threads", threads)}${optional("max_block_size", blockRows)}${groups}${page}max_execution_time = ${maxSeconds}, max_memory_usage = ${MAX_READ_MEMORY_BYTES},
  max_result_bytes = ${maxResultBytes}, result_overflow_mode = 'throw', log_comment = ${comment}, date_time_output_format = 'iso',
  output_format_json_quote_64bit_integers = 1, output_format_json_escape_forward_slashes = 0
FORMAT JSONEachRow`.text;
}

function pageSettings(isEmbedded: boolean, readsLargeIndex: boolean): Sql {
  return sql`${PAGE_SETTINGS}${isEmbedded ? EMBEDDED_PAGE_SETTINGS : sql``}${readsLargeIndex ? sql`` : ONE_INDEX_THREAD}`;
}

function optional(name: string, value: number | undefined): Sql {
  return new Sql(value === undefined ? "" : `${name} = ${value}, `);
}

/** Cancels the query with this comment, and no other. */
export function killStatement(comment: string): string {
  return sql`KILL QUERY WHERE Settings['log_comment'] = ${comment} ASYNC`.text;
}

/**
 * `async_insert` is off, so the response is sent after the commit. A statement is one block: within a partition either all rows are
 * committed or none, which the deduplication of retries relies on. Callers keep statements well below these limits.
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
 * For a cluster with replicas: an insert is acknowledged when this many replicas have it. The quorum is parallel, so that several backends
 * can insert at once; it cannot be combined with `select_sequential_consistency`, so once-writer.ts queries every replica whether a body is
 * stored.
 */
export function quorumSettings(quorum: string): Record<string, string | number> {
  return { insert_quorum: quorum, insert_quorum_parallel: 1, insert_quorum_timeout: 30_000 };
}

/** An unavailable replica does not delay a statement ON CLUSTER: it runs the statement when it is back. */
export const DDL_SETTINGS: Record<string, string | number> = {
  distributed_ddl_output_mode: "null_status_on_timeout_only_active",
  distributed_ddl_task_timeout: 15,
  // Makes the server report an error as a status, not as a line in the result.
  wait_end_of_query: 1,
};
