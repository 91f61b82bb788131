// One record → one value of one series, after the stages of its query. Invariant: a record that a stage could not read ends the query with
// the name of its error, unless the query has dropped it, as in Loki.
import { wrongQuery } from "./literals.ts";
import { convert } from "./literals.ts";
import type { Entry } from "./entry.ts";
import { LabelSet, NO_LABELS } from "./label-set.ts";
import type { Leaf } from "./leaf.ts";
import { filterTest } from "./match-labels.ts";
import { pipelineOf } from "./pipeline.ts";
import type { Stage } from "./syntax.ts";

export interface SampleReader {
  readonly readsLines: boolean;
  /** Undefined: the record is left out. */
  readonly sample: (entry: Entry) => { readonly labels: LabelSet; readonly value: number } | undefined;
}

export function sampleReader(leaf: Leaf, stages: readonly Stage[]): SampleReader {
  const { range, labels, asked } = leaf;
  const isBytes = range.operation.startsWith("bytes_");
  const passes = pipelineOf(stages, labels.kind === "by" || labels.kind === "none" ? requiredLabels(leaf) : undefined);
  const value = unwrapped(leaf);
  const sets = new Map<string, LabelSet>();
  // Who asks for errors gets them.
  const keepsErrors =
    (labels.kind === "by" || labels.kind === "none") &&
    (asked.has("__error__") || (labels.kind === "by" && labels.names.includes("__error__")));
  const known = (entries: (readonly [string, string])[]): LabelSet => {
    const key = JSON.stringify(entries);
    let set = sets.get(key);
    if (!set) {
      set = new LabelSet(entries);
      if (sets.size < 50_000) sets.set(key, set);
    }
    return set;
  };
  return {
    readsLines: isBytes || stages.some(({ kind }) => !["label_filter", "label_format", "drop", "keep"].includes(kind)),
    sample: (entry) => {
      if (!passes(entry)) return undefined;
      const number = value ? value(entry) : isBytes ? Buffer.byteLength(entry.line) : 1;
      if (number === undefined) return undefined;
      if (entry.error && !keepsErrors) throw pipelineError(entry);
      return { labels: entry.error ? known(allLabels(entry)) : seriesLabels(leaf, entry, known), value: number };
    },
  };
}

function requiredLabels({ labels, asked }: Leaf): ReadonlySet<string> {
  return new Set([...asked, ...(labels.kind === "by" ? labels.names : [])]);
}

/** Undefined: it is no query of values. The value is undefined where the record has none. */
function unwrapped({ range: { unwrap } }: Leaf): ((entry: Entry) => number | undefined) | undefined {
  if (!unwrap) return undefined;
  const filters = unwrap.filters.map(filterTest);
  return (entry) => {
    const text = entry.get(unwrap.label) ?? "";
    if (text === "") return undefined;
    const number = convert(text, unwrap.conversion);
    if (number === undefined)
      entry.fail("SampleExtractionErr", `cannot read ${JSON.stringify(text.slice(0, 100))} as a ${unwrap.conversion}`);
    return filters.every((test) => test(entry)) ? (number ?? 0) : undefined;
  };
}

function allLabels(entry: Entry): (readonly [string, string])[] {
  return [...entry.labels()].map(([name, value]) => [name, value] as const);
}

function seriesLabels({ labels }: Leaf, entry: Entry, known: (entries: (readonly [string, string])[]) => LabelSet): LabelSet {
  if (labels.kind === "none") return NO_LABELS;
  if (labels.kind === "all") return known(allLabels(entry));
  if (labels.kind === "without") return known(allLabels(entry).filter(([name]) => !labels.names.includes(name)));
  return known(
    labels.names.flatMap((name) => {
      const value = entry.groupValueOf(name);
      return value === undefined ? [] : [[name, value] as const];
    }),
  );
}

function pipelineError(entry: Entry): Error {
  const series = new LabelSet(allLabels(entry)).toString().slice(0, 500);
  const instead = `Use a label filter to intentionally skip this error. (e.g | __error__!="${entry.error}")`;
  return wrongQuery(`pipeline error: '${entry.error}' for series: '${series}'. ${instead}`);
}
