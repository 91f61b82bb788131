// Periodically counts the log records of rules, and reports the counts to the evaluator as series of the organisation (log-condition.ts).
// Every replica with a log store may run one. Invariants: a replica runs one count of an organisation at a time. One slot is reserved for
// counts that were cheap last time, so expensive ones do not block them, and a count that waits for queries of its organisation releases
// its slot. After a count, the organisation pauses in proportion to the time of that count. The status of a rule contains its errors. The
// rules of an organisation write a limited number of series per replica, however often they change.
import { Loop, settleWithin } from "../../common/loop.ts";
import { Outage } from "../../common/outage.ts";
import { ApiError } from "../errors.ts";
import { ActiveSeries } from "../storage/metrics/active-series.ts";
import type { MetricsStore } from "../storage/metrics/metric-store.ts";
import type { Log } from "../log.ts";
import { MAX_GROUPS_PER_RULE, MAX_LOG_RULE_SERIES, MAX_SLOW_COUNTS, MAX_WAITING_COUNTS } from "./alerting-limits.ts";
import {
  claimDue,
  type CountResult,
  type DueCount,
  type LogCountTables,
  pauseMs,
  releaseClaims,
  releaseCount,
  settleCount,
} from "./log-count-rows.ts";
import { type CountedLogs, countLogs } from "./log-count.ts";
import { COUNTED_BY, countEveryMs, countSamples, updateGroups, type LogGroup, toFilterError, findWindowProblem } from "./log-condition.ts";
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

/** Interval for polling the database, to find changes that other replicas made. */
const TIMING = { pollMs: 1000 };
/** Slots for counts; `cheap` is for those that took less than CHEAP_MS last time, including the wait for a query slot. */
const SLOTS = ["any", "cheap"] as const;
const CHEAP_MS = 250;
/** Time until the next pass if a count that waits for a query slot may release its slot of the counter. */
const DETACH_AFTER_MS = 100;
/** How long disposal waits for running counts. */
const GRACE_MS = 5000;
const REMIND_MS = 300_000;

const NO_SERIES = `the organisation's log rules produced more than ${MAX_LOG_RULE_SERIES} series (value of \`by\` × condition) within an hour; some alerts will not fire`;
const TOO_MANY = `more than ${MAX_GROUPS_PER_RULE} values of \`by\` matched within a few minutes; some alerts will not fire`;

type Slot = (typeof SLOTS)[number];

interface RunningCount {
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
  readonly #slots = new Map<Slot, RunningCount>();
  readonly #detached = new Set<RunningCount>();
  /** Organisation → end of its pause. */
  readonly #pausedUntil = new Map<string, number>();
  /** True once the claims of the previous process are released. On a shared database, they expire instead, so it is always true. */
  #hasReleasedClaims: boolean;

  constructor(options: LogCounterOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    this.#hasReleasedClaims = !options.isAlone;
    this.#series = options.series ?? new ActiveSeries({ limitOf: () => MAX_LOG_RULE_SERIES });
    this.#outage = new Outage({
      began: (err) => options.log.error({ event: "log_rules.count_failed", err }, "cannot count log records for rules, retrying"),
      ended: ({ failures, seconds }) =>
        options.log.info({ event: "log_rules.count_recovered", failures, seconds }, "recovered: log records are counted for rules again"),
      remindEveryMs: REMIND_MS,
    });
    const failed = (error: unknown): void => this.#outage.failed(error);
    this.#loop = new Loop({ step: () => this.#step(), failed, backoffMs: [500, 5000] });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
    this.#stopping.abort();
    await settleWithin(
      this.#runningCounts().map(({ done }) => done),
      GRACE_MS,
    );
  }

  async #step(): Promise<number> {
    const { db, timing = TIMING } = this.#options;
    // A process that was killed leaves claims behind; without this, its rules would not be counted until the claims expire.
    if (!this.#hasReleasedClaims) await releaseClaims(db);
    this.#hasReleasedClaims = true;
    for (const slot of SLOTS) {
      this.#detach(slot);
      if (this.#slots.has(slot)) continue;
      const due = await claimDue(db, new Date(this.#nowMs()), { busy: this.#busy(), ...(slot === "cheap" && { belowMs: CHEAP_MS }) });
      if (!due) break;
      this.#begin(slot, due);
    }
    this.#outage.recovered();
    const isSoonDetached = [...this.#slots.values()].some((count) => this.#mayDetach(count));
    return isSoonDetached ? Math.min(DETACH_AFTER_MS, timing.pollMs) : timing.pollMs;
  }

  #runningCounts(): RunningCount[] {
    return [...this.#slots.values(), ...this.#detached];
  }

  /** Organisations that must not start another count now. */
  #busy(): string[] {
    for (const [orgId, untilMs] of this.#pausedUntil) if (untilMs <= performance.now()) this.#pausedUntil.delete(orgId);
    return [...this.#runningCounts().map(({ orgId }) => orgId), ...this.#pausedUntil.keys()];
  }

  #detach(slot: Slot): void {
    const count = this.#slots.get(slot);
    if (!count || !this.#mayDetach(count)) return;
    this.#slots.delete(slot);
    this.#detached.add(count);
  }

  /**
   * Whether a count may release its slot of the counter while it waits for a query slot. A count whose organisation's own queries use all
   * query slots cannot start, so up to MAX_WAITING_COUNTS of these may be detached. The others may start at any time and then load the
   * engine, so at most MAX_SLOW_COUNTS of them may.
   */
  #mayDetach({ orgId, startedAtMs }: RunningCount): boolean {
    if (startedAtMs !== undefined || this.#detached.size >= MAX_WAITING_COUNTS) return false;
    const { isFull } = this.#options;
    return isFull(orgId) || [...this.#detached].filter((waiting) => !isFull(waiting.orgId)).length < MAX_SLOW_COUNTS;
  }

  #begin(slot: Slot, due: DueCount): void {
    const count: RunningCount = { orgId: due.orgId, startedAtMs: undefined, done: Promise.resolve() };
    count.done = this.#count(due, count)
      // The claim expires, and the rule is counted again.
      .catch((error: unknown) => this.#outage.failed(error))
      .finally(() => {
        this.#detached.delete(count);
        if (this.#slots.get(slot) === count) this.#slots.delete(slot);
        this.#loop.wake();
      });
    this.#slots.set(slot, count);
  }

  async #count(due: DueCount, count: RunningCount): Promise<void> {
    const { db, intervalMs, counted } = this.#options;
    const [atMs, began] = [this.#nowMs(), performance.now()];
    const found = await this.#countAndReport(due, atMs, () => (count.startedAtMs = performance.now()));
    if (this.#stopping.signal.aborted && !found.reported) return await releaseCount(db, due);
    const endedMs = performance.now();
    const tookMs = Math.ceil(endedMs - began);
    // If it never got a query slot, it occupied one of the counter's slots all the time.
    const busyMs = Math.ceil(endedMs - (count.startedAtMs ?? began));
    const nowMs = this.#nowMs();
    // Set here as well, because the row may have been deleted, and a rule that was written meanwhile is due at once.
    this.#pausedUntil.set(due.orgId, performance.now() + pauseMs(busyMs));
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
    onStarted: () => void,
  ): Promise<Pick<CountResult, "reported" | "error">> {
    try {
      const found = await countLogs(this.#options.logs, orgId, logs, {
        atMs,
        signal: this.#stopping.signal,
        known: before,
        onStarted,
      });
      const { groups, isCut } = updateGroups(logs, { found, before, atMs });
      const reported = await this.#admitGroups(orgId, groups, (part) => countSamples(ruleId, logs, part));
      await this.#write(orgId, countSamples(ruleId, logs, reported), atMs);
      const windowProblem = findWindowProblem(logs, this.#options.intervalMs);
      return {
        reported,
        error: reported.length < groups.length ? NO_SERIES : isCut ? TOO_MANY : windowProblem ? `logs.window: ${windowProblem}` : null,
      };
    } catch (error) {
      // The last counts stay valid until there are new ones: alerts neither fire nor resolve while records cannot be read.
      if (error instanceof ApiError && error.code === "storage_unavailable")
        await this.#write(orgId, countSamples(ruleId, logs, before), atMs).catch(() => undefined);
      return { reported: undefined, error: this.#errorText(error, { org_id: orgId, rule_id: ruleId }) };
    }
  }

  /** The groups whose series exist or fit into the limit. */
  async #admitGroups(orgId: string, groups: readonly LogGroup[], samplesOf: (groups: readonly LogGroup[]) => string): Promise<LogGroup[]> {
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

  #errorText(error: unknown, context: { readonly org_id: string; readonly rule_id: string }): string {
    const known = toFilterError(error);
    if (known instanceof ApiError && known.status < 500) return known.message;
    // /readyz reports an unavailable engine.
    if (known instanceof ApiError) return "its records cannot be counted: the log store or the metrics store is unreachable";
    if (!this.#stopping.signal.aborted)
      this.#options.log.error({ event: "log_rules.rule_failed", err: error, ...context }, "cannot count the log records of a rule");
    return "its records cannot be counted because of an internal error";
  }
}

/** False if it is that error. Throws any other failure. */
function isOverLimit(error: unknown): false {
  if (error instanceof ApiError && error.code === "over_quota") return false;
  throw error;
}
