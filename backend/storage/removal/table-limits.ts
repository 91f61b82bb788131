// Sets how long the tables of logs and traces keep rows. Invariant: nothing that was acknowledged is deleted when a retention changes. The
// tables are raised first, and ingest admits records only as far back as all tables of all shards are known to keep them; they are lowered
// only after two passes, 10 minutes apart, found the same lower retention, so every replica has stopped to admit older records.
import type { ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { applyRetention, deletionDaysOf } from "../../engines/clickhouse/migrate.ts";
import type { Log } from "../../log.ts";
import { MINUTES_DAYS } from "../traces/keep-minutes.ts";

/** Days by signal; Infinity if the tables keep rows for ever. */
export interface SignalDays {
  readonly logs: number;
  readonly traces: number;
}

export class TableLimits {
  readonly #clickhouse: Pick<ClickHouse, "shards">;
  readonly #log: Log;
  #lastStep: Promise<unknown> = Promise.resolve();
  /** Wanted and current days of the last pass. */
  #seen: string | undefined;

  constructor(clickhouse: Pick<ClickHouse, "shards">, log: Log) {
    this.#clickhouse = clickhouse;
    this.#log = log;
  }

  /** What every table keeps. Throws ApiError storage_unavailable. */
  async read(): Promise<SignalDays> {
    const tables = await this.#readTables();
    const least = (isOfLogs: boolean): number =>
      Math.min(...tables.filter(([table]) => (table === "logs") === isOfLogs).map(([, days]) => days ?? Number.POSITIVE_INFINITY));
    return { logs: least(true), traces: least(false) };
  }

  /** Runs steps one after the other, so that a pass cannot lower what a change of a retention has just raised. */
  async exclusively<T>(step: () => Promise<T>): Promise<T> {
    const running = this.#lastStep.then(step);
    this.#lastStep = running.catch(() => undefined);
    return await running;
  }

  /** Raises tables that keep rows for a shorter time. Throws ApiError storage_unavailable. */
  async raise(days: SignalDays): Promise<void> {
    await this.#apply(days, (current, wanted) => current !== undefined && current < wanted);
  }

  /** Call at each pass, with the longest retention of all organisations. Throws ApiError storage_unavailable. */
  async settle(wanted: SignalDays): Promise<void> {
    await this.raise(wanted);
    await this.#apply(wanted, (current) => current === undefined);
    const seen = JSON.stringify([wanted, await this.#readTables()]);
    if (seen === this.#seen) await this.#apply(wanted, () => true);
    this.#seen = seen;
  }

  /** `current` is undefined if the table keeps rows for ever. */
  async #apply(days: SignalDays, isDue: (current: number | undefined, wanted: number) => boolean): Promise<void> {
    for (const shard of this.#clickhouse.shards) await applyRetention(shard, tableDays(days), this.#log, isDue);
  }

  async #readTables(): Promise<(readonly [table: string, days: number | undefined])[]> {
    const tables = Object.keys(tableDays({ logs: 0, traces: 0 }));
    const all = this.#clickhouse.shards.flatMap((shard) =>
      tables.map(async (table) => [table, await deletionDaysOf(shard, table)] as const),
    );
    return await Promise.all(all);
  }
}

function tableDays({ logs, traces }: SignalDays): Record<string, number> {
  const summaries = Math.max(traces, MINUTES_DAYS);
  return { logs, spans: traces, span_operations: traces, exemplars: traces, span_minutes: summaries, service_edges: summaries };
}
