// What a channel is to be told of one group of alerts, and when. Invariant: pure; an alert is told once when it begins to fire, again
// when a silence over it has ended or `repeat` has passed, and once when it is over; what a silence covers is not told, but its end is,
// where its beginning was.
import type { Alert } from "../model/message.ts";
import type { ToldAlerts } from "../model/table.ts";

export interface GroupTimes {
  readonly waitMs: number;
  readonly intervalMs: number;
  readonly repeatMs: number;
}

export interface GroupState {
  readonly firing: ToldAlerts;
  readonly lastSentAt: Date | null;
  readonly nextAt: Date;
}

type GroupAlert = Pick<Alert, "fingerprint" | "status" | "silenced" | "startsAt">;

export interface GroupTurn<A extends GroupAlert> {
  /** Undefined: there is nothing to remember. */
  readonly state: GroupState | undefined;
  /** Now; `told` is the state once that is on its way. */
  readonly tell?: { readonly firing: readonly A[]; readonly resolved: readonly A[]; readonly told: GroupState };
}

/** `alerts`: those of the group, whatever their status. */
export function groupTurn<A extends GroupAlert>(
  before: GroupState | undefined,
  alerts: readonly A[],
  times: GroupTimes,
  now: Date,
): GroupTurn<A> {
  const told = before?.firing ?? {};
  const firing = alerts.filter((alert) => alert.status === "firing" && !alert.silenced);
  const fresh = firing.filter(({ fingerprint }) => told[fingerprint] !== "told");
  const resolved = alerts.filter(({ status, fingerprint }) => status === "resolved" && told[fingerprint] !== undefined);
  const silenced = alerts.filter(({ status, silenced, fingerprint }) => status === "firing" && silenced && told[fingerprint] !== undefined);
  const hasNews = fresh.length > 0 || resolved.length > 0;
  if (!before && !hasNews) return { state: undefined };
  const nextAt = nextOf(before, fresh, hasNews, times, now);
  const lastSentAt = before?.lastSentAt ?? null;
  const isRepeat = firing.length > 0 && lastSentAt !== null && now.getTime() - lastSentAt.getTime() >= times.repeatMs;
  const covered = Object.fromEntries(silenced.map(({ fingerprint }) => [fingerprint, "silenced" as const]));
  if (nextAt <= now && (hasNews || isRepeat)) {
    const next = { ...covered, ...Object.fromEntries(firing.map(({ fingerprint }) => [fingerprint, "told" as const])) };
    const untilMs = firing.length > 0 ? times.repeatMs : times.intervalMs;
    return {
      state: { firing: kept(told, alerts, covered), lastSentAt, nextAt },
      tell: { firing, resolved, told: { firing: next, lastSentAt: now, nextAt: after(now, untilMs) } },
    };
  }
  const remembered = kept(told, alerts, covered);
  if (Object.keys(remembered).length > 0 || fresh.length > 0) {
    const later = nextAt > now ? nextAt : repeatAfter(lastSentAt, times, now);
    return { state: { firing: remembered, lastSentAt, nextAt: later } };
  }
  // Until then, what fires again is the same story.
  if (lastSentAt && now < after(lastSentAt, times.intervalMs))
    return { state: { firing: {}, lastSentAt, nextAt: after(lastSentAt, times.intervalMs) } };
  return { state: undefined };
}

function nextOf(before: GroupState | undefined, fresh: readonly GroupAlert[], hasNews: boolean, times: GroupTimes, now: Date): Date {
  if (!before) {
    const firstMs = Math.min(...fresh.map(({ startsAt }) => startsAt.getTime()));
    return new Date(Math.min(Math.max(now.getTime(), firstMs + times.waitMs), now.getTime() + times.waitMs));
  }
  if (!hasNews || !before.lastSentAt) return before.nextAt;
  const dueMs = Math.max(before.lastSentAt.getTime() + times.intervalMs, now.getTime() + times.waitMs);
  return new Date(Math.min(before.nextAt.getTime(), dueMs));
}

/** What is still of the group: told, or covered by a silence since. */
function kept(told: ToldAlerts, alerts: readonly GroupAlert[], covered: ToldAlerts): ToldAlerts {
  const here = new Set(alerts.map(({ fingerprint }) => fingerprint));
  return { ...Object.fromEntries(Object.entries(told).filter(([fingerprint]) => here.has(fingerprint))), ...covered };
}

function repeatAfter(lastSentAt: Date | null, { repeatMs }: GroupTimes, now: Date): Date {
  const repeatAt = after(lastSentAt ?? now, repeatMs);
  return repeatAt > now ? repeatAt : after(now, repeatMs);
}

function after(date: Date, ms: number): Date {
  return new Date(date.getTime() + ms);
}
