// Sends pending messages. Invariants: a message is sent at least once, and by one replica at a time; a receiver that hangs or refuses
// delays only its own channel, never another organisation; the attempts of each organisation are limited, both concurrently and per minute.
import { backoffOf, Loop, pause, type Backoff } from "../../../common/loop.ts";
import { Outage } from "../../../common/outage.ts";
import type { Log } from "../../log.ts";
import { MAX_DELIVERY_CANDIDATES, MAX_ERROR_LENGTH, MAX_FAILING_CHANNELS } from "../notification-limits.ts";
import type { ChannelsInUse } from "../model/channels-in-use.ts";
import {
  claim,
  CLAIM_MS,
  settleDelivered,
  settleFailed,
  settleRetry,
  findWaitingChannels,
  type ClaimedDelivery,
} from "./delivery-store.ts";
import { type ChannelRow, findChannel } from "../channels/channel-store.ts";
import type { OpenChannel, Outcome, Send } from "../model/message.ts";
import type { NotificationDb } from "../model/notification-tables.ts";

export interface OutboxOptions {
  readonly db: NotificationDb;
  readonly inUse: Pick<ChannelsInUse, "orgs">;
  readonly send: Send;
  /** Decrypts a channel's secrets. Throws if they cannot be decrypted. */
  readonly open: (row: ChannelRow) => OpenChannel;
  readonly log: Log;
  readonly onAttempt: (result: AttemptResult, seconds: number) => void;
  /** Called when further messages for an organisation may be due. */
  readonly onMoreDue: () => void;
  readonly nowMs: () => number;
  readonly timing?: Partial<OutboxTiming> | undefined;
}

export type AttemptResult = "delivered" | "retried" | "failed";

export interface OutboxTiming {
  /** Interval of polling for messages that other replicas created. */
  readonly pollMs: number;
  readonly attemptMs: number;
  readonly backoffMs: Backoff;
  readonly giveUpMs: number;
  /** Time for attempts in progress when it is disposed. */
  readonly graceMs: number;
}

const TIMING: OutboxTiming = { pollMs: 1000, attemptMs: 10_000, backoffMs: [5000, 300_000], giveUpMs: 3600_000, graceMs: 5000 };
/** Concurrent attempts. */
const MAX_ATTEMPTS = { total: 256, perOrg: 4, perChannel: 2 };
/** Poll interval while no organisation has a channel. */
const IDLE_MS = 5000;
const REMIND_MS = 300_000;

export class Outbox implements AsyncDisposable {
  readonly #options: OutboxOptions;
  readonly #timing: OutboxTiming;
  readonly #loop: Loop;
  readonly #outage: Outage;
  readonly #aborting = new AbortController();
  readonly #inFlight = new Map<Promise<void>, Pick<ClaimedDelivery, "orgId" | "channelId">>();
  /** Channel → consecutive failures. */
  readonly #failing = new Map<string, number>();
  #workedAtMs: number;

  constructor(options: OutboxOptions) {
    this.#options = options;
    this.#timing = { ...TIMING, ...options.timing };
    this.#workedAtMs = options.nowMs();
    this.#outage = new Outage({
      began: (err) =>
        options.log.error({ event: "notification.outbox_failed", err }, "cannot read notifications or store their results, retrying"),
      ended: ({ failures, seconds }) =>
        options.log.info({ event: "notification.outbox_recovered", failures, seconds }, "recovered: notifications are sent again"),
      remindEveryMs: REMIND_MS,
    });
    this.#loop = new Loop({ step: () => this.#step(), failed: (error) => this.#outage.failed(error), backoffMs: [500, 5000] });
  }

  /** Time of the last successful poll. */
  get workedAtMs(): number {
    return this.#workedAtMs;
  }

  get attemptsInFlight(): number {
    return this.#inFlight.size;
  }

  wake(): void {
    this.#loop.wake();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
    const all = Promise.allSettled(this.#inFlight.keys());
    const pauseStop = new AbortController();
    await Promise.race([all.then(() => pauseStop.abort()), pause(this.#timing.graceMs, pauseStop.signal)]);
    this.#aborting.abort();
    await all;
  }

  async #step(): Promise<number | undefined> {
    const { db, inUse, nowMs } = this.#options;
    const orgs = await inUse.orgs();
    const now = new Date(nowMs());
    // Includes deleted channels, so that their messages end.
    const waiting =
      orgs.size > 0 || this.#inFlight.size > 0 ? await findWaitingChannels(db, now, MAX_DELIVERY_CANDIDATES, this.#busyOrgs()) : [];
    this.#workedAtMs = nowMs();
    this.#outage.recovered();
    let [hasBegun, nextDueMs] = [false, Number.POSITIVE_INFINITY];
    for (const { orgId, channelId, nextAt } of waiting) {
      if (nextAt > now) nextDueMs = Math.min(nextDueMs, nextAt.getTime() - now.getTime());
      else if (this.#mayBegin(orgId, channelId)) hasBegun = (await this.#begin(orgId, channelId, now)) || hasBegun;
    }
    if (orgs.size === 0 && this.#inFlight.size === 0) return IDLE_MS;
    return hasBegun ? 0 : Math.min(this.#timing.pollMs, nextDueMs);
  }

  #mayBegin(orgId: string, channelId: string): boolean {
    if (this.#inFlight.size >= MAX_ATTEMPTS.total) return false;
    const orgAttempts = [...this.#inFlight.values()].filter((attempt) => attempt.orgId === orgId);
    const channelAttempts = orgAttempts.filter((attempt) => attempt.channelId === channelId);
    return (
      orgAttempts.length < MAX_ATTEMPTS.perOrg && channelAttempts.length < (this.#failing.has(channelId) ? 1 : MAX_ATTEMPTS.perChannel)
    );
  }

  /** Organisations at their limit; otherwise, the poll would only return messages of their hanging channels. */
  #busyOrgs(): string[] {
    const byOrg = Map.groupBy(this.#inFlight.values(), ({ orgId }) => orgId);
    return [...byOrg].filter(([, attempts]) => attempts.length >= MAX_ATTEMPTS.perOrg).map(([orgId]) => orgId);
  }

  async #begin(orgId: string, channelId: string, now: Date): Promise<boolean> {
    const claimed = await claim(this.#options.db, { orgId, channelId }, now);
    if (!claimed) return false;
    const attempt = this.#attempt(claimed).finally(() => {
      this.#inFlight.delete(attempt);
      this.#loop.wake();
    });
    this.#inFlight.set(attempt, { orgId, channelId });
    return true;
  }

  async #attempt(claimed: ClaimedDelivery): Promise<void> {
    const { onAttempt, nowMs, onMoreDue } = this.#options;
    const began = performance.now();
    const outcome = await this.#send(claimed);
    const seconds = (performance.now() - began) / 1000;
    const result = this.#classify(claimed, outcome);
    await this.#storeResult(claimed, outcome, result);
    onAttempt(result, seconds);
    if (result !== "retried") onMoreDue();
    if (outcome.delivered) this.#failing.delete(claimed.channelId);
    else if (outcome.retry) this.#countFailure(claimed.channelId);
    this.#workedAtMs = nowMs();
  }

  #countFailure(channelId: string): void {
    if (this.#failing.size >= MAX_FAILING_CHANNELS) this.#failing.clear();
    this.#failing.set(channelId, (this.#failing.get(channelId) ?? 0) + 1);
  }

  /** Never throws. */
  async #send(claimed: ClaimedDelivery): Promise<Outcome> {
    const { db, open, send, log } = this.#options;
    const { attemptMs } = this.#timing;
    try {
      const row = await findChannel(db, claimed.orgId, claimed.channelId);
      if (!row?.enabled) return { delivered: false, retry: false, error: `the channel was ${row ? "disabled" : "removed"}` };
      const signal = AbortSignal.any([this.#aborting.signal, AbortSignal.timeout(attemptMs)]);
      return await settleOrTimeOut(send(open(row), claimed.message, signal), signal);
    } catch (error) {
      // An internal error, not the receiver's: its message is for operators.
      log.error(
        { event: "notification.send_error", err: error, org_id: claimed.orgId, channel_id: claimed.channelId, delivery_id: claimed.id },
        "cannot send a notification because of an internal error, retrying",
      );
      return { delivered: false, retry: true, error: "the message could not be sent because of an internal error" };
    }
  }

  #classify(claimed: ClaimedDelivery, outcome: Outcome): AttemptResult {
    if (outcome.delivered) return "delivered";
    const isLate = this.#options.nowMs() - claimed.createdAt.getTime() >= this.#timing.giveUpMs;
    return outcome.retry && !isLate ? "retried" : "failed";
  }

  /** Retries until the result is written or the claim has expired; then, the message is sent again with the same id. */
  async #storeResult(claimed: ClaimedDelivery, outcome: Outcome, result: AttemptResult): Promise<void> {
    for (let failures = 1; ; failures += 1) {
      try {
        await this.#settle(claimed, outcome, result);
        return;
      } catch (error) {
        this.#outage.failed(error);
        if (this.#aborting.signal.aborted || this.#options.nowMs() >= claimed.lockedUntil.getTime() || failures > CLAIM_MS / 1000) return;
        await pause(1000, this.#aborting.signal);
      }
    }
  }

  async #settle(claimed: ClaimedDelivery, outcome: Outcome, result: AttemptResult): Promise<void> {
    const { db, nowMs } = this.#options;
    const now = new Date(nowMs());
    if (outcome.delivered) return await settleDelivered(db, claimed, outcome.httpStatus, now);
    const failure = { httpStatus: outcome.httpStatus, error: outcome.error.slice(0, MAX_ERROR_LENGTH) };
    // After an hour of failed attempts, alerts that still fire are sent again; after a permanent refusal, once their repeat interval has
    // passed.
    if (result === "failed") return await settleFailed(db, claimed, failure, { now, resendsFiring: outcome.retry });
    const { backoffMs } = this.#timing;
    if (this.#aborting.signal.aborted) return await settleRetry(db, claimed, failure, { messageAt: now, channelAt: now });
    const requestedMs = Math.min(outcome.retryAfterMs ?? 0, backoffMs[1]);
    const channelMs = Math.max(backoffOf((this.#failing.get(claimed.channelId) ?? 0) + 1, backoffMs), requestedMs);
    const messageMs = Math.max(backoffOf(claimed.attempts, backoffMs), channelMs);
    const at = { messageAt: new Date(now.getTime() + messageMs), channelAt: new Date(now.getTime() + channelMs) };
    await settleRetry(db, claimed, failure, at);
  }
}

/** `sent` should end when `signal` aborts; if it does not, it is no longer awaited. */
async function settleOrTimeOut(sent: Promise<Outcome>, signal: AbortSignal): Promise<Outcome> {
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  const timeOut = (): void => resolve({ delivered: false, retry: true, error: "no response in time" });
  signal.addEventListener("abort", () => setTimeout(timeOut, 1000).unref(), { once: true });
  return await Promise.race([sent, promise]);
}
