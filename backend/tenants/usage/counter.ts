// Counts stored bytes and records per organisation, day and signal. Invariant: counting only changes memory; every 30 s and at the end of the
// process, a few statements add the counts to the database. A crash loses the counts since then. Memory is limited by the number of
// organisations with a key.
import { type Kysely, sql } from "kysely";
import { Outage } from "../../../common/outage.ts";
import { writeRows } from "../../engines/relational/bulk-rows.ts";
import type { Log } from "../../log.ts";
import type { UsageDayRow, UsageTables } from "./usage-limits.ts";

export const RETENTION_DAYS = 366;
const DAY_MS = 86_400_000;
const WRITE_EVERY_MS = 30_000;
const ROWS_PER_STATEMENT = 500;

export interface UsageCounterOptions {
  readonly db: Kysely<UsageTables>;
  readonly log: Log;
  readonly now?: () => number;
  readonly writeEveryMs?: number;
}

export class UsageCounter implements AsyncDisposable {
  readonly #options: UsageCounterOptions;
  readonly #now: () => number;
  readonly #outage: Outage;
  readonly #timer: NodeJS.Timeout;
  #counted = new Map<string, UsageDayRow>();
  #writing: Promise<void> | undefined;
  #expiredDay = "";
  /** The day of the last count, cached because formatting it would cost more than the count. */
  #today = { sinceEpoch: Number.NaN, day: "" };

  constructor(options: UsageCounterOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#outage = new Outage({
      began: (error) => options.log.warn({ event: "usage.write_failed", err: error }, "cannot write usage, retrying"),
      ended: ({ seconds }) => options.log.info({ event: "usage.write_recovered", seconds }, "usage can be written again"),
    });
    this.#timer = setInterval(() => void this.write(), options.writeEveryMs ?? WRITE_EVERY_MS).unref();
  }

  /** `activeSeries`: their current number, if they are counted. */
  count(orgId: string, signal: UsageDayRow["signal"], bytes: number, records: number, activeSeries?: number): void {
    const nowMs = this.#now();
    const sinceEpoch = Math.floor(nowMs / DAY_MS);
    if (sinceEpoch !== this.#today.sinceEpoch) this.#today = { sinceEpoch, day: dayOf(nowMs) };
    const { day } = this.#today;
    this.#add({ org_id: orgId, day, signal, bytes, records, active_series: activeSeries ?? null });
  }

  /** Adds the counts to the database. Never throws; after a failure the next write retries. */
  async write(): Promise<void> {
    this.#writing ??= this.#writeAll().finally(() => (this.#writing = undefined));
    await this.#writing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#writing;
    await this.write();
  }

  #add(row: UsageDayRow): void {
    const key = `${row.org_id} ${row.day} ${row.signal}`;
    const known = this.#counted.get(key);
    if (!known) {
      this.#counted.set(key, { ...row });
      return;
    }
    known.bytes += row.bytes;
    known.records += row.records;
    if ((row.active_series ?? 0) > (known.active_series ?? 0)) known.active_series = row.active_series;
  }

  async #writeAll(): Promise<void> {
    // In a fixed order, which prevents deadlocks between replicas.
    const rows = [...this.#counted].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
    this.#counted = new Map();
    let written = 0;
    try {
      for (; written < rows.length; written += ROWS_PER_STATEMENT) await this.#insert(rows.slice(written, written + ROWS_PER_STATEMENT));
      await this.#expire();
      this.#outage.recovered();
    } catch (error) {
      this.#outage.failed(error);
      for (const row of rows.slice(written)) this.#add(row);
    }
  }

  async #insert(rows: readonly UsageDayRow[]): Promise<void> {
    const refused = await writeRows(rows, (batch) =>
      this.#options.db
        .insertInto("usage_days")
        .values(batch)
        .onConflict((conflict) =>
          conflict.columns(["org_id", "day", "signal"]).doUpdateSet({
            bytes: sql<number>`usage_days.bytes + excluded.bytes`,
            records: sql<number>`usage_days.records + excluded.records`,
            active_series: sql<number | null>`CASE WHEN excluded.active_series <= usage_days.active_series OR excluded.active_series IS NULL
              THEN usage_days.active_series ELSE excluded.active_series END`,
          }),
        )
        .execute(),
    );
    for (const row of refused)
      this.#options.log.error({ event: "usage.row_dropped", ...row }, "database rejected a row of usage counts, dropping it");
  }

  /** Deletes old days, once a day. */
  async #expire(): Promise<void> {
    const today = dayOf(this.#now());
    if (today === this.#expiredDay) return;
    await this.#options.db
      .deleteFrom("usage_days")
      .where("day", "<", dayOf(this.#now() - RETENTION_DAYS * DAY_MS))
      .execute();
    this.#expiredDay = today;
  }
}

/** UTC, `2026-11-22`. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
