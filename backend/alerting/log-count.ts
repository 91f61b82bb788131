// Counts the records of one log rule. Invariant: it uses one of the organisation's own query slots, waits at most WAIT_MS for it, and then
// has MAX_COUNT_MS.
import { UNLIMITED } from "../admission/query-queue.ts";
import type { ClickHouse } from "../engines/clickhouse/clickhouse-client.ts";
import { ApiError } from "../errors.ts";
import { filterOf } from "../query/native/log-filter-parameters.ts";
import { groupCounts } from "../storage/logs/group-counts.ts";
import { MAX_COUNT_MS, MAX_GROUPS_PER_RULE } from "./alerting-limits.ts";
import { isMet, type LogCondition, type LogGroup, windowMs } from "./log-condition.ts";

export interface CountedLogs {
  readonly clickhouse: Pick<ClickHouse, "read">;
  /** True until something is stored for the first time: the engine is then not asked. */
  readonly isUnused: () => boolean;
}

/** Waiting time for the organisation's other queries. */
const WAIT_MS = 10_000;

export interface CountOptions {
  readonly atMs: number;
  readonly signal: AbortSignal;
  /** The groups that were last reported: if there are more groups than the limit, these keep their slots. */
  readonly known?: readonly LogGroup[];
  /** Maximum number of groups; by default the maximum that can be reported, plus one. */
  readonly maxGroups?: number;
  /** Called when the count gets its slot. */
  readonly onStarted?: () => void;
}

/**
 * The groups for which the condition is met: those of `known` first, then those with the most records. Without `by`, the only group, in any
 * case. Throws ApiError query_too_expensive, too_many_queries, storage_unavailable, invalid_parameter; the signal's reason if it aborts.
 */
export async function countLogs(
  { clickhouse, isUnused }: CountedLogs,
  orgId: string,
  logs: LogCondition,
  { atMs, signal, known = [], maxGroups = MAX_GROUPS_PER_RULE + 1, onStarted }: CountOptions,
): Promise<LogGroup[]> {
  if (isUnused()) return logs.by.length === 0 ? [{ values: [], count: 0 }] : [];
  const end = BigInt(atMs) * 1_000_000n;
  const range = { start: end - BigInt(Math.round(windowMs(logs))) * 1_000_000n + 1n, end };
  const query = {
    filter: { ...filterOf(logs.filter), range },
    by: logs.by,
    having: logs,
    maxGroups,
    known: known.map(({ values }) => values),
  };
  const timeout = new AbortController();
  const overdue = (code: "query_too_expensive" | "too_many_queries", message: string) => () => timeout.abort(new ApiError(code, message));
  let timer = setTimeout(overdue("too_many_queries", "the organisation's own log queries use all of its query slots"), WAIT_MS);
  const admit = (): void => {
    onStarted?.();
    clearTimeout(timer);
    timer = setTimeout(overdue("query_too_expensive", TOO_LONG), MAX_COUNT_MS);
  };
  try {
    return await groupCounts(clickhouse, orgId, query, { ...UNLIMITED, admit, signal: AbortSignal.any([signal, timeout.signal]) });
  } finally {
    clearTimeout(timer);
  }
}

const TOO_LONG = `counting its records takes more than ${MAX_COUNT_MS / 1000} s: use a shorter window or more filters`;

/** Number of alerts that the rule would have. */
export function matchingGroups(logs: LogCondition, groups: readonly LogGroup[]): number {
  return groups.filter(({ count }) => isMet(logs, count)).length;
}
