// Periodically counts the log records of rules, and reports the counts to the evaluator as series of the organisation (log-condition.ts).
// Every replica with a log store may run one. Invariants: a replica runs one count of an organisation at a time. One slot is reserved for
// counts that were cheap last time, so expensive ones do not block them, and a count that waits for queries of its organisation releases
// its slot. After a count, the organisation pauses in proportion to the time of that count. The status of a rule contains its errors. The
// rules of an organisation write a limited number of series per replica, however often they change.
import { Loop, pause } from "../../common/loop.ts";
import { Outage } from "../../common/outage.ts";
import { ApiError } from "../errors.ts";
import { ActiveSeries } from "../storage/metrics/active-series.ts";
import type { MetricsStore } from "../storage/metrics/store.ts";
import type { Log } from "../operations/log.ts";
import { MAX_GROUPS_PER_RULE, MAX_LOG_RULE_SERIES, MAX_SLOW_COUNTS, MAX_WAITING_COUNTS } from "./limits.ts";
import {
  claimDue,
  type CountResult,
  type DueCount,
  freeCounts,
  type LogCountTables,
  releaseCount,
  restMs,
  settleCount,
} from "./log-count-rows.ts";
import { type CountedLogs, countLogs } from "./log-count.ts";
import { COUNTED_BY, countEveryMs, countSamples, groupsNow, type LogGroup, ofFilter, whyTooShort } from "./log-condition.ts";
import type { Kysely } from "kysely";

export interface LogCounterOptions {
  readonly db: Kysely<LogCountTables>;
  /** No other process uses this database. */
  readonly isAlone: boolean;
  readonly logs: CountedLogs;
  /** True if the organisation's own queries use all of its query slots. */
  readonly isFull: (orgId: string) => boolean;
  readonly metrics: Pick<MetricsStore, "write">;
  /** Interval between evaluations. */
  readonly intervalMs: number;
  readonly counted: (result: "counted" | "failed") => void;
  readonly log: Log;
  readonly nowMs?: () => number;
  /** For tests. */
  readonly series?: Pick<ActiveSeries, "admit">;
  readonly timing?: { readonly pollMs: number };
}

/** Poll interval for changes of other replicas. */
const TIMING = { pollMs: 1000 };
/** Concurrent counts; `cheap` is for those that took less than CHEAP_MS last time, including waits. */
const SLOTS = ["any", "cheap"] as const;
const CHEAP_MS = 250;
/** A count that has not started after this time releases its slot. */
const DETACH_AFTER_MS = 100;
/** Time for running counts when it is disposed. */
const GRACE_MS = 5000;
const REMIND_MS = 300_000;

const NO_SERIES = `more than ${MAX_LOG_RULE_SERIES} values of \`by\` and conditions of all rules within an hour: not all of them fire`;
const TOO_MANY = `more than ${MAX_GROUPS_PER_RULE} values of \`by\` matched within some minutes: not all of them fire`;

type Slot = (typeof SLOTS)[number];

interface UnderWay {
  readonly orgId: string;
  /** When it got its query slot, by the clock of `performance`. */
  startedAtMs: number | undefined;
  done: Promise<void>;
}

export class LogCounter implements AsyncDisposable {
  readonly #options: LogCounterOptions;
  readonly #nowMs: () => number;
  readonly #loop: Loop;
  readonly #outage: Outage;
  readonly #series: Pick<ActiveSeries, "admit">;
  readonly #stopping = new AbortController();
  readonly #slots = new Map<Slot, UnderWay>();
  readonly #detached = new Set<UnderWay>();
  /** Organisation → end of its pause. */
  readonly #resting = new Map<string, number>();
  #isFreed: boolean;

  constructor(options: LogCounterOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    this.#isFreed = !options.isAlone;
    this.#series = options.series ?? new ActiveSeries({ limitOf: () => MAX_LOG_RULE_SERIES });
    this.#outage = new Outage({
      began: (err) => options.log.error({ event: "log_rules.count_failed", err }, "log records cannot be counted for rules; retrying"),
      ended: ({ failures, seconds }) =>
        options.log.info({ event: "log_rules.count_recovered", failures, seconds }, "recovered: log records are counted for rules"),
      remindEveryMs: REMIND_MS,
    });
    const failed = (error: unknown): void => this.#outage.failed(error);
    this.#loop = new Loop({ step: () => this.#step(), failed, backoffMs: [500, 5000] });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
    this.#stopping.abort();
    // Aborts the count even if the metrics store hangs.
    const over = new AbortController();
    const all = Promise.all(this.#underWay().map(({ done }) => done)).finally(() => over.abort());
    await Promise.race([all, pause(GRACE_MS, over.signal)]);
  }

  async #step(): Promise<number> {
    const { db, timing = TIMING } = this.#options;
    if (!this.#isFreed) await freeCounts(db);
    this.#isFreed = true;
    for (const slot of SLOTS) {
      this.#detach(slot);
      if (this.#slots.has(slot)) continue;
      const due = await claimDue(db, new Date(this.#nowMs()), { busy: this.#busy(), ...(slot === "cheap" && { belowMs: CHEAP_MS }) });
      if (!due) break;
      this.#begin(slot, due);
    }
    this.#outage.recovered();
    const isSoonDetached = [...this.#slots.values()].some((one) => this.#mayDetach(one));
    return isSoonDetached ? Math.min(DETACH_AFTER_MS, timing.pollMs) : timing.pollMs;
  }

  #underWay(): UnderWay[] {
    return [...this.#slots.values(), ...this.#detached];
  }

  /** Organisations that must not start another count now. */
  #busy(): string[] {
    for (const [orgId, untilMs] of this.#resting) if (untilMs <= this.#nowMs()) this.#resting.delete(orgId);
    return [...this.#underWay().map(({ orgId }) => orgId), ...this.#resting.keys()];
  }

  #detach(slot: Slot): void {
    const one = this.#slots.get(slot);
    if (!one || !this.#mayDetach(one)) return;
    this.#slots.delete(slot);
    this.#detached.add(one);
  }

  #mayDetach({ orgId, startedAtMs }: UnderWay): boolean {
    if (startedAtMs !== undefined || this.#detached.size >= MAX_WAITING_COUNTS) return false;
    const { isFull } = this.#options;
    return isFull(orgId) || [...this.#detached].filter((one) => !isFull(one.orgId)).length < MAX_SLOW_COUNTS;
  }

  #begin(slot: Slot, due: DueCount): void {
    const one: UnderWay = { orgId: due.orgId, startedAtMs: undefined, done: Promise.resolve() };
    one.done = this.#count(due, one)
      // Safe: the claim expires, and the rule is counted again.
      .catch((error: unknown) => this.#outage.failed(error))
      .finally(() => {
        this.#detached.delete(one);
        if (this.#slots.get(slot) === one) this.#slots.delete(slot);
        this.#loop.wake();
      });
    this.#slots.set(slot, one);
  }

  async #count(due: DueCount, one: UnderWay): Promise<void> {
    const { db, intervalMs, counted } = this.#options;
    const [atMs, began] = [this.#nowMs(), performance.now()];
    const found = await this.#countAndReport(due, atMs, () => (one.startedAtMs = performance.now()));
    if (this.#stopping.signal.aborted && !found.reported) return await releaseCount(db, due);
    const endedMs = performance.now();
    const tookMs = Math.ceil(endedMs - began);
    // If it never got a query slot, it occupied one of the counter's slots all the time.
    const busyMs = Math.ceil(endedMs - (one.startedAtMs ?? began));
    const nowMs = this.#nowMs();
    // Set here as well, because the row may have been deleted, and a rule that was written meanwhile is due at once.
    this.#resting.set(due.orgId, nowMs + restMs(busyMs));
    const result: CountResult = {
      ...found,
      now: new Date(nowMs),
      tookMs,
      busyMs,
      nextAt: new Date(atMs + countEveryMs(due.logs, intervalMs)),
    };
    await settleCount(db, due, result);
    counted(found.reported ? "counted" : "failed");
  }

  /** Never throws. */
  async #countAndReport(
    { orgId, ruleId, logs, reported: before }: DueCount,
    atMs: number,
    itsTurn: () => void,
  ): Promise<Pick<CountResult, "reported" | "error">> {
    try {
      const found = await countLogs(this.#options.logs, orgId, logs, {
        atMs,
        signal: this.#stopping.signal,
        known: before,
        began: itsTurn,
      });
      const { groups, isCut } = groupsNow(logs, { found, before, atMs });
      const reported = await this.#withRoom(orgId, groups, (some) => countSamples(ruleId, logs, some));
      await this.#write(orgId, countSamples(ruleId, logs, reported), atMs);
      const tooShort = whyTooShort(logs, this.#options.intervalMs);
      return {
        reported,
        error: reported.length < groups.length ? NO_SERIES : isCut ? TOO_MANY : tooShort ? `logs.window: ${tooShort}` : null,
      };
    } catch (error) {
      // The last counts stay valid until there are new ones: alerts neither fire nor resolve while records cannot be read.
      if (error instanceof ApiError && error.code === "storage_unavailable")
        await this.#write(orgId, countSamples(ruleId, logs, before), atMs).catch(() => undefined);
      return { reported: undefined, error: this.#words(error, { org_id: orgId, rule_id: ruleId }) };
    }
  }

  /** The groups whose series exist or fit into the limit. */
  async #withRoom(orgId: string, groups: readonly LogGroup[], samplesOf: (some: readonly LogGroup[]) => string): Promise<LogGroup[]> {
    const reported: LogGroup[] = [];
    for (const group of groups) {
      const admitted = this.#series.admit({ orgId, hostId: COUNTED_BY }, Buffer.from(samplesOf([group])));
      if (await admitted.then(() => true, isOverLimit)) reported.push(group);
    }
    return reported;
  }

  async #write(orgId: string, samples: string, atMs: number): Promise<void> {
    if (samples === "") return;
    await this.#options.metrics.write({ orgId, hostId: COUNTED_BY, node: COUNTED_BY }, Buffer.from(samples), atMs);
  }

  #words(error: unknown, context: { readonly org_id: string; readonly rule_id: string }): string {
    const known = ofFilter(error);
    if (known instanceof ApiError && known.status < 500) return known.message;
    // /readyz reports an unavailable engine.
    if (known instanceof ApiError) return "its records could not be counted: the log store or the metrics store could not be reached";
    if (!this.#stopping.signal.aborted)
      this.#options.log.error({ event: "log_rules.rule_failed", err: error, ...context }, "the records of a rule could not be counted");
    return "its records could not be counted for a reason on our side";
  }
}

/** False if it is that error. Throws any other failure. */
function isOverLimit(error: unknown): false {
  if (error instanceof ApiError && error.code === "over_quota") return false;
  throw error;
}
