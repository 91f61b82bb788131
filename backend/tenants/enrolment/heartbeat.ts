// The body of both heartbeats. It is informational, so its content cannot make an agent appear offline. Invariant: unknown fields are ignored,
// long texts are truncated, and intervals are clamped; only wrong types are refused.
import type { Heartbeat } from "../../../common/protocol/enrolment.ts";
import { MAX_HEARTBEAT_INTERVAL_S, MAX_HEARTBEAT_TEXT_LENGTH } from "../limits.ts";
import type { CollectorReport } from "./table.ts";

const DEFAULT_INTERVAL_S = 30;
/** An agent is online while its last heartbeat is younger than this many intervals. */
const ONLINE_INTERVALS = 3;

const text = { type: "string" } as const;
export const HEARTBEAT_SCHEMA = {
  type: "object",
  properties: {
    node: text,
    agent_version: text,
    interval_s: { type: "number" },
    collector: { type: "object", properties: { state: text, restarts: { type: "number" }, last_error: text } },
    installation: text,
    config: { type: "object", properties: { version: text, error: text } },
  },
} as const;

/** The collector state in lists. */
export const COLLECTOR_SCHEMA = {
  type: ["object", "null"],
  properties: { state: text, restarts: { type: "number" }, last_error: text },
} as const;

export function intervalOf(heartbeat: Heartbeat): number {
  return Math.round(Math.min(MAX_HEARTBEAT_INTERVAL_S, Math.max(1, heartbeat.interval_s ?? DEFAULT_INTERVAL_S)));
}

export function collectorOf({ collector }: Heartbeat): CollectorReport | null {
  if (!collector) return null;
  const { state, restarts, last_error } = collector;
  return { state: clipped(state, 50), restarts, last_error: clipped(last_error, MAX_HEARTBEAT_TEXT_LENGTH) };
}

/** Truncates a text and removes NUL, which the database refuses. */
export function clipped(value: string | undefined, maxLength: number): string | undefined {
  return value?.replaceAll("\0", "").slice(0, maxLength).toWellFormed();
}

export function isOnline(lastHeartbeat: Date | null, intervalS: number, now: number): boolean {
  return lastHeartbeat !== null && now - lastHeartbeat.getTime() < offlineAfterMs(intervalS);
}

export function offlineAfterMs(intervalS: number): number {
  return ONLINE_INTERVALS * intervalS * 1000;
}
