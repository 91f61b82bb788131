// How the evaluator sees what was counted of log records: series of the organisation, and an ordinary expression over them. Invariants: no
// key of an organisation can write these series, because the server sets `host_id` and no key's is COUNTED_BY; a count of an earlier
// condition of the same rule is never taken for one of the present.
import { MAX_GROUPS_PER_RULE } from "./limits.ts";
import { alertLabel, fingerprintOf, type LogCondition, windowMs } from "./log-condition.ts";

export const COUNT_METRIC = "log_rule_records";
/** In the place of a host. */
export const COUNTED_BY = "log-rules";

/** A value of each field of `by`, and how many records have them. */
export interface LogGroup {
  readonly values: readonly string[];
  readonly count: number;
  /** Since when it is no longer there. */
  readonly goneAtMs?: number;
}

const LEAST_EVERY_MS = 15_000;
const MOST_EVERY_MS = 300_000;
/** A window is read so often while it passes. */
const READINGS = 20;
/** As long as Prometheus holds a sample. */
const HELD_MS = 300_000;

/** Between two counts. `leastMs`: where rules are evaluated more often than every 15 s. */
export function countEveryMs(logs: LogCondition, leastMs = LEAST_EVERY_MS): number {
  return Math.min(MOST_EVERY_MS, Math.max(Math.min(leastMs, LEAST_EVERY_MS), windowMs(logs) / READINGS));
}

/** How long a count is valid while there is no newer one. */
export function countHeldMs(logs: LogCondition): number {
  return HELD_MS + 3 * countEveryMs(logs);
}

/** What the evaluator evaluates of the rule. */
export function countedExpression(ruleId: string, logs: LogCondition): string {
  const series = `${COUNT_METRIC}{host_id="${COUNTED_BY}",rule="${ruleId}",condition="${fingerprintOf(logs)}"}`;
  const last = `(last_over_time(${series}[${Math.ceil(countHeldMs(logs) / 1000)}s]))`;
  const names = logs.by.map((_field, at) => seriesLabel(at));
  // By names that no alert's label has: labels are moved one after another, and a field may be called as a label of the series is.
  const renamed = names.flatMap((name) => [name, `__${name}`]);
  const back = logs.by.flatMap((field, at) => [`__${seriesLabel(at)}`, alertLabel(field)]);
  const moves = [...renamed, ...back].map((name) => `"${name}"`).join(", ");
  const value = names.length === 0 ? `sum${last}` : `label_move(sum by (${names.join(", ")}) ${last}, ${moves})`;
  return `${value} ${logs.operator} ${logs.threshold}`;
}

/**
 * The series to report after a count. A group of `before` that is no longer there has no records, and keeps its place until
 * the evaluator sees it no more: so values that come and go make few series. `isCut`: there was no place for all of `found`.
 */
export function groupsNow(
  logs: LogCondition,
  { found, before, atMs }: { readonly found: readonly LogGroup[]; readonly before: readonly LogGroup[]; readonly atMs: number },
): { readonly groups: readonly LogGroup[]; readonly isCut: boolean } {
  const keyOf = ({ values }: LogGroup): string => JSON.stringify(values);
  const present = new Set(found.map(keyOf));
  const gone = before
    .filter((group) => !present.has(keyOf(group)) && atMs - (group.goneAtMs ?? atMs) < countHeldMs(logs))
    .map(({ values, goneAtMs = atMs }) => ({ values, count: 0, goneAtMs }));
  const known = new Set(before.map(keyOf));
  const inOrder = [...found.filter((group) => known.has(keyOf(group))), ...found.filter((group) => !known.has(keyOf(group)))];
  const places = Math.max(0, MAX_GROUPS_PER_RULE - gone.length);
  return { groups: [...inOrder.slice(0, places), ...gone], isCut: inOrder.length > places };
}

/** One sample for each, as exposition text. */
export function countSamples(ruleId: string, logs: LogCondition, groups: readonly LogGroup[]): string {
  const condition = fingerprintOf(logs);
  return groups
    .map(({ values, count }) => {
      const labels = values.map((value, at) => `,${seriesLabel(at)}="${escaped(value)}"`).join("");
      return `${COUNT_METRIC}{rule="${ruleId}",condition="${condition}"${labels}} ${count}\n`;
    })
    .join("");
}

/** Not the field's own name, which may be one that the server sets. */
function seriesLabel(at: number): string {
  return `by_${at + 1}`;
}

function escaped(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
