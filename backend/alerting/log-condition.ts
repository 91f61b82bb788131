// Conditions of rules over log records: their validation, their form as an expression, and the series through which the evaluator sees the
// counts. Invariants: no key of an organisation can write these series, because the server sets `host_id` and no key has COUNTED_BY; the
// count of an earlier condition of a rule is never used for the present one.
import { hash } from "node:crypto";
import { RE2JS } from "re2js";
import { durationMs } from "../../common/duration.ts";
import { ApiError } from "../errors.ts";
import { invalidField } from "../http/schemas.ts";
import { FILTER_SCHEMA, filterOf, type FilterParameters } from "../query/native/log-filter-parameters.ts";
import { patternsOfLogQuery } from "../query/native/log-query/conditions.ts";
import { type Comparison, COMPARISONS, GROUP_FIELDS, isGroupField, labelIn } from "../storage/logs/group-counts.ts";
import { checkText, EXCEPT_LINES } from "./rule-text.ts";
import {
  MAX_FIELD_NAME_CHARACTERS,
  MAX_GROUP_FIELDS,
  MAX_GROUPS_PER_RULE,
  MAX_LOG_RULE_FILTERS,
  MAX_LOG_RULE_VALUES,
} from "./alerting-limits.ts";

export interface LogCondition {
  /** As in the query string of GET /query/logs. */
  readonly filter: Readonly<FilterParameters>;
  /** A duration, as the user wrote it. */
  readonly window: string;
  /** Fields by whose values records are counted separately, as GET /query/logs/fields names them. */
  readonly by: readonly string[];
  readonly operator: Comparison;
  readonly threshold: number;
  /** If a stored condition replaced another one: the revision of the rules that did so. Not visible to clients. */
  readonly since?: number | undefined;
}

const DAY_MS = 86_400_000;
/** Records are counted at most every 15 s, and arrive some seconds after their time. */
const MIN_WINDOW_MS = 30_000;
const WHY_NOT_SHORTER = "records are counted every 15s, so a shorter window would miss some";

export const LOG_CONDITION_SCHEMA = {
  type: "object",
  additionalProperties: false,
  required: ["window", "operator", "threshold"],
  description: "instead of `expr`: a condition on the number of log records. The rule fires if the comparison is true",
  properties: {
    filter: {
      ...FILTER_SCHEMA,
      maxProperties: MAX_LOG_RULE_FILTERS,
      default: {},
      description: "which records to count: filters as in GET /query/logs",
    },
    window: { type: "string", maxLength: 50, description: "counts records of this period before now, 30s to 1d, e.g. 5m" },
    by: {
      type: "array",
      maxItems: MAX_GROUP_FIELDS,
      uniqueItems: true,
      items: { type: "string", minLength: 1, maxLength: 200 },
      default: [],
      description:
        "fields whose values are counted separately, each as a separate alert: source, level, host_id, node or label.<key>; in the label " +
        "of the alert, characters of <key> that are not letters, digits or underscores become _",
    },
    operator: { type: "string", enum: COMPARISONS },
    threshold: { type: "integer", minimum: 0, maximum: 1_000_000_000_000 },
  },
};

/** Checks what a schema cannot express. Throws ApiError `invalid_field`, which names the field. */
export function checkLogs(logs: LogCondition): void {
  const ms = durationMs(logs.window);
  if (ms === undefined || ms < MIN_WINDOW_MS || ms > DAY_MS)
    throw invalidField("logs.window", `must be a duration from 30s to 1d, such as 5m: ${WHY_NOT_SHORTER}`);
  checkFilter(logs.filter);
  for (const field of logs.by) checkField(field);
  const names = logs.by.map(alertLabel);
  if (new Set(names).size < names.length) throw invalidField("logs.by", `both fields would become the label ${names[0]} of an alert`);
  if (names.length > 0 && isMet(logs, 0))
    throw invalidField("logs.by", "a value without records is not found, so it cannot fire: remove `by`, or require more than 0 records");
}

/** Why the window of a valid condition is too short for the evaluation interval; undefined if it is long enough. */
export function findWindowProblem(logs: LogCondition, intervalMs: number): string | undefined {
  const minMs = 2 * intervalMs;
  if (windowMs(logs) >= minMs) return undefined;
  const [minimum, interval] = [minMs, intervalMs].map((ms) => `${Math.ceil(ms / 1000)}s`);
  return `must be at least ${minimum}: rules are evaluated every ${interval}, so a shorter window would miss records`;
}

export function checkFilter(filter: LogCondition["filter"]): void {
  if (Object.values(filter).flat().length > MAX_LOG_RULE_VALUES)
    throw invalidField("logs.filter", `the filters must have at most ${MAX_LOG_RULE_VALUES} values in total`);
  for (const [name, value] of Object.entries(filter)) {
    const field = `logs.filter.${name.slice(0, 100)}`;
    checkText(field, name, EXCEPT_LINES);
    if (name.replace(/^(?:not_)?label\./, "").length > MAX_FIELD_NAME_CHARACTERS)
      throw invalidField(field, `the name of a label must have at most ${MAX_FIELD_NAME_CHARACTERS} characters`);
    for (const text of [value].flat()) checkText(field, text, EXCEPT_LINES);
  }
  try {
    filterOf(filter);
  } catch (error) {
    throw toFilterError(error);
  }
  for (const text of patternsOfLogQuery(filter.query)) checkPattern("query", text);
  for (const name of ["regex", "not_regex"] as const) for (const text of [filter[name] ?? []].flat()) checkPattern(name, text);
}

/** RE2JS accepts the same syntax as the engine's RE2, except \C. */
function checkPattern(name: string, pattern: string): void {
  try {
    RE2JS.compile(pattern.replaceAll("\\C", "."));
  } catch (error) {
    const why = (error as Error).message.replace(/^error parsing regexp: /, "").slice(0, 200);
    throw invalidField(`logs.filter.${name}`, `not a regular expression of RE2: ${why}`);
  }
}

/** Converts an error about a parameter of the filter into one about the rule's field. */
export function toFilterError(error: unknown): unknown {
  const isOurs = error instanceof ApiError && error.code === "invalid_parameter";
  return isOurs ? new ApiError("invalid_field", `logs.filter.${error.message}`, { cause: error }) : error;
}

function checkField(field: string): void {
  checkText("logs.by", field);
  if (!isGroupField(field))
    throw invalidField("logs.by", `must be one of ${GROUP_FIELDS.join(", ")} or label.<key>, not ${JSON.stringify(field.slice(0, 100))}`);
}

/** The label of an alert that has the field's value. */
export function alertLabel(field: string): string {
  const name = labelIn(field) ?? field;
  return name.replace(/[^a-zA-Z0-9_]/g, "_").replace(/^\d/, "_$&");
}

/** The condition in one line, for users and lists. No engine accepts it as an expression, because there is no function with this name. */
export function expressionOf({ filter, window, by, operator, threshold }: LogCondition): string {
  const pairs = Object.entries(filter).flatMap(([name, values]) => [values].flat().map((value) => `${name}=${JSON.stringify(value)}`));
  const groups = by.length === 0 ? "" : ` by (${by.join(", ")})`;
  return `${FUNCTION}({${pairs.join(", ")}}[${window}])${groups} ${operator} ${threshold}`;
}

const FUNCTION = "count_logs";

/** Whether a client sent the text of `expressionOf` as an expression over metrics. */
export function isLogExpression(expr: string): boolean {
  return expr.trimStart().startsWith(`${FUNCTION}(`);
}

/** Whether both count the same records, regardless of `since`. */
export function isSameCondition(a: LogCondition, b: LogCondition): boolean {
  return fingerprint({ ...a, since: undefined }) === fingerprint({ ...b, since: undefined });
}

/** Identifies a condition, so that the evaluator does not find counts of an earlier one of the same rule, even an equal one. */
export function fingerprint({ filter, window, by, operator, threshold, since }: LogCondition): string {
  const sorted = Object.entries(filter).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return hash("sha256", JSON.stringify([sorted, window, by, operator, threshold, ...(since === undefined ? [] : [since])]), "hex").slice(
    0,
    16,
  );
}

export function windowMs({ window }: LogCondition): number {
  const ms = durationMs(window);
  if (ms === undefined) throw new Error("the window of this condition was never validated");
  return ms;
}

const COMPARISONS_BY_OPERATOR: Readonly<Record<Comparison, (count: number, threshold: number) => boolean>> = {
  ">": (count, threshold) => count > threshold,
  ">=": (count, threshold) => count >= threshold,
  "<": (count, threshold) => count < threshold,
  "<=": (count, threshold) => count <= threshold,
  "==": (count, threshold) => count === threshold,
  "!=": (count, threshold) => count !== threshold,
};

export function isMet({ operator, threshold }: LogCondition, count: number): boolean {
  return COMPARISONS_BY_OPERATOR[operator](count, threshold);
}

const COUNT_METRIC = "log_rule_records";
/** Replaces the host id in these series. */
export const COUNTED_BY = "log-rules";

/** A value for each field of `by`, and the number of records that have them. */
export interface LogGroup {
  readonly values: readonly string[];
  readonly count: number;
  /** Unix milliseconds since which the group has had no records. */
  readonly goneAtMs?: number;
}

const MIN_INTERVAL_MS = 15_000;
const MAX_INTERVAL_MS = 300_000;
const COUNTS_PER_WINDOW = 20;
/** The lookback of Prometheus: how long a sample is valid. */
const LOOKBACK_MS = 300_000;

/** Interval between counts. `minMs`: its minimum if rules are evaluated more often than every 15 s. */
export function countEveryMs(logs: LogCondition, minMs = MIN_INTERVAL_MS): number {
  return Math.min(MAX_INTERVAL_MS, Math.max(Math.min(minMs, MIN_INTERVAL_MS), windowMs(logs) / COUNTS_PER_WINDOW));
}

/** How long a count is valid if there is no newer one. */
export function countValidityMs(logs: LogCondition): number {
  return LOOKBACK_MS + 3 * countEveryMs(logs);
}

/** The expression that the evaluator evaluates for the rule. */
export function countedExpression(ruleId: string, logs: LogCondition): string {
  const series = `${COUNT_METRIC}{host_id="${COUNTED_BY}",rule="${ruleId}",condition="${fingerprint(logs)}"}`;
  const last = `(last_over_time(${series}[${Math.ceil(countValidityMs(logs) / 1000)}s]))`;
  const names = logs.by.map((_field, at) => seriesLabel(at));
  // Through temporary names that no label of an alert has: labels are renamed one after another, and a field may have the name of one of
  // the series' labels.
  const temporary = names.flatMap((name) => [name, `__${name}`]);
  const final = logs.by.flatMap((field, at) => [`__${seriesLabel(at)}`, alertLabel(field)]);
  const moves = [...temporary, ...final].map((name) => `"${name}"`).join(", ");
  const value = names.length === 0 ? `sum${last}` : `label_move(sum by (${names.join(", ")}) ${last}, ${moves})`;
  return `${value} ${logs.operator} ${logs.threshold}`;
}

/**
 * The groups to report after a count. A group of `before` that is not found has no records, and keeps its slot until the evaluator no
 * longer sees it, so that values that come and go create few series. `isCut`: not all of `found` fit.
 */
export function updateGroups(
  logs: LogCondition,
  { found, before, atMs }: { readonly found: readonly LogGroup[]; readonly before: readonly LogGroup[]; readonly atMs: number },
): { readonly groups: readonly LogGroup[]; readonly isCut: boolean } {
  const keyOf = ({ values }: LogGroup): string => JSON.stringify(values);
  const present = new Set(found.map(keyOf));
  const gone = before
    .filter((group) => !present.has(keyOf(group)) && atMs - (group.goneAtMs ?? atMs) < countValidityMs(logs))
    .map(({ values, goneAtMs = atMs }) => ({ values, count: 0, goneAtMs }));
  const known = new Set(before.map(keyOf));
  const sorted = [...found.filter((group) => known.has(keyOf(group))), ...found.filter((group) => !known.has(keyOf(group)))];
  const capacity = Math.max(0, MAX_GROUPS_PER_RULE - gone.length);
  return { groups: [...sorted.slice(0, capacity), ...gone], isCut: sorted.length > capacity };
}

/** One sample per group, as exposition text. */
export function countSamples(ruleId: string, logs: LogCondition, groups: readonly LogGroup[]): string {
  const condition = fingerprint(logs);
  return groups
    .map(({ values, count }) => {
      const labels = values.map((value, at) => `,${seriesLabel(at)}="${escapeLabelValue(value)}"`).join("");
      return `${COUNT_METRIC}{rule="${ruleId}",condition="${condition}"${labels}} ${count}\n`;
    })
    .join("");
}

/** Not the field's own name, which the server may use for a label. */
function seriesLabel(at: number): string {
  return `by_${at + 1}`;
}

function escapeLabelValue(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
