// Counts the log records of rules over logs, again and again, and tells the evaluator through series of the organisation (log-series.ts).
// Invariants: an organisation has one count under way at a time in each replica; one lane takes only what was cheap the last time, so that
// what is expensive holds up no other, and what waits for its organisation's own queries leaves its lane, however many such organisations
// there are; an organisation rests after a count, for what that took and not for the queries of others, whatever becomes of its rules
// meanwhile; what goes wrong with a rule stands in its status; an organisation's rules write a bounded number of series in each replica,
// however often they are changed; every replica with a log store may run one.
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
import { ofFilter, whyTooShort } from "./log-condition.ts";
import { countEveryMs, COUNTED_BY, countSamples, groupsNow, type LogGroup } from "./log-series.ts";
import type { Kysely } from "kysely";

export interface LogCounterOptions {
  readonly db: Kysely<LogCountTables>;
  /** No other process has this database. */
  readonly isAlone: boolean;
  readonly logs: CountedLogs;
  /** The organisation's own queries have all turns that it may have. */
  readonly isFull: (orgId: string) => boolean;
  readonly metrics: Pick<MetricsStore, "write">;
  /** Between two evaluations. */
  readonly intervalMs: number;
  readonly counted: (result: "counted" | "failed") => void;
  readonly log: Log;
  readonly nowMs?: () => number;
  /** For tests. */
  readonly series?: Pick<ActiveSeries, "admit">;
  readonly timing?: { readonly pollMs: number };
}

/** Between looks, for what other replicas made. */
const TIMING = { pollMs: 1000 };
/** Counts under way at once; `cheap` are those that took less than CHEAP_MS the last time, everything included. */
const LANES = ["any", "cheap"] as const;
const CHEAP_MS = 250;
/** Until one that has no turn leaves its lane. */
const ASIDE_MS = 100;
/** For what is under way when it ends. */
const GRACE_MS = 5000;
const REMIND_MS = 300_000;

const NO_SERIES = `more than ${MAX_LOG_RULE_SERIES} values of \`by\` and conditions of all rules within an hour: not all of them fire`;
const TOO_MANY = `more than ${MAX_GROUPS_PER_RULE} values of \`by\` matched within some minutes: not all of them fire`;

type Lane = (typeof LANES)[number];

interface UnderWay {
  readonly orgId: string;
  /** When it was its turn, by the clock of `performance`. */
  turnAtMs: number | undefined;
  done: Promise<void>;
}

export class LogCounter implements AsyncDisposable {
  readonly #options: LogCounterOptions;
  readonly #nowMs: () => number;
  readonly #loop: Loop;
  readonly #outage: Outage;
  readonly #series: Pick<ActiveSeries, "admit">;
  readonly #stopping = new AbortController();
  readonly #lanes = new Map<Lane, UnderWay>();
  readonly #aside = new Set<UnderWay>();
  /** Until when, by organisation. */
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
    // The metrics store may hang.
    const over = new AbortController();
    const all = Promise.all(this.#underWay().map(({ done }) => done)).finally(() => over.abort());
    await Promise.race([all, pause(GRACE_MS, over.signal)]);
  }

  async #step(): Promise<number> {
    const { db, timing = TIMING } = this.#options;
    if (!this.#isFreed) await freeCounts(db);
    this.#isFreed = true;
    for (const lane of LANES) {
      this.#setAside(lane);
      if (this.#lanes.has(lane)) continue;
      const due = await claimDue(db, new Date(this.#nowMs()), { busy: this.#busy(), ...(lane === "cheap" && { belowMs: CHEAP_MS }) });
      if (!due) break;
      this.#begin(lane, due);
    }
    this.#outage.recovered();
    const isSoonAside = [...this.#lanes.values()].some((one) => this.#mayGoAside(one));
    return isSoonAside ? Math.min(ASIDE_MS, timing.pollMs) : timing.pollMs;
  }

  #underWay(): UnderWay[] {
    return [...this.#lanes.values(), ...this.#aside];
  }

  /** Organisations that have their fill. */
  #busy(): string[] {
    for (const [orgId, untilMs] of this.#resting) if (untilMs <= this.#nowMs()) this.#resting.delete(orgId);
    return [...this.#underWay().map(({ orgId }) => orgId), ...this.#resting.keys()];
  }

  #setAside(lane: Lane): void {
    const one = this.#lanes.get(lane);
    if (!one || !this.#mayGoAside(one)) return;
    this.#lanes.delete(lane);
    this.#aside.add(one);
  }

  #mayGoAside({ orgId, turnAtMs }: UnderWay): boolean {
    if (turnAtMs !== undefined || this.#aside.size >= MAX_WAITING_COUNTS) return false;
    const { isFull } = this.#options;
    return isFull(orgId) || [...this.#aside].filter((one) => !isFull(one.orgId)).length < MAX_SLOW_COUNTS;
  }

  #begin(lane: Lane, due: DueCount): void {
    const one: UnderWay = { orgId: due.orgId, turnAtMs: undefined, done: Promise.resolve() };
    one.done = this.#count(due, one)
      // Safe: the claim ends by itself, and the rule is counted again.
      .catch((error: unknown) => this.#outage.failed(error))
      .finally(() => {
        this.#aside.delete(one);
        if (this.#lanes.get(lane) === one) this.#lanes.delete(lane);
        this.#loop.wake();
      });
    this.#lanes.set(lane, one);
  }

  async #count(due: DueCount, one: UnderWay): Promise<void> {
    const { db, intervalMs, counted } = this.#options;
    const [atMs, began] = [this.#nowMs(), performance.now()];
    const found = await this.#told(due, atMs, () => (one.turnAtMs = performance.now()));
    if (this.#stopping.signal.aborted && !found.told) return await releaseCount(db, due);
    const endedMs = performance.now();
    const tookMs = Math.ceil(endedMs - began);
    // One that had no turn kept a place all the time.
    const busyMs = Math.ceil(endedMs - (one.turnAtMs ?? began));
    const nowMs = this.#nowMs();
    // The row may be gone by now, and a rule that was written meanwhile is due at once.
    this.#resting.set(due.orgId, nowMs + restMs(busyMs));
    const result: CountResult = {
      ...found,
      now: new Date(nowMs),
      tookMs,
      busyMs,
      nextAt: new Date(atMs + countEveryMs(due.logs, intervalMs)),
    };
    await settleCount(db, due, result);
    counted(found.told ? "counted" : "failed");
  }

  /** Never throws. */
  async #told(
    { orgId, ruleId, logs, told: before }: DueCount,
    atMs: number,
    itsTurn: () => void,
  ): Promise<Pick<CountResult, "told" | "error">> {
    try {
      const found = await countLogs(this.#options.logs, orgId, logs, {
        atMs,
        signal: this.#stopping.signal,
        known: before,
        began: itsTurn,
      });
      const { groups, isCut } = groupsNow(logs, { found, before, atMs });
      const told = await this.#withRoom(orgId, groups, (some) => countSamples(ruleId, logs, some));
      await this.#write(orgId, countSamples(ruleId, logs, told), atMs);
      const tooShort = whyTooShort(logs, this.#options.intervalMs);
      return { told, error: told.length < groups.length ? NO_SERIES : isCut ? TOO_MANY : tooShort ? `logs.window: ${tooShort}` : null };
    } catch (error) {
      return { told: undefined, error: this.#words(error, { org_id: orgId, rule_id: ruleId }) };
    }
  }

  /** Those whose series are known, or may be. */
  async #withRoom(orgId: string, groups: readonly LogGroup[], samplesOf: (some: readonly LogGroup[]) => string): Promise<LogGroup[]> {
    const told: LogGroup[] = [];
    for (const group of groups) {
      const admitted = this.#series.admit({ orgId, hostId: COUNTED_BY }, Buffer.from(samplesOf([group])));
      if (await admitted.then(() => true, isOverLimit)) told.push(group);
    }
    return told;
  }

  async #write(orgId: string, samples: string, atMs: number): Promise<void> {
    if (samples === "") return;
    await this.#options.metrics.write({ orgId, hostId: COUNTED_BY, node: COUNTED_BY }, Buffer.from(samples), atMs);
  }

  #words(error: unknown, context: { readonly org_id: string; readonly rule_id: string }): string {
    const known = ofFilter(error);
    if (known instanceof ApiError && known.status < 500) return known.message;
    // An engine that is away is told of by /readyz.
    if (known instanceof ApiError) return "its records could not be counted: the log store or the metrics store could not be reached";
    if (!this.#stopping.signal.aborted)
      this.#options.log.error({ event: "log_rules.rule_failed", err: error, ...context }, "the records of a rule could not be counted");
    return "its records could not be counted for a reason on our side";
  }
}

/** False: it is. Throws any other failure. */
function isOverLimit(error: unknown): false {
  if (error instanceof ApiError && error.code === "over_quota") return false;
  throw error;
}
