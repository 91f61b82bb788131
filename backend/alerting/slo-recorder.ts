// Counts the events of service level objectives over calls and log records, and writes them by minute as series of the organisation, from
// which the evaluator calculates burn rates; also writes the remaining error budgets. Every replica with telemetry stores may run one.
// Invariants: a repeated count is harmless, because counts of a minute only grow and the metrics store keeps the largest value of a time; one
// objective of an organisation is counted at a time, and the organisation then pauses in proportion to the time of the count.
import { UNLIMITED } from "../admission/query-queue.ts";
import type { Kysely, Selectable } from "kysely";
import { Loop, settleWithin } from "../../common/loop.ts";
import { Outage } from "../../common/outage.ts";
import type { ClickHouse } from "../engines/clickhouse/clickhouse-client.ts";
import { hasCome } from "../engines/relational/due.ts";
import { ApiError } from "../errors.ts";
import type { Log } from "../log.ts";
import { filterOf } from "../query/native/log-filter-parameters.ts";
import { changedMinutes } from "../storage/changed-minutes.ts";
import { countByMinute } from "../storage/logs/event-counts.ts";
import type { MetricsStore } from "../storage/metrics/metric-store.ts";
import { MAX_LATE_MINUTES, MAX_RECORD_MS, MAX_RECORDED_SLOS } from "./alerting-limits.ts";
import type { AlertingTables, SlosTable } from "./alert-rule-table.ts";
import { pauseMs } from "./log-count-rows.ts";
import { budgetOf, EVENTS, RECORDED_BY, type Slo } from "./slo.ts";
import { budgetRemaining, callsOf, idleFromS, readEvents, type SloStores, sliOf, sumEvents, windowAt } from "./slo-figures.ts";
import { sloOf } from "./slo-table.ts";

export interface SloRecorderOptions {
  readonly db: Kysely<AlertingTables>;
  readonly stores: SloStores & { readonly metrics: Pick<MetricsStore, "query" | "write"> };
  readonly clickhouse: Pick<ClickHouse, "read">;
  /** True until something is stored for the first time: the engine is then not asked. */
  readonly isUnused: () => boolean;
  readonly log: Log;
  readonly nowMs?: () => number;
  readonly pollMs?: number;
  /** How long an organisation pauses after a count that took `busyMs`. */
  readonly pauseMs?: (busyMs: number) => number;
}

type Row = Selectable<SlosTable>;
interface Minutes {
  readonly startS: number;
  readonly endS: number;
}

const POLL_MS = 1000;
const [MINUTE_S, HOUR_S] = [60, 3600];
/** The longest window of a burn rate. */
const BACKFILL_S = 72 * HOUR_S;
/** Log records have no summaries, so a count reads a limited range. */
const MAX_LOGS_S = 6 * HOUR_S;
/** Minutes between late ones are counted again up to this gap, because each range costs several queries. */
const MAX_GAP_S = HOUR_S;
const CLAIM_MS = 2 * MAX_RECORD_MS;
/** An objective is due at most this long after its last minute was recorded. */
const MAX_DUE_MS = 900_000;
/** Rows that were received shortly before a count may have been committed after it. */
const OVERLAP_S = 15;
const BUDGET_EVERY_MS = 240_000;
/** How long disposal waits for running counts. */
const GRACE_MS = 5000;

export class SloRecorder implements AsyncDisposable {
  readonly #options: SloRecorderOptions;
  readonly #nowMs: () => number;
  readonly #outage: Outage;
  readonly #loop: Loop;
  readonly #stopping = new AbortController();
  /** Organisation → the running count. */
  readonly #running = new Map<string, Promise<void>>();
  /** Organisation → end of its pause. */
  readonly #pausedUntil = new Map<string, number>();
  /** Objective as it is defined → when its budget was last written. */
  readonly #budgetAtMs = new Map<string, number>();

  constructor(options: SloRecorderOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    this.#outage = new Outage({
      began: (err) => options.log.error({ event: "slos.record_failed", err }, "cannot count events of service level objectives, retrying"),
      ended: ({ failures, seconds }) =>
        options.log.info({ event: "slos.record_recovered", failures, seconds }, "recovered: service level objectives are counted again"),
      remindEveryMs: 300_000,
    });
    this.#loop = new Loop({ step: () => this.#step(), failed: (error) => this.#outage.failed(error), backoffMs: [500, 5000] });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#loop[Symbol.asyncDispose]();
    await settleWithin([...this.#running.values()], GRACE_MS);
  }

  async #step(): Promise<number> {
    const { pollMs = POLL_MS } = this.#options;
    const nowMs = this.#nowMs();
    for (const [orgId, untilMs] of this.#pausedUntil) if (untilMs <= performance.now()) this.#pausedUntil.delete(orgId);
    for (const [key, atMs] of this.#budgetAtMs) if (nowMs - atMs >= BUDGET_EVERY_MS) this.#budgetAtMs.delete(key);
    while (this.#running.size < MAX_RECORDED_SLOS) {
      const row = await claimDue(this.#options.db, new Date(nowMs), [...this.#running.keys(), ...this.#pausedUntil.keys()]);
      if (!row) break;
      const counting = this.#count(row)
        // The claim expires, and the objective is counted again.
        .catch((error: unknown) => this.#outage.failed(error))
        .finally(() => {
          this.#running.delete(row.org_id);
          this.#loop.wake();
        });
      this.#running.set(row.org_id, counting);
    }
    this.#outage.recovered();
    return pollMs;
  }

  async #count(row: Row): Promise<void> {
    const began = performance.now();
    const nowS = Math.floor(this.#nowMs() / 1000 / MINUTE_S) * MINUTE_S;
    const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(MAX_RECORD_MS)]);
    const done: Partial<Row> = await this.#record(sloOf(row), row, nowS, signal).catch((error: unknown) => ({
      error: this.#errorText(error),
    }));
    if (this.#stopping.signal.aborted) return await settle(this.#options.db, row, { locked_until: null });
    const pause = (this.#options.pauseMs ?? pauseMs)(performance.now() - began);
    this.#pausedUntil.set(row.org_id, performance.now() + pause);
    const pausedUntilMs = this.#nowMs() + pause;
    const isBehind = done.counted_until !== undefined && done.counted_until !== null && done.counted_until.getTime() < nowS * 1000;
    // Five seconds after the minute, most of its events have arrived.
    const dueMs = isBehind ? pausedUntilMs : Math.max(pausedUntilMs, (nowS + MINUTE_S + 5) * 1000);
    await settle(this.#options.db, row, { error: null, ...done, due_at: new Date(dueMs), locked_until: null });
  }

  /** Returns the columns to change. */
  async #record(slo: Slo, row: Row, nowS: number, signal: AbortSignal): Promise<Partial<Row>> {
    if (slo.indicator.promql) return await this.#writeBudget(slo, signal).then(() => ({}));
    const received = new Date(this.#nowMs());
    const fromS = nowS - BACKFILL_S;
    const startS = Math.min(nowS, Math.max(fromS, (row.counted_until?.getTime() ?? 0) / 1000));
    const endS = slo.indicator.logs ? Math.min(nowS, startS + MAX_LOGS_S) : nowS;
    const late = row.received_until ? await this.#lateMinutes(slo, row.received_until, fromS, signal) : [];
    await this.#writeLate(slo, rangesOf(late, startS), signal);
    if (endS > startS) await this.#writeEvents(slo, { startS, endS }, signal);
    await this.#writeBudget(slo, signal);
    return { counted_until: new Date(endS * 1000), received_until: received };
  }

  /** Late events that cannot be counted within half of the time stay uncounted: without new events, the alerts would not fire. */
  async #writeLate(slo: Slo, ranges: readonly Minutes[], signal: AbortSignal): Promise<void> {
    const inTime = AbortSignal.any([signal, AbortSignal.timeout(MAX_RECORD_MS / 2)]);
    try {
      for (const range of ranges.toReversed()) await this.#writeEvents(slo, range, inTime);
    } catch (err) {
      const isRefused = inTime.aborted || (err instanceof ApiError && err.status < 500);
      if (signal.aborted || !isRefused) throw err;
      this.#options.log.warn(
        { event: "slos.late_events_skipped", org_id: slo.orgId, slo_id: slo.id, err },
        "late events of a service level objective cannot be counted in time, skipping them",
      );
    }
  }

  async #lateMinutes(slo: Slo, since: Date, fromS: number, signal: AbortSignal): Promise<number[]> {
    const { clickhouse, isUnused } = this.#options;
    if (isUnused()) return [];
    const table = slo.indicator.logs ? "logs" : "spans";
    const sinceS = Math.floor(since.getTime() / 1000) - OVERLAP_S;
    return await clickhouse.read(slo.orgId, { ...UNLIMITED, signal }, (ask) =>
      changedMinutes(ask, slo.orgId, { table, sinceS, fromS, limit: MAX_LATE_MINUTES }),
    );
  }

  async #writeEvents(slo: Slo, range: Minutes, signal: AbortSignal): Promise<void> {
    const { metrics } = this.#options.stores;
    const events = slo.indicator.logs ? await this.#countLogs(slo, range, signal) : await this.#countCalls(slo, range, signal);
    if (slo.no_traffic === "bad")
      for (let minuteS = Math.max(range.startS, idleFromS(slo)); minuteS < range.endS; minuteS += MINUTE_S)
        if (!events.has(minuteS)) events.set(minuteS, { good: 0, total: 1 });
    const series = (event: string): string => `${EVENTS}{slo_id="${slo.id}",definition="${slo.definition}",event="${event}"}`;
    const lines = [...events].flatMap(([minuteS, { good, total }]) =>
      Object.entries({ good, total }).map(([event, count]) => `${series(event)} ${count} ${(minuteS + MINUTE_S) * 1000 - 1}\n`),
    );
    if (lines.length > 0) await metrics.write(identityOf(slo), Buffer.from(lines.join("")), this.#nowMs());
  }

  async #countCalls(slo: Slo, range: Minutes, signal: AbortSignal): Promise<Map<number, { good: number; total: number }>> {
    const points = await this.#options.stores.spans.events(
      slo.orgId,
      { ...range, stepS: MINUTE_S, ...callsOf(slo) },
      { ...UNLIMITED, signal },
    );
    return new Map(points.map(({ point, good, total }) => [range.startS + point * MINUTE_S, { good, total }]));
  }

  async #countLogs(slo: Slo, { startS, endS }: Minutes, signal: AbortSignal): Promise<Map<number, { good: number; total: number }>> {
    const { clickhouse, isUnused } = this.#options;
    const { total: all, good, bad } = slo.indicator.logs ?? { total: {} };
    if (isUnused()) return new Map();
    const range = { start: BigInt(startS) * 1_000_000_000n, end: BigInt(endS) * 1_000_000_000n - 1n };
    const count = (filter: typeof all) =>
      clickhouse.read(slo.orgId, { ...UNLIMITED, signal }, (ask) => countByMinute(ask, slo.orgId, { ...filterOf(filter), range }));
    const totals = await count(all);
    const chosen = await count(good ?? bad ?? {});
    const goodOf = (minuteS: number, total: number): number => {
      const records = Math.min(total, chosen.get(minuteS) ?? 0);
      return good ? records : total - records;
    };
    return new Map([...totals].map(([minuteS, total]) => [minuteS, { good: goodOf(minuteS, total), total }]));
  }

  /** Series for dashboards. The window changes slowly, so they are written every few minutes. */
  async #writeBudget(slo: Slo, signal: AbortSignal): Promise<void> {
    const nowMs = this.#nowMs();
    const key = [slo.id, slo.definition, slo.objective, slo.window].join(" ");
    if (this.#budgetAtMs.has(key)) return;
    const { stores } = this.#options;
    const sum = sumEvents(await readEvents(stores, slo, windowAt(slo.window, nowMs), { ...UNLIMITED, signal }));
    const sli = sliOf(sum);
    const values = {
      "slo:objective": 1 - budgetOf(slo),
      "slo:error_budget_remaining": budgetRemaining(slo, sum),
      ...(sli !== null && { "slo:sli": sli }),
    };
    const labels = `slo_id="${slo.id}",slo=${JSON.stringify(slo.name)}`;
    const lines = Object.entries(values).map(([name, value]) => `${name}{${labels}} ${value}\n`);
    await stores.metrics.write(identityOf(slo), Buffer.from(lines.join("")), nowMs);
    this.#budgetAtMs.set(key, nowMs);
  }

  #errorText(error: unknown): string {
    if (error instanceof ApiError && error.status < 500) return error.message;
    if (error instanceof ApiError) return "its events cannot be counted: a store is unreachable";
    if (error instanceof Error && error.name === "TimeoutError") return "counting its events takes too long: use narrower filters";
    if (!this.#stopping.signal.aborted) this.#outage.failed(error);
    return "its events cannot be counted because of an internal error";
  }
}

function identityOf({ orgId }: Slo) {
  return { orgId, hostId: RECORDED_BY, node: RECORDED_BY };
}

/** The late minutes before `endS` as few ranges, oldest first. */
function rangesOf(late: readonly number[], endS: number): Minutes[] {
  const ranges: { startS: number; endS: number }[] = [];
  for (const minuteS of late) {
    if (minuteS >= endS) continue;
    const last = ranges.at(-1);
    if (last && minuteS <= last.endS + MAX_GAP_S && minuteS - last.startS < MAX_LOGS_S) last.endS = minuteS + MINUTE_S;
    else ranges.push({ startS: minuteS, endS: minuteS + MINUTE_S });
  }
  return ranges;
}

/** Claims the objective that has waited longest. */
async function claimDue(db: Kysely<AlertingTables>, now: Date, busy: readonly string[]): Promise<Row | undefined> {
  return await db
    .updateTable("slos")
    .set({ locked_until: new Date(now.getTime() + CLAIM_MS) })
    .where("id", "=", (eb) =>
      eb
        .selectFrom("slos")
        .select("id")
        .where(hasCome("due_at", now, MAX_DUE_MS))
        .where((or) => or.or([or("locked_until", "is", null), hasCome("locked_until", now, CLAIM_MS)]))
        .$if(busy.length > 0, (query) => query.where("org_id", "not in", busy))
        .orderBy("due_at")
        .orderBy("id")
        .limit(1)
        .forUpdate()
        .skipLocked(),
    )
    .returningAll()
    .executeTakeFirst();
}

/** Does nothing if the objective was redefined or claimed by another process meanwhile. */
async function settle(db: Kysely<AlertingTables>, { id, locked_until: claim }: Row, columns: Partial<Row>): Promise<void> {
  await db.updateTable("slos").set(columns).where("id", "=", id).where("locked_until", "=", claim).execute();
}
