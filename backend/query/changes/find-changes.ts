// Compares the telemetry of two ranges: each kind of data is a part. Invariants: each part uses one query slot at a time and ends after its
// time limit; a part that fails leaves the others as they are.
import type { QueryOptions } from "../../admission/query-queue.ts";
import type { LogStore } from "../../storage/logs/log-store.ts";
import type { MetricsStore } from "../../storage/metrics/metric-store.ts";
import type { SpanStore } from "../../storage/traces/span-store.ts";
import { type Change, type Comparison, nanosecondRanges, POINTS } from "./change.ts";
import { findLogChanges } from "./log-changes.ts";
import { findMetricChanges } from "./metric-changes.ts";
import { findTraceChanges } from "./trace-changes.ts";

export interface ChangeSources {
  readonly spans: Omit<SpanStore, "insert">;
  readonly logs: Pick<LogStore, "comparePatterns">;
  readonly metrics: Pick<MetricsStore, "query">;
}

type Part = (options: QueryOptions) => Promise<readonly Change[]>;

export function telemetryParts({ spans, logs, metrics }: ChangeSources, orgId: string, comparison: Comparison) {
  return {
    traces: (options: QueryOptions) => findTraceChanges(spans, orgId, comparison, options),
    logs: async (options: QueryOptions) =>
      findLogChanges(await logs.comparePatterns(orgId, nanosecondRanges(comparison), POINTS, options), comparison),
    metrics: (options: QueryOptions) => findMetricChanges(metrics, orgId, comparison, options),
  } satisfies Record<string, Part>;
}

interface FoundChanges {
  readonly changes: readonly Change[];
  readonly failures: readonly { readonly part: string; readonly error: unknown }[];
}

export async function findParts(
  parts: Readonly<Record<string, Part>>,
  { partMs, optionsOf }: { readonly partMs: number; readonly optionsOf: (part: string) => QueryOptions },
): Promise<FoundChanges> {
  const failures: { part: string; error: unknown }[] = [];
  const found = Object.entries(parts).map(async ([part, find]): Promise<readonly Change[]> => {
    const { signal, ...options } = optionsOf(part);
    const limit = AbortSignal.timeout(partMs);
    return await find({ ...options, signal: signal ? AbortSignal.any([signal, limit]) : limit }).catch((error: unknown) => {
      failures.push({ part, error });
      return [];
    });
  });
  return { changes: (await Promise.all(found)).flat(), failures };
}
