// What a range aggregation has to know to make series of records, and which of its stages it needs for that. Invariant: a stage is left out
// only where nothing that is asked depends on it, its errors included.
import type { LabelFilter, RangeAggregation, Stage } from "./syntax.ts";
import { STABLE_LABELS } from "./label-names.ts";

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
  // Loki reads no line where nobody asks for a label.
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
