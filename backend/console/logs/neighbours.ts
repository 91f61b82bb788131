// Finds the neighbours of a record: what its stream, or its whole host, wrote just before and just after it. Invariant: each record with
// the same timestamp is on one side only, in the order in which the backend pages through them. Identical records cannot be distinguished,
// so it does not matter which of them was chosen.
import type { LogRow } from "./rows.ts";

export type Side = "before" | "after";
export type Scope = "stream" | "host";

export const SCOPES: readonly (readonly [Scope, string])[] = [
  ["stream", "of its stream"],
  ["host", "of its host"],
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

/** Filters of GET /query/logs. */
export function filtersOf(row: LogRow, scope: Scope): [string, string][] {
  const host: [string, string][] = [
    ["host_id", row.host_id],
    ["node", row.node],
  ];
  if (scope === "host") return host;
  const labels = STREAM_LABELS.flatMap((name): [string, string][] => {
    const value = row.labels[name];
    return value === undefined ? [] : [[`label.${name}`, value]];
  });
  return [...host, ["source", row.source], ...labels];
}

/** The time range to read on this side; it begins at the record. */
export function stretchOf(row: LogRow, side: Side, spanMs: number): [string, string][] {
  const farMs = Date.parse(row.timestamp) + (side === "before" ? -spanMs : spanMs);
  const far = new Date(farMs).toISOString();
  return side === "before"
    ? [
        ["start", far],
        ["end", row.timestamp],
      ]
    : [
        ["start", row.timestamp],
        ["end", far],
        ["order", "oldest"],
      ];
}

/**
 * The rows beyond the record, out of rows that start at its time and lead away from it. undefined: the record is not among them yet, so the
 * next page is needed. A record that LogQL stages have changed is never among them; then rows with other times are returned.
 */
export function behind(row: LogRow, rows: readonly LogRow[], side: Side): readonly LogRow[] | undefined {
  const isIt = (other: LogRow): boolean => other.timestamp === row.timestamp && isAlike(other, row);
  // If several records are equal, the last one on this side is the first one on the other side.
  const at = side === "before" ? rows.findIndex(isIt) : rows.findLastIndex(isIt);
  if (at !== -1) return rows.slice(at + 1);
  const next = rows.findIndex(({ timestamp }) => timestamp !== row.timestamp);
  return next === -1 ? undefined : rows.slice(next);
}

function isAlike(a: LogRow, b: LogRow): boolean {
  return a.message === b.message && JSON.stringify(a) === JSON.stringify(b);
}
