// Starts notification: intake of alerts, routing, delivery and retention. Invariants: every part may run in several replicas; an
// organisation without a channel costs nothing.
import { Loop } from "../../common/loop.ts";
import { Outage } from "../../common/outage.ts";
import type { Log } from "../log.ts";
import { createAlertsHandler } from "./intake/intake-listener.ts";
import { ChannelsInUse } from "./model/channels-in-use.ts";
import { releaseClaims } from "./delivery/delivery-store.ts";
import { Dispatcher } from "./routing/dispatcher.ts";
import { type Evaluator, CompletedEvaluations } from "./intake/evaluations.ts";
import { EvaluatorWatch } from "./intake/evaluator-watch.ts";
import { type HeartbeatOptions, createHeartbeats } from "./delivery/heartbeats.ts";
import { type DropReason, Intake } from "./intake/intake.ts";
import type { OpenChannel, Send } from "./model/message.ts";
import { type AttemptResult, Outbox, type OutboxTiming } from "./delivery/outbox.ts";
import { deleteExpired } from "./delivery/retention.ts";
import type { ChannelRow } from "./channels/channel-store.ts";
import type { NotificationDb } from "./model/notification-tables.ts";

export interface NotificationOptions {
  readonly db: NotificationDb;
  /** No other process uses this database, so claims of the last run can be released. */
  readonly isAlone: boolean;
  readonly send: Send;
  readonly open: (row: ChannelRow) => OpenChannel;
  readonly evaluator: Evaluator;
  readonly intervalMs: number;
  readonly externalUrl?: string;
  readonly counts: NotificationCounts;
  readonly log: Log;
  readonly nowMs?: () => number;
  /** Wall clock that reveals a suspension of this machine. */
  readonly wallMs?: () => number;
  readonly timing?: Partial<OutboxTiming> & { readonly pollMs?: number; readonly housekeepingMs?: number; readonly watchMs?: number };
}

export interface NotificationCounts {
  attempted(result: AttemptResult): void;
  dropped(reason: DropReason, alerts: number): void;
  refusedGroups(groups: number): void;
}

export type Notification = Awaited<ReturnType<typeof startNotification>>;

const HOUSEKEEPING_MS = 10_000;
const FORGET_EVERY_MS = 3600_000;
/** Longer than any pass over an organisation, and than the database may be unavailable without a report. */
const STUCK_MS = 60_000;
const REMIND_MS = 300_000;

/** Resolves once it has started. Rejects if the database is unavailable. */
export async function startNotification(options: NotificationOptions) {
  const { db, log, evaluator, counts, timing, externalUrl = "", nowMs = Date.now } = options;
  await using started = new AsyncDisposableStack();
  if (options.isAlone) await releaseClaims(db, new Date(nowMs()));
  const inUse = new ChannelsInUse(db, nowMs);
  const common = { db, inUse, log, nowMs, send: options.send, open: options.open };
  const watch = started.use(createWatch(options, nowMs));
  const outbox: Outbox = started.use(
    new Outbox({ ...common, onAttempt: (result) => counts.attempted(result), onMoreDue: () => dispatcher.wake(), timing }),
  );
  const planned = (messages: number, refused: number): void => {
    if (refused > 0) counts.refusedGroups(refused);
    if (messages > 0) outbox.wake();
  };
  const completed = new CompletedEvaluations(evaluator, nowMs);
  const dispatcher: Dispatcher = started.use(
    new Dispatcher({
      ...common,
      completedUntil: async (orgId, ruleIds) => (watch.isSettled ? await completed.read(orgId, ruleIds) : undefined),
      intervalMs: options.intervalMs,
      externalUrl,
      planned,
      pollMs: timing?.pollMs,
    }),
  );
  const heartbeats = { db, isEvaluated: async (orgId: string) => watch.isUp && (await evaluator.isEvaluated(orgId)), externalUrl, nowMs };
  started.use(every(timing?.housekeepingMs ?? HOUSEKEEPING_MS, () => sendHeartbeats(inUse, heartbeats, outbox), log));
  started.use(every(FORGET_EVERY_MS, () => deleteExpired(db, nowMs()), log));
  const intake = new Intake({
    ...common,
    mayEnd: () => !watch.isJustAwake,
    dropped: (reason, alerts) => counts.dropped(reason, alerts),
    onChanged: () => dispatcher.wake(),
  });
  const parts = started.move();
  const isWorking = (): boolean => inUse.isEmpty || nowMs() - Math.min(dispatcher.workedAtMs, outbox.workedAtMs) < STUCK_MS;
  return {
    /** Handles a request of the evaluator; the caller has verified its password. */
    takeAlerts: createAlertsHandler({ intake, missed: () => watch.missed(), ...createIntakeReports(log) }),
    /** Call after a change that the dispatcher should process now. */
    wake: () => {
      inUse.forget();
      dispatcher.wake();
    },
    /** The parts that do not work properly. */
    get failing() {
      return [...(watch.isDown ? ["evaluator" as const] : []), ...(isWorking() ? [] : ["notification" as const])];
    },
    get isWorking() {
      return isWorking();
    },
    get isEvaluatorUp() {
      return watch.isUp;
    },
    get attemptsInFlight() {
      return outbox.attemptsInFlight;
    },
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}

function createWatch({ evaluator, intervalMs, wallMs, timing, log }: NotificationOptions, nowMs: () => number): EvaluatorWatch {
  return new EvaluatorWatch({ check: () => evaluator.check(), nowMs, wallMs, everyMs: timing?.watchMs, intervalMs, log });
}

async function sendHeartbeats(inUse: ChannelsInUse, heartbeats: HeartbeatOptions, outbox: Outbox): Promise<void> {
  if ((await inUse.orgs()).size === 0) return;
  if ((await createHeartbeats(heartbeats)) > 0) outbox.wake();
}

function every(everyMs: number, work: () => Promise<unknown>, log: Log): Loop {
  const outage = new Outage({
    began: (err) => log.warn({ event: "notification.cleanup_failed", err }, "cannot create heartbeats or delete old deliveries, retrying"),
    ended: ({ failures, seconds }) =>
      log.info(
        { event: "notification.cleanup_recovered", failures, seconds },
        "recovered: creating heartbeats and deleting old deliveries again",
      ),
    remindEveryMs: REMIND_MS,
  });
  return new Loop({
    step: async () => {
      await work();
      outage.recovered();
      return everyMs;
    },
    failed: (error) => outage.failed(error),
  });
}

/** Logs once per outage: the evaluator repeats every request that was not answered with 200. */
function createIntakeReports(log: Log): { failed: (error: unknown) => void; succeeded: () => void } {
  const outage = new Outage({
    began: (err) => log.error({ event: "notification.intake_failed", err }, "cannot store alerts from vmalert, which sends them again"),
    reminded: (err, { failures, seconds }) =>
      log.error({ event: "notification.intake_still_failing", err, failures, seconds }, "still cannot store alerts from vmalert"),
    ended: ({ failures, seconds }) =>
      log.info({ event: "notification.intake_recovered", failures, seconds }, "recovered: alerts from vmalert are stored"),
    remindEveryMs: REMIND_MS,
  });
  return { failed: (error) => outage.failed(error), succeeded: () => outage.recovered() };
}
