// Which stages and labels a range aggregation needs, and its stages as SQL. Invariant: a stage is left out only if nothing in the result
// depends on it, errors included; a record that SQL may evaluate differently is `isOdd`, and then JavaScript evaluates the whole leaf.
import { and, type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { NO_MATCHING } from "../../storage/logs/matching.ts";
import { or, valueMatches } from "./conditions.ts";
import { STABLE_LABELS } from "./entry.ts";
import { floatLiteral, isEmptyAttribute, type KeysOf, labelValue, numberSql } from "./label-sql.ts";
import { plainValues } from "./regex.ts";
import type { LabelFilter, RangeAggregation, Stage } from "./syntax.ts";

/** How the labels of a series are chosen of those of a record. */
export type SeriesLabels =
  | { readonly kind: "none" }
  | { readonly kind: "all" }
  | { readonly kind: "by" | "without"; readonly names: readonly string[] };

export interface Leaf {
  readonly range: RangeAggregation;
  readonly labels: SeriesLabels;
  /** Labels that stages and the unwrapped value ask for. */
  readonly asked: ReadonlySet<string>;
}

/** `outer`: the labels of a sum around it, which are all that is needed of each record. */
export function leafOf(range: RangeAggregation, outer: SeriesLabels | undefined): Leaf {
  const { unwrap, grouping, operation, log } = range;
  const own: SeriesLabels | undefined = grouping && groupingLabels(grouping.without, grouping.labels);
  let labels = operation === "absent_over_time" ? ({ kind: "none" } as const) : (own ?? outer ?? ({ kind: "all" } as const));
  if (unwrap && (labels.kind === "all" || labels.kind === "without")) {
    labels = { kind: "without", names: labels.kind === "without" ? [...labels.names, unwrap.label] : [unwrap.label] };
  }
  const filters = [...log.stages.flatMap((stage) => (stage.kind === "label_filter" ? [stage.filter] : [])), ...(unwrap?.filters ?? [])];
  const asked = [...filters.flatMap(namesOf), ...log.stages.flatMap(fieldsOf), ...(unwrap ? [unwrap.label] : [])];
  return { range, labels, asked: new Set(asked) };
}

export function groupingLabels(without: boolean, names: readonly string[]): SeriesLabels {
  if (names.length === 0) return without ? { kind: "all" } : { kind: "none" };
  return { kind: without ? "without" : "by", names };
}

function namesOf(filter: LabelFilter): string[] {
  if (filter.kind === "match") return [filter.matcher.name];
  return filter.kind === "compare" ? [filter.name] : [...namesOf(filter.left), ...namesOf(filter.right)];
}

function fieldsOf(stage: Stage): string[] {
  const templates =
    stage.kind === "line_format" ? [stage.text] : stage.kind === "label_format" ? stage.formats.map(({ template = "" }) => template) : [];
  const renamed = stage.kind === "label_format" ? stage.formats.flatMap(({ from }) => from ?? []) : [];
  return [...templates.flatMap((text) => [...text.matchAll(/\.([a-zA-Z_]\w*)/g)].map(([, name]) => name as string)), ...renamed];
}

const PARSERS = new Set(["json", "logfmt", "pattern", "unpack"]);
const OF_LINE = new Set(["line_format", "decolorize"]);

/** The stages that make a difference to what is asked; from the last to the first. */
export function neededStages({ range, labels, asked }: Leaf, stages: readonly Stage[]): Stage[] {
  let needsLine = range.operation.startsWith("bytes_");
  let ignoresErrors = false;
  const needsParsed =
    asked.size > 0 ||
    labels.kind === "all" ||
    labels.kind === "without" ||
    (labels.kind === "by" && labels.names.some((name) => !STABLE_LABELS.has(name)));
  // Loki parses no line if no label is needed.
  const parsesNothing = labels.kind === "none" && asked.size === 0;
  const needed: Stage[] = [];
  for (const stage of stages.toReversed()) {
    const dropsErrors = stage.kind === "drop" && stage.labels.every((label) => label === "__error__" || label === "__error_details__");
    if (dropsErrors) ignoresErrors ||= stage.labels.includes("__error__");
    const isIdle =
      (OF_LINE.has(stage.kind) && !needsLine) ||
      (PARSERS.has(stage.kind) && (parsesNothing || (ignoresErrors && !needsParsed && !(stage.kind === "unpack" && needsLine)))) ||
      (stage.kind === "regexp" && !needsParsed);
    if (isIdle) continue;
    needed.unshift(stage);
    needsLine ||= !["label_filter", "label_format", "drop", "keep"].includes(stage.kind);
  }
  // Without anything that could fail there are no errors to drop.
  const mayFail = needed.some(({ kind }) => kind !== "drop" && kind !== "keep" && kind !== "line_filter") || range.unwrap !== undefined;
  return needed.filter(
    (stage) =>
      mayFail || !(stage.kind === "drop" && stage.labels.every((label) => typeof label === "string" && label.startsWith("__error"))),
  );
}

export interface LeafSql {
  /** Conditions in addition to those of `push`. */
  readonly conditions: readonly Sql[];
  readonly isOdd: Sql | undefined;
  /** The unwrapped number. */
  readonly value: Sql | undefined;
  readonly labels: SeriesLabels;
  /** Empty where a stage has dropped the label. */
  readonly valueOf: (name: string) => Sql;
}

const NO = sql`0`;
const ERROR = "__error__";

/** What a filter does to a record: whether it passes, is an error, or can only be read by JavaScript. */
interface Outcome {
  readonly passes: Sql;
  readonly error: Sql;
  readonly odd: Sql;
}

interface State {
  readonly keysOf: KeysOf;
  readonly conditions: Sql[];
  readonly odd: Sql[];
  error: Sql;
  /** Labels that stages have dropped. */
  isGone: (name: string) => boolean;
  readonly dropped: string[];
  keepsSome: boolean;
}

/** Undefined: SQL has no form for a stage. */
export function leafSql({ range, labels }: Leaf, stages: readonly Stage[], keysOf: KeysOf): LeafSql | undefined {
  const state: State = { keysOf, conditions: [], odd: [], error: NO, isGone: () => false, dropped: [], keepsSome: false };
  if (!stages.every((stage) => addStage(state, stage))) return undefined;
  const value = range.unwrap && addUnwrap(state, range.unwrap);
  if (range.unwrap && !value) return undefined;
  const named = labels.kind === "by" || labels.kind === "without" ? labels.names : [];
  const isWhole = labels.kind === "all" || labels.kind === "without";
  if (named.some(isOfErrors) || (isWhole && state.keepsSome)) return undefined;
  const odd = [...state.odd, state.error].filter((condition) => condition !== NO);
  return {
    conditions: state.conditions,
    isOdd: odd.length === 0 ? undefined : or(odd),
    value,
    labels: isWhole && state.dropped.length > 0 ? { kind: "without", names: [...named, ...state.dropped] } : labels,
    valueOf: (name) => valueOf(state, name),
  };
}

function isOfErrors(name: string): boolean {
  return name.startsWith("__error");
}

function valueOf({ keysOf, isGone }: State, name: string): Sql {
  return isGone(name) ? sql`''` : labelValue(name, keysOf);
}

/** Answers whether SQL has a form for the stage. */
function addStage(state: State, stage: Stage): boolean {
  if (stage.kind === "label_filter") return addFilter(state, stage.filter);
  if (stage.kind !== "drop" && stage.kind !== "keep") return false;
  const names = stage.labels.filter((label) => typeof label === "string");
  if (names.length < stage.labels.length) return false;
  const was = state.isGone;
  if (stage.kind === "keep") {
    state.keepsSome = true;
    state.isGone = (name) => was(name) || !names.includes(name);
    return true;
  }
  // Details without their error would be a label.
  const dropsErrors = names.some(isOfErrors);
  if (dropsErrors && !(names.includes(ERROR) && names.includes("__error_details__")) && state.error !== NO) return false;
  if (dropsErrors) state.error = NO;
  state.dropped.push(...names.filter((name) => !isOfErrors(name)));
  state.isGone = (name) => was(name) || names.includes(name);
  return true;
}

function addFilter(state: State, filter: LabelFilter): boolean {
  const outcome = filterOutcome(state, filter);
  if (!outcome) return false;
  state.conditions.push(outcome.passes);
  if (outcome.odd !== NO) state.odd.push(outcome.odd);
  state.error = either(state.error, outcome.error);
  return true;
}

function filterOutcome(state: State, filter: LabelFilter): Outcome | undefined {
  if (filter.kind === "compare") return compareOutcome(state, filter);
  if (filter.kind === "match") {
    const { name, operator, value } = filter.matcher;
    if (name === ERROR) return operator === "=" && value === "" ? { passes: not(state.error), error: NO, odd: NO } : undefined;
    const isPattern = (operator === "=~" || operator === "!~") && !plainValues(value);
    if (isOfErrors(name) || isPattern) return undefined;
    return { passes: valueMatches(valueOf(state, name), filter.matcher, NO_MATCHING.found), error: NO, odd: NO };
  }
  const [left, right] = [filterOutcome(state, filter.left), filterOutcome(state, filter.right)];
  if (!left || !right) return undefined;
  const odd = either(left.odd, right.odd);
  // Both sides of an and are evaluated, and both may find an error; of an or the right one only where the left one does not pass.
  if (filter.kind === "and") return { passes: and([left.passes, right.passes]), error: either(left.error, right.error), odd };
  const rightError = right.error === NO ? NO : sql`(NOT (${left.passes}) AND ${right.error})`;
  return { passes: sql`(${or([left.passes, right.passes])})`, error: either(left.error, rightError), odd };
}

function compareOutcome(state: State, filter: Extract<LabelFilter, { kind: "compare" }>): Outcome | undefined {
  const { name, operator, value, conversion } = filter;
  const literal = floatLiteral(value);
  if (!literal || isOfErrors(name)) return undefined;
  if (state.isGone(name)) return { passes: NO, error: NO, odd: NO };
  const text = labelValue(name, state.keysOf);
  const number = numberSql(text, conversion);
  // A text that is no number passes, and is an error. What JavaScript has to read passes, so that it is seen.
  const error = sql`((${text} != '' AND ${number.isNone}) OR ${isEmptyAttribute(name, state.keysOf)})`;
  const compared = sql`(${number.isPlain} AND ${number.value} ${COMPARE[operator]} ${literal})`;
  return { passes: sql`(${error} OR ${number.isOther} OR ${compared})`, error, odd: number.isOther };
}

const COMPARE = { "==": sql`=`, "!=": sql`!=`, ">": sql`>`, ">=": sql`>=`, "<": sql`<`, "<=": sql`<=` } as const;

/** A record without the label is left out; one whose label is no number is an error that only the filters behind it may drop. */
function addUnwrap(state: State, { label, conversion, filters }: NonNullable<Leaf["range"]["unwrap"]>): Sql | undefined {
  if (isOfErrors(label)) return undefined;
  const text = valueOf(state, label);
  const number = numberSql(text, conversion);
  state.conditions.push(sql`${text} != ''`);
  state.odd.push(number.isOther);
  state.error = either(state.error, number.isNone);
  return filters.every((filter) => addFilter(state, filter)) ? number.value : undefined;
}

function not(condition: Sql): Sql {
  return condition === NO ? sql`1` : sql`NOT (${condition})`;
}

function either(left: Sql, right: Sql): Sql {
  if (left === NO || left === right) return right;
  return right === NO ? left : sql`(${left} OR ${right})`;
}
