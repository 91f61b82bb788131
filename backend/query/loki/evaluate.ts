// Evaluates /query and /query_range. Invariant: a query uses one slot of its organisation, however many statements it needs; a response has
// at most the requested number of entries, and MAX_LOKI_ANSWER_BYTES.
import { MAX_ANSWERED_SERIES, MAX_LOKI_ANSWER_BYTES, MAX_REPLACED_LABEL_CHARACTERS } from "../query-limits.ts";
import { collectStreams, matrixAnswer, scalarAnswer, streamsAnswer, vectorAnswer } from "./answers.ts";
import { mayDropRecords, pushDown } from "./conditions.ts";
import { LabelSet, NO_LABELS, type Sample, type Series } from "./entry.ts";
import { wrongQuery } from "./grammar.ts";
import { groupingLabels, leafOf, type SeriesLabels } from "./leaf.ts";
import type { EntryBounds, Steps, TimeSpan } from "./parameters.ts";
import { pipelineOf } from "./pipeline.ts";
import { checkSize, type Points } from "./points.ts";
import { type Evaluation, type QueryContext, rangePoints, records } from "./range-points.ts";
import { beginRecord, compilePattern, tooExpensive } from "./regex.ts";
import type { BinaryOperation, LogQuery, Matcher, MetricQuery, RangeAggregation, VectorAggregation } from "./syntax.ts";
import { expandGroups, groupOf } from "./template-functions.ts";
import { aggregate, combine, groupLabels, matchingKey, memoize, withNumber } from "./vector-operations.ts";

const CUT_WARNING = `the answer ends after ${MAX_LOKI_ANSWER_BYTES / 1024 / 1024} MiB: ask for a shorter range, or for fewer entries`;

interface LogsRequest extends EntryBounds {
  readonly query: LogQuery;
  readonly span: TimeSpan;
  readonly categorize: boolean;
}

/** The range includes its start but not its end, as in Loki. */
export async function answerLogs(context: QueryContext, { query, span, limit, oldestFirst, categorize }: LogsRequest): Promise<Buffer> {
  const pushedDown = pushDown(query);
  const passes = pipelineOf(pushedDown.rest);
  const streams = collectStreams(categorize);
  const recordQuery = {
    ...pushedDown,
    span: { start: span.start, end: span.end - 1n },
    oldestFirst,
    hasLines: true,
    limit: mayDropRecords(pushedDown.rest) ? undefined : limit,
  };
  let [count, warnings]: [number, string[]] = [0, []];
  for await (const entry of records(context, recordQuery)) {
    if (!passes(entry)) continue;
    streams.add(entry);
    count += 1;
    if (streams.bytes > MAX_LOKI_ANSWER_BYTES && count < limit) warnings = [CUT_WARNING];
    if (count >= limit || warnings.length > 0) break;
  }
  return streamsAnswer(streams, categorize, warnings);
}

interface MetricsRequest {
  readonly query: MetricQuery;
  readonly steps: Steps;
  readonly isInstant: boolean;
}

export async function answerMetrics(context: QueryContext, { query, steps, isInstant }: MetricsRequest): Promise<Buffer> {
  if (query.kind === "number" && isInstant) return scalarAnswer(query.value, steps);
  const series = await evaluate({ ...context, steps }, query);
  return isInstant ? vectorAnswer(series, steps) : matrixAnswer(series, steps);
}

async function evaluate(evaluation: Evaluation, query: MetricQuery): Promise<Series[]> {
  const root = await prepare(evaluation, query);
  const seriesByKey = new Map<string, Series>();
  for (let stepIndex = 0; stepIndex < evaluation.steps.count; stepIndex += 1) {
    for (const { labels, value } of root.at(stepIndex)) {
      let series = seriesByKey.get(labels.key);
      if (!series) {
        if (seriesByKey.size >= MAX_ANSWERED_SERIES) throw tooManySeries();
        series = { labels, points: [] };
        seriesByKey.set(labels.key, series);
      }
      series.points.push([stepIndex, value]);
    }
    if (evaluation.budget.isDue) await evaluation.budget.yieldToOthers();
  }
  return [...seriesByKey.values()];
}

function tooManySeries(): Error {
  const advice =
    "consider reducing query cardinality by adding more specific stream selectors, reducing the time range, or aggregating results with functions like sum, count or topk";
  return wrongQuery(`maximum number of series (${MAX_ANSWERED_SERIES}) reached for a single query; ${advice}`);
}

async function prepare(evaluation: Evaluation, query: MetricQuery, outer?: SeriesLabels): Promise<Points> {
  switch (query.kind) {
    case "range":
      return withAbsences(query, await rangePoints(evaluation, leafOf(query, outer)));
    case "aggregate": {
      const inner = await prepare(evaluation, query.of, outerLabels(query));
      const group = memoize((labels) => groupLabels(labels, query.grouping));
      return { at: (stepIndex) => aggregate(query, group, inner.at(stepIndex)) };
    }
    case "binary":
      return await prepareBinary(evaluation, query);
    case "label_replace": {
      const inner = await prepare(evaluation, query.of);
      const replace = labelReplacer(query);
      return { at: (stepIndex) => inner.at(stepIndex).map(({ labels, value }) => ({ labels: replace(labels), value })) };
    }
    default:
      return { at: () => [{ labels: NO_LABELS, value: query.value }] };
  }
}

const SUMMED = new Set(["count_over_time", "rate", "bytes_over_time", "bytes_rate", "sum_over_time"]);

/** The labels of a sum of sums, or of a maximum of maxima: no other labels of the records are needed. */
function outerLabels({ operation, of, grouping }: VectorAggregation): SeriesLabels | undefined {
  if (of.kind !== "range" || of.grouping) return undefined;
  const isExtreme = (operation === "max" || operation === "min") && of.operation === `${operation}_over_time`;
  if (!isExtreme && !(operation === "sum" && SUMMED.has(of.operation))) return undefined;
  // The unwrapped label is not a label of the series.
  if (isExtreme && of.unwrap && grouping?.labels.includes(of.unwrap.label)) return undefined;
  return grouping ? groupingLabels(grouping.without, grouping.labels) : { kind: "none" };
}

async function prepareBinary(evaluation: Evaluation, query: BinaryOperation): Promise<Points> {
  const { left, right } = query;
  if (left.kind === "number") {
    const rightPoints = await prepare(evaluation, right);
    return { at: (stepIndex) => withNumber(query, left.value, rightPoints.at(stepIndex), true) };
  }
  const leftPoints = await prepare(evaluation, left);
  if (right.kind === "number") return { at: (stepIndex) => withNumber(query, right.value, leftPoints.at(stepIndex), false) };
  const rightPoints = await prepare(evaluation, right);
  const keyOf = memoize((labels) => matchingKey(labels, query.matching));
  return { at: (stepIndex) => combine(query, keyOf, leftPoints.at(stepIndex), rightPoints.at(stepIndex)) };
}

/** For absent_over_time, returns 1 for each time without records, with the labels from the selector. */
function withAbsences({ operation, log }: RangeAggregation, points: Points): Points {
  if (operation !== "absent_over_time") return points;
  const labels = new LabelSet(namedLabels(log.selector));
  return { at: (stepIndex): Sample[] => (points.at(stepIndex).length > 0 ? [] : [{ labels, value: 1 }]) };
}

function namedLabels(selector: readonly Matcher[]): Map<string, string> {
  const named = new Map<string, string>();
  const ambiguous = new Set<string>();
  for (const { name, operator, value } of selector) {
    if (operator === "=" && !named.has(name) && !ambiguous.has(name)) named.set(name, value);
    else {
      named.delete(name);
      ambiguous.add(name);
    }
  }
  return named;
}

function labelReplacer({
  target,
  replacement,
  source,
  pattern,
}: Extract<MetricQuery, { kind: "label_replace" }>): (labels: LabelSet) => LabelSet {
  const regex = compilePattern(`^(?:${pattern})$`);
  const replacements = new Map<string, LabelSet>();
  let characters = 0;
  return (labels) => {
    let replaced = replacements.get(labels.key);
    if (!replaced) {
      beginRecord();
      const matcher = regex.find(labels.get(source));
      replaced = matcher
        ? labels.with(
            target,
            expandGroups(replacement, (name) => groupOf(matcher, name)),
          )
        : labels;
      checkSize(replacements.size + 1, 1);
      characters += replaced.get(target).length;
      if (characters > MAX_REPLACED_LABEL_CHARACTERS)
        throw tooExpensive(`makes labels of more than ${MAX_REPLACED_LABEL_CHARACTERS} characters by label_replace`);
      replacements.set(labels.key, replaced);
    }
    return replaced;
  };
}
