// Runs a pass for each organisation whose alerts are due, one at a time. Invariants: the organisation that has waited longest is next; a
// pass over many alerts is followed by a pause many times as long, so that no organisation uses more than its share; a failed pass is
// repeated.
import { Loop } from "../../../common/loop.ts";
import { Outage } from "../../../common/outage.ts";
import { hasCome } from "../../engines/relational/due.ts";
import type { Log } from "../../log.ts";
import { MAX_PASS_CANDIDATES } from "../notification-limits.ts";
import type { ChannelsInUse } from "../model/channels-in-use.ts";
import { MAX_DUE_MS, PASS_LOCK_MS, runPass, type PassOptions } from "./organisation-pass.ts";

export interface DispatcherOptions extends PassOptions {
  readonly inUse: Pick<ChannelsInUse, "orgs">;
  readonly log: Log;
  readonly planned: (messages: number, refused: number) => void;
  readonly pollMs?: number | undefined;
}

const POLL_MS = 1000;
/** Interval while no organisation has a channel. */
const IDLE_MS = 5000;
const REMIND_MS = 300_000;

export class Dispatcher implements AsyncDisposable {
  readonly #options: DispatcherOptions;
  readonly #loop: Loop;
  readonly #outage: Outage;
  /** Organisation → end of its pause, by the clock of `performance`. */
  readonly #pausedUntil = new Map<string, number>();
  #workedAtMs: number;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#workedAtMs = options.nowMs();
    this.#outage = new Outage({
      began: (err) => options.log.error({ event: "notification.dispatch_failed", err }, "cannot process alerts, retrying"),
      reminded: (err, { failures, seconds }) =>
        options.log.error(
          { event: "notification.dispatch_still_failing", err, failures, seconds },
          "still cannot process alerts, retrying",
        ),
      ended: ({ failures, seconds }) =>
        options.log.info({ event: "notification.dispatch_recovered", failures, seconds }, "recovered: alerts are processed again"),
      remindEveryMs: REMIND_MS,
    });
    this.#loop = new Loop({ step: (signal) => this.#step(signal), failed: (error) => this.#outage.failed(error), backoffMs: [500, 5000] });
  }

  /** Time of the last pass over everything that was due. */
  get workedAtMs(): number {
    return this.#workedAtMs;
  }

  wake(): void {
    this.#loop.wake();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }

  async #step(signal: AbortSignal): Promise<number | undefined> {
    const { nowMs, inUse, pollMs = POLL_MS } = this.#options;
    const failures: unknown[] = [];
    let sleepMs = pollMs;
    for (const orgId of await this.#findDue()) {
      if (signal.aborted) return undefined;
      const pauseMs = (this.#pausedUntil.get(orgId) ?? 0) - performance.now();
      if (pauseMs > 0) sleepMs = Math.min(sleepMs, pauseMs);
      else await this.#runPass(orgId).catch((error: unknown) => failures.push(error));
    }
    for (const [orgId, untilMs] of this.#pausedUntil) if (untilMs <= performance.now()) this.#pausedUntil.delete(orgId);
    if (failures.length > 0) throw failures[0];
    this.#workedAtMs = nowMs();
    this.#outage.recovered();
    return (await inUse.orgs()).size === 0 ? Math.max(sleepMs, IDLE_MS) : sleepMs;
  }

  async #runPass(orgId: string): Promise<void> {
    const gapMs = await runPass(this.#options, orgId);
    if (gapMs !== undefined) this.#pausedUntil.set(orgId, performance.now() + gapMs);
  }

  async #findDue(): Promise<string[]> {
    const { db, nowMs } = this.#options;
    const now = new Date(nowMs());
    const rows = await db
      .selectFrom("notification_turns")
      .select("org_id")
      .where(hasCome("due_at", now, MAX_DUE_MS))
      .where((eb) => eb.or([eb("locked_until", "is", null), hasCome("locked_until", now, PASS_LOCK_MS)]))
      .orderBy("due_at")
      .limit(MAX_PASS_CANDIDATES)
      .execute();
    return rows.map(({ org_id }) => org_id);
  }
}
