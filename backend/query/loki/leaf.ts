// Determines which stages and labels a range aggregation needs, and translates its stages to SQL. Invariant: a stage is omitted only if
// nothing in the result depends on it, including errors; a record that SQL may evaluate differently is `isAmbiguous`, and then JavaScript
// evaluates the whole aggregation.
import { and, or, type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { NO_MATCHING } from "../../storage/logs/matching.ts";
import { MAX_SQL_LINE_LABELS } from "../query-limits.ts";
import { valueMatches } from "./conditions.ts";
import { SOFT_LABEL, STABLE_LABELS } from "./entry.ts";
import { floatLiteral, isEmptyAttribute, type KeysOf, labelValue, numberSql } from "./label-sql.ts";
import { type LineParser, lineParser } from "./line-sql.ts";
import { plainValues } from "./regex.ts";
import { type Conversion, type LabelFilter, type RangeAggregation, type Stage, usesLine } from "./syntax.ts";

/** How the labels of a series are chosen from those of a record. */
export type SeriesLabels =
  | { readonly kind: "none" }
  | { readonly kind: "all" }
  | { readonly kind: "by" | "without"; readonly names: readonly string[] };

export interface Leaf {
  readonly range: RangeAggregation;
  readonly labels: SeriesLabels;
  /** Labels that the stages and the unwrapped value read. */
  readonly usedLabels: ReadonlySet<string>;
}

/** `outer`: the labels of an enclosing aggregation, if no other labels of the records are needed. */
export function leafOf(range: RangeAggregation, outer: SeriesLabels | undefined): Leaf {
  const { unwrap, grouping, operation, log } = range;
  const grouped: SeriesLabels | undefined = grouping && groupingLabels(grouping.without, grouping.labels);
  let labels = operation === "absent_over_time" ? ({ kind: "none" } as const) : (grouped ?? outer ?? ({ kind: "all" } as const));
  if (unwrap && (labels.kind === "all" || labels.kind === "without")) {
    labels = { kind: "without", names: labels.kind === "without" ? [...labels.names, unwrap.label] : [unwrap.label] };
  }
  const filters = [...log.stages.flatMap((stage) => (stage.kind === "label_filter" ? [stage.filter] : [])), ...(unwrap?.filters ?? [])];
  const used = [...filters.flatMap(namesOf), ...log.stages.flatMap(fieldsOf), ...(unwrap ? [unwrap.label] : [])];
  return { range, labels, usedLabels: new Set(used) };
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
const CHANGES_LINE = new Set(["line_format", "decolorize"]);

/** The stages that influence the result, determined from the last to the first. */
export function neededStages({ range, labels, usedLabels }: Leaf, stages: readonly Stage[]): Stage[] {
  let needsLine = range.operation.startsWith("bytes_");
  let ignoresErrors = false;
  const needsParsed =
    usedLabels.size > 0 ||
    labels.kind === "all" ||
    labels.kind === "without" ||
    (labels.kind === "by" && labels.names.some((name) => !STABLE_LABELS.has(name)));
  // Loki parses no line if no label is needed.
  const parsesNothing = labels.kind === "none" && usedLabels.size === 0;
  const needed: Stage[] = [];
  for (const stage of stages.toReversed()) {
    if (dropsOnlyErrors(stage)) ignoresErrors ||= stage.labels.includes(ERROR);
    const isUnneeded =
      (CHANGES_LINE.has(stage.kind) && !needsLine) ||
      (PARSERS.has(stage.kind) && (parsesNothing || (ignoresErrors && !needsParsed && !(stage.kind === "unpack" && needsLine)))) ||
      (stage.kind === "regexp" && !needsParsed);
    if (isUnneeded) continue;
    needed.unshift(stage);
    needsLine ||= usesLine(stage);
  }
  // If no stage can fail, there are no errors to drop.
  const mayFail = needed.some(({ kind }) => kind !== "drop" && kind !== "keep" && kind !== "line_filter") || range.unwrap !== undefined;
  return needed.filter((stage) => mayFail || !dropsOnlyErrors(stage));
}

function dropsOnlyErrors(stage: Stage): stage is Extract<Stage, { kind: "drop" | "keep" }> {
  return stage.kind === "drop" && stage.labels.every((label) => typeof label === "string" && isErrorLabel(label));
}

export interface LeafSql {
  /** Conditions in addition to those of `pushDown`. */
  readonly conditions: readonly Sql[];
  readonly isAmbiguous: Sql | undefined;
  /** The unwrapped number. */
  readonly value: Sql | undefined;
  readonly labels: SeriesLabels;
  /** Whether the expressions read labels from the line, which costs time for each of its bytes. */
  readonly readsLine: boolean;
  /** Empty if a stage has dropped the label. */
  readonly valueOf: (name: string) => Sql;
  /** A stage may have read the label from the line: then MARK precedes a value, so that an empty one differs from a missing label. */
  readonly isMarked: (name: string) => boolean;
}

export const MARK = "=";

const NO = sql`0`;
const ERROR = "__error__";

/** The possible effects of a filter on a record: passes it, sets an error, or requires JavaScript to read it. */
interface Outcome {
  readonly passes: Sql;
  readonly error: Sql;
  readonly ambiguous: Sql;
}

interface State {
  readonly keysOf: KeysOf;
  readonly conditions: Sql[];
  readonly ambiguous: Sql[];
  error: Sql;
  /** Labels that stages have dropped. */
  isGone: (name: string) => boolean;
  readonly dropped: string[];
  keepsSome: boolean;
  line: LineParser | undefined;
}

/** A label after the stages so far. */
interface Field {
  /** Empty if there is no label. */
  readonly value: Sql;
  /** A stage has read it from the line, possibly with an empty value. */
  readonly isParsed: Sql;
  /** JavaScript has to read the value as a text. */
  readonly ambiguous: Sql;
  /** JavaScript has to read the value as a number. */
  readonly ambiguousNumber: Sql;
}

/** Undefined if a stage cannot be translated to SQL. */
export function leafSql({ range, labels }: Leaf, stages: readonly Stage[], keysOf: KeysOf): LeafSql | undefined {
  const state: State = {
    keysOf,
    conditions: [],
    ambiguous: [],
    error: NO,
    isGone: () => false,
    dropped: [],
    keepsSome: false,
    line: undefined,
  };
  if (!stages.every((stage) => addStage(state, stage))) return undefined;
  const value = range.unwrap && addUnwrap(state, range.unwrap);
  if (range.unwrap && !value) return undefined;
  const named = labels.kind === "by" || labels.kind === "without" ? labels.names : [];
  const isWhole = labels.kind === "all" || labels.kind === "without";
  if (named.some(isErrorLabel) || (isWhole && (state.keepsSome || state.line))) return undefined;
  const fields = new Map(named.map((name) => [name, fieldOf(state, name)]));
  const seriesFields = labels.kind === "by" ? [...fields.values()] : [];
  if (seriesFields.includes(undefined)) return undefined;
  const ambiguous = [...new Set([...state.ambiguous, ...seriesFields.map((field) => field?.ambiguous ?? NO), state.error])].filter(
    (condition) => condition !== NO,
  );
  return {
    conditions: state.conditions,
    isAmbiguous: ambiguous.length === 0 ? undefined : or(ambiguous),
    value,
    labels: isWhole && state.dropped.length > 0 ? { kind: "without", names: [...named, ...state.dropped] } : labels,
    readsLine: state.line !== undefined,
    valueOf: (name) => groupValue(fields.get(name)),
    isMarked: (name) => isMarked(fields.get(name)),
  };
}

function isMarked(field: Field | undefined): boolean {
  return field !== undefined && field.isParsed !== NO;
}

function groupValue(field: Field | undefined): Sql {
  if (!field) return sql`''`;
  return isMarked(field) ? sql`if(${field.isParsed} OR ${field.value} != '', concat(${MARK}, ${field.value}), '')` : field.value;
}

function isErrorLabel(name: string): boolean {
  return name.startsWith("__error");
}

/** Undefined if the label cannot be translated to SQL. */
function fieldOf({ keysOf, isGone, line }: State, name: string): Field | undefined {
  const none = { isParsed: NO, ambiguous: NO, ambiguousNumber: NO };
  if (isGone(name)) return { value: sql`''`, ...none };
  const stored = labelValue(name, keysOf);
  if (!line || STABLE_LABELS.has(name)) return { value: stored, ...none };
  const label = keysOf(name) && line.label(name);
  if (!label || (name === SOFT_LABEL && keysOf(name)?.length !== 0)) return undefined;
  const ambiguousNumber = either(line.ambiguous ?? NO, label.ambiguous);
  const ambiguous = either(ambiguousNumber, label.isRewritten ?? NO);
  if (stored.text === "''") return { value: label.value, isParsed: label.has, ambiguous, ambiguousNumber };
  if (name === SOFT_LABEL)
    return { value: sql`if(${label.has}, ${label.value}, toString(${stored}))`, isParsed: label.has, ambiguous, ambiguousNumber };
  // A label from the line is renamed if the record already has one with this name.
  const isStored = sql`(${stored} != '' OR ${isEmptyAttribute(name, keysOf)})`;
  const value = sql`if(${isStored}, toString(${stored}), ${label.value})`;
  return { value, isParsed: sql`(NOT ${isStored} AND ${label.has})`, ambiguous, ambiguousNumber };
}

function ambiguityOf({ ambiguous, ambiguousNumber }: Field, conversion: Conversion): Sql {
  return conversion === "number" ? ambiguousNumber : ambiguous;
}

/** Returns whether the stage can be translated to SQL. */
function addStage(state: State, stage: Stage): boolean {
  if (stage.kind === "label_filter") return addFilter(state, stage.filter);
  if (stage.kind === "json" || stage.kind === "logfmt") return addParser(state, stage);
  if (stage.kind !== "drop" && stage.kind !== "keep") return false;
  const names = stage.labels.filter((label) => typeof label === "string");
  if (names.length < stage.labels.length) return false;
  const wasGone = state.isGone;
  if (stage.kind === "keep") {
    state.keepsSome = true;
    state.isGone = (name) => wasGone(name) || !names.includes(name);
    return true;
  }
  // Error details without their error would count as a label.
  const dropsErrors = names.some(isErrorLabel);
  if (dropsErrors && !(names.includes(ERROR) && names.includes("__error_details__")) && state.error !== NO) return false;
  if (dropsErrors) state.error = NO;
  state.dropped.push(...names.filter((name) => !isErrorLabel(name)));
  state.isGone = (name) => wasGone(name) || names.includes(name);
  return true;
}

/** After a second parser, or a parser after dropped labels, labels could have other names. */
function addParser(state: State, stage: Stage): boolean {
  if (state.line || state.keepsSome || state.dropped.length > 0) return false;
  const parser = lineParser(stage);
  if (!parser) return false;
  const usedNames = new Set<string>();
  state.line = { ...parser, label: (name) => (usedNames.add(name).size > MAX_SQL_LINE_LABELS ? undefined : parser.label(name)) };
  state.error = either(state.error, state.line.error ?? NO);
  state.ambiguous.push(state.line.ambiguous ?? NO);
  return true;
}

function addFilter(state: State, filter: LabelFilter): boolean {
  const outcome = filterOutcome(state, filter);
  if (!outcome) return false;
  state.conditions.push(outcome.passes);
  if (outcome.ambiguous !== NO) state.ambiguous.push(outcome.ambiguous);
  state.error = either(state.error, outcome.error);
  return true;
}

function filterOutcome(state: State, filter: LabelFilter): Outcome | undefined {
  if (filter.kind === "compare") return compareOutcome(state, filter);
  if (filter.kind === "match") {
    const { name, operator, value } = filter.matcher;
    if (name === ERROR) return operator === "=" && value === "" ? { passes: not(state.error), error: NO, ambiguous: NO } : undefined;
    const isPattern = (operator === "=~" || operator === "!~") && !plainValues(value);
    if (isErrorLabel(name) || isPattern) return undefined;
    const field = fieldOf(state, name);
    if (!field) return undefined;
    return {
      passes: either(field.ambiguous, valueMatches(field.value, filter.matcher, NO_MATCHING.matchPattern)),
      error: NO,
      ambiguous: field.ambiguous,
    };
  }
  const [left, right] = [filterOutcome(state, filter.left), filterOutcome(state, filter.right)];
  if (!left || !right) return undefined;
  const ambiguous = either(left.ambiguous, right.ambiguous);
  // Both sides of an "and" are evaluated and may set an error; the right side of an "or" only if the left one does not pass.
  if (filter.kind === "and") return { passes: and([left.passes, right.passes]), error: either(left.error, right.error), ambiguous };
  const rightError = right.error === NO ? NO : sql`(NOT (${left.passes}) AND ${right.error})`;
  return { passes: sql`(${or([left.passes, right.passes])})`, error: either(left.error, rightError), ambiguous };
}

function compareOutcome(state: State, filter: Extract<LabelFilter, { kind: "compare" }>): Outcome | undefined {
  const { name, operator, value, conversion } = filter;
  const literal = floatLiteral(value);
  if (!literal || isErrorLabel(name)) return undefined;
  const field = fieldOf(state, name);
  if (!field) return undefined;
  if (state.isGone(name)) return { passes: NO, error: NO, ambiguous: NO };
  const { value: text, isParsed } = field;
  const number = numberSql(text, conversion);
  // A text that is not a number sets an error and passes. Records that JavaScript has to read pass, too, so that they are noticed.
  const isEmpty = either(isEmptyAttribute(name, state.keysOf), isParsed === NO ? NO : sql`(${isParsed} AND ${text} = '')`);
  const fieldAmbiguity = ambiguityOf(field, conversion);
  const error = unless(fieldAmbiguity, sql`((${text} != '' AND ${number.isNone}) OR ${isEmpty})`);
  const compared = sql`(${number.isPlain} AND ${number.value} ${COMPARE[operator]} ${literal})`;
  const ambiguous = either(fieldAmbiguity, number.isOther);
  return { passes: sql`(${error} OR ${ambiguous} OR ${compared})`, error, ambiguous };
}

const COMPARE = { "==": sql`=`, "!=": sql`!=`, ">": sql`>`, ">=": sql`>=`, "<": sql`<`, "<=": sql`<=` } as const;

/** A record without the label is skipped. If its label is not a number, that is an error which only the filters after it may drop. */
function addUnwrap(state: State, { label, conversion, filters }: NonNullable<Leaf["range"]["unwrap"]>): Sql | undefined {
  if (isErrorLabel(label)) return undefined;
  const field = fieldOf(state, label);
  if (!field) return undefined;
  const ambiguous = ambiguityOf(field, conversion);
  const number = numberSql(field.value, conversion);
  state.conditions.push(either(ambiguous, sql`${field.value} != ''`));
  state.ambiguous.push(either(ambiguous, number.isOther));
  state.error = either(state.error, unless(ambiguous, number.isNone));
  return filters.every((filter) => addFilter(state, filter)) ? number.value : undefined;
}

function not(condition: Sql): Sql {
  return condition === NO ? sql`1` : sql`NOT (${condition})`;
}

/** Ignores the error if JavaScript has to read the record, so that it passes the later filters and is noticed. */
function unless(ambiguous: Sql, error: Sql): Sql {
  return ambiguous === NO ? error : sql`(NOT ${ambiguous} AND ${error})`;
}

function either(left: Sql, right: Sql): Sql {
  if (left === NO || left === right) return right;
  return right === NO ? left : sql`(${left} OR ${right})`;
}
