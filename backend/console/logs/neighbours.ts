// Finds the neighbours of a record: what its stream, or its whole host, wrote just before and just after it. Invariant: each record with
// the same timestamp is on one side only, in the order in which the backend pages through them. Identical records cannot be distinguished,
// so it does not matter which of them was chosen.
import type { Query } from "../state/api.ts";
import type { LogRow } from "./log-rows.ts";

export type Side = "before" | "after";
export type Scope = "stream" | "host";

export const SCOPES: readonly (readonly [Scope, string])[] = [
  ["stream", "same stream"],
  ["host", "same host"],
];

/** Labels that identify one stream of a sender, as the agent and OpenTelemetry's SDKs set them. */
const STREAM_LABELS = [
  "log.file.path",
  "log.file.name",
  "k8s.namespace.name",
  "k8s.pod.name",
  "k8s.container.name",
  "container.id",
  "service.namespace",
  "service.instance.id",
];

export function neighbourFilters({ host_id, node, source, labels }: LogRow, scope: Scope): Record<string, string> {
  if (scope === "host") return { host_id, node };
  const present = STREAM_LABELS.filter((name) => labels[name] !== undefined);
  return { host_id, node, source, ...Object.fromEntries(present.map((name) => [`label.${name}`, labels[name] ?? ""])) };
}

/** The time range to read on this side; it begins at the record. */
export function sideRange({ timestamp }: LogRow, side: Side, spanMs: number): Query {
  const farEnd = new Date(Date.parse(timestamp) + (side === "before" ? -spanMs : spanMs)).toISOString();
  return side === "before" ? { start: farEnd, end: timestamp } : { start: timestamp, end: farEnd, order: "oldest" };
}

/**
 * The rows beyond the record, out of rows that start at its time and lead away from it. undefined: the record is not among them yet, so the
 * next page is needed. A record that LogQL stages have changed is never among them; then rows with other times are returned.
 */
export function rowsBeyond(row: LogRow, rows: readonly LogRow[], side: Side): readonly LogRow[] | undefined {
  const isSame = (other: LogRow): boolean => other.timestamp === row.timestamp && hasSameContent(other, row);
  // If several records are equal, the last one on this side is the first one on the other side.
  const at = side === "before" ? rows.findIndex(isSame) : rows.findLastIndex(isSame);
  if (at !== -1) return rows.slice(at + 1);
  const next = rows.findIndex(({ timestamp }) => timestamp !== row.timestamp);
  return next === -1 ? undefined : rows.slice(next);
}

function hasSameContent(a: LogRow, b: LogRow): boolean {
  return a.message === b.message && JSON.stringify(a) === JSON.stringify(b);
}
