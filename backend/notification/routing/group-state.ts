// Decides which alerts of a group are sent to a channel, and when. Invariants: pure; an alert is sent once when it starts to fire, again
// when a silence over it has ended or `repeat` has passed, and once when it is resolved; a silenced alert is not sent, but its end is sent
// if its beginning was.
import type { Alert } from "../model/message.ts";
import type { NotifiedAlerts } from "../model/notification-tables.ts";

export interface GroupTimes {
  readonly waitMs: number;
  readonly intervalMs: number;
  readonly repeatMs: number;
}

export interface GroupState {
  readonly firing: NotifiedAlerts;
  readonly lastSentAt: Date | null;
  readonly nextAt: Date;
}

type GroupAlert = Pick<Alert, "fingerprint" | "status" | "silenced" | "startsAt">;

export interface GroupPlan<A extends GroupAlert> {
  /** Undefined: the group needs no state. */
  readonly state: GroupState | undefined;
  /** The message to send now; `notified` is the state afterwards. */
  readonly send?: { readonly firing: readonly A[]; readonly resolved: readonly A[]; readonly notified: GroupState };
}

/** `alerts`: all alerts of the group, whatever their status. */
export function planGroup<A extends GroupAlert>(
  stored: GroupState | undefined,
  alerts: readonly A[],
  times: GroupTimes,
  now: Date,
): GroupPlan<A> {
  const before = stored && withoutFuture(stored, times, now);
  const notified = before?.firing ?? {};
  const firing = alerts.filter((alert) => alert.status === "firing" && !alert.silenced);
  const fresh = firing.filter(({ fingerprint }) => notified[fingerprint] !== "notified");
  const resolved = alerts.filter(({ status, fingerprint }) => status === "resolved" && notified[fingerprint] !== undefined);
  const silenced = alerts.filter(
    ({ status, silenced, fingerprint }) => status === "firing" && silenced && notified[fingerprint] !== undefined,
  );
  const hasChanges = fresh.length > 0 || resolved.length > 0;
  if (!before && !hasChanges) return { state: undefined };
  const nextAt = nextPassAt(before, fresh, hasChanges, times, now);
  const lastSentAt = before?.lastSentAt ?? null;
  const isRepeat = firing.length > 0 && lastSentAt !== null && now.getTime() - lastSentAt.getTime() >= times.repeatMs;
  const silencedStates = Object.fromEntries(silenced.map(({ fingerprint }) => [fingerprint, "silenced" as const]));
  if (nextAt <= now && (hasChanges || isRepeat)) {
    const next = { ...silencedStates, ...Object.fromEntries(firing.map(({ fingerprint }) => [fingerprint, "notified" as const])) };
    const untilMs = firing.length > 0 ? times.repeatMs : times.intervalMs;
    return {
      state: { firing: keepNotified(notified, alerts, silencedStates), lastSentAt, nextAt },
      send: { firing, resolved, notified: { firing: next, lastSentAt: now, nextAt: after(now, untilMs) } },
    };
  }
  const kept = keepNotified(notified, alerts, silencedStates);
  if (Object.keys(kept).length > 0 || fresh.length > 0) {
    const later = nextAt > now ? nextAt : repeatAfter(lastSentAt, times, now);
    return { state: { firing: kept, lastSentAt, nextAt: later } };
  }
  // Until then, alerts that fire again continue the group.
  if (lastSentAt && now < after(lastSentAt, times.intervalMs))
    return { state: { firing: {}, lastSentAt, nextAt: after(lastSentAt, times.intervalMs) } };
  return { state: undefined };
}

/** If the clock was set back, the last message was sent in the future: no time is further ahead than if it had been sent now. */
function withoutFuture({ firing, lastSentAt, nextAt }: GroupState, { waitMs, intervalMs, repeatMs }: GroupTimes, now: Date): GroupState {
  const longestMs = lastSentAt ? Math.max(waitMs, intervalMs, repeatMs) : waitMs;
  return { firing, lastSentAt: lastSentAt && earliest(lastSentAt, now), nextAt: earliest(nextAt, after(now, longestMs)) };
}

function nextPassAt(before: GroupState | undefined, fresh: readonly GroupAlert[], hasChanges: boolean, times: GroupTimes, now: Date): Date {
  if (!before) {
    const firstMs = Math.min(...fresh.map(({ startsAt }) => startsAt.getTime()));
    return new Date(Math.min(Math.max(now.getTime(), firstMs + times.waitMs), now.getTime() + times.waitMs));
  }
  if (!hasChanges || !before.lastSentAt) return before.nextAt;
  const dueMs = Math.max(before.lastSentAt.getTime() + times.intervalMs, now.getTime() + times.waitMs);
  return new Date(Math.min(before.nextAt.getTime(), dueMs));
}

/** Alerts of the group that were sent, and those silenced since. */
function keepNotified(notified: NotifiedAlerts, alerts: readonly GroupAlert[], silencedStates: NotifiedAlerts): NotifiedAlerts {
  const present = new Set(alerts.map(({ fingerprint }) => fingerprint));
  return { ...Object.fromEntries(Object.entries(notified).filter(([fingerprint]) => present.has(fingerprint))), ...silencedStates };
}

function repeatAfter(lastSentAt: Date | null, { repeatMs }: GroupTimes, now: Date): Date {
  const repeatAt = after(lastSentAt ?? now, repeatMs);
  return repeatAt > now ? repeatAt : after(now, repeatMs);
}

function earliest(a: Date, b: Date): Date {
  return a < b ? a : b;
}

function after(date: Date, ms: number): Date {
  return new Date(date.getTime() + ms);
}
