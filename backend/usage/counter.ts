// Counts what each organisation sent and we stored, by day and signal. Invariant: counting is memory; every half minute, and when the process
// ends, what was counted since is added to the database in a few statements, however many requests it was. What a crash takes along is what
// was not added yet. Memory is bounded by the organisations that have a key.
import { type Kysely, sql } from "kysely";
import { Outage } from "../../agent/common/outage.ts";
import { writeRows } from "../engines/relational/write-rows.ts";
import type { Log } from "../observability/log.ts";
import type { UsageDayRow, UsageTables } from "./table.ts";

export const KEPT_DAYS = 366;
const DAY_MS = 86_400_000;
const WRITE_EVERY_MS = 30_000;
const ROWS = 500;

export interface UsageCounterOptions {
  readonly db: Kysely<UsageTables>;
  readonly log: Log;
  /** Unix milliseconds. */
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
  #forgottenDay = "";
  /** Of the last count: making it anew for each would cost more than the count. */
  #today = { sinceEpoch: Number.NaN, day: "" };

  constructor(options: UsageCounterOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#outage = new Outage({
      began: (error) => options.log.warn({ err: error }, "usage cannot be written; retrying"),
      ended: ({ seconds }) => options.log.info({ seconds }, "recovered: usage is written"),
    });
    this.#timer = setInterval(() => void this.write(), options.writeEveryMs ?? WRITE_EVERY_MS).unref();
  }

  /** `activeSeries`: how many there are now, where they are counted. */
  count(orgId: string, signal: UsageDayRow["signal"], bytes: number, records: number, activeSeries?: number): void {
    const nowMs = this.#now();
    const sinceEpoch = Math.floor(nowMs / DAY_MS);
    if (sinceEpoch !== this.#today.sinceEpoch) this.#today = { sinceEpoch, day: dayOf(nowMs) };
    const { day } = this.#today;
    this.#add({ org_id: orgId, day, signal, bytes, records, active_series: activeSeries ?? null });
  }

  /** Adds what was counted to the database. Never throws; what could not be added is added the next time. */
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
    // In one order, so that replicas never wait for each other.
    const rows = [...this.#counted].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, row]) => row);
    this.#counted = new Map();
    let written = 0;
    try {
      for (; written < rows.length; written += ROWS) await this.#insert(rows.slice(written, written + ROWS));
      await this.#forget();
      this.#outage.recovered();
    } catch (error) {
      this.#outage.failed(error);
      for (const row of rows.slice(written)) this.#add(row);
    }
  }

  async #insert(rows: readonly UsageDayRow[]): Promise<void> {
    const refused = await writeRows(rows, (some) =>
      this.#options.db
        .insertInto("usage_days")
        .values(some)
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
    for (const row of refused) this.#options.log.error({ ...row }, "usage cannot be kept");
  }

  /** Once a day. */
  async #forget(): Promise<void> {
    const today = dayOf(this.#now());
    if (today === this.#forgottenDay) return;
    await this.#options.db
      .deleteFrom("usage_days")
      .where("day", "<", dayOf(this.#now() - KEPT_DAYS * DAY_MS))
      .execute();
    this.#forgottenDay = today;
  }
}

/** UTC, `2026-11-22`. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
