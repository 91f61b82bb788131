// A query of metrics, evaluated for each of its moments. Invariant: what is asked of the engine runs in one turn of the organisation, and
// what is computed here gives way to others all the time (budget.ts).
import { aggregate, combine, grouped, remembered, signature, withNumber } from "./vector-operations.ts";
import { LabelSet, NO_LABELS, type Sample } from "./label-set.ts";
import { groupingLabels, leafOf, type SeriesLabels } from "./leaf.ts";
import { checkSize, type Points } from "./points.ts";
import { type Asking, rangePoints } from "./range-points.ts";
import { beginRecord, compiled } from "./regex.ts";
import { tooExpensive } from "./budget.ts";
import { wrongQuery } from "./literals.ts";
import type { BinaryOperation, Matcher, MetricQuery, RangeAggregation, VectorAggregation } from "./syntax.ts";
import { expandedGroups, groupOf } from "./template-functions.ts";

export interface Series {
  readonly labels: LabelSet;
  /** By the number of the moment. */
  readonly points: [moment: number, value: number][];
}

/** As Loki bounds what one query answers. */
const MOST_ANSWERED = 500;

export async function evaluate(asking: Asking, query: MetricQuery): Promise<Series[]> {
  const root = await prepare(asking, query);
  const found = new Map<string, Series>();
  for (let moment = 0; moment < asking.steps.count; moment += 1) {
    for (const { labels, value } of root.at(moment)) {
      let series = found.get(labels.key);
      if (!series) {
        if (found.size >= MOST_ANSWERED) throw tooManySeries();
        series = { labels, points: [] };
        found.set(labels.key, series);
      }
      series.points.push([moment, value]);
    }
    if (asking.budget.isDue) await asking.budget.breathe();
  }
  return [...found.values()];
}

function tooManySeries(): Error {
  const instead =
    "consider reducing query cardinality by adding more specific stream selectors, reducing the time range, or aggregating results with functions like sum, count or topk";
  return wrongQuery(`maximum number of series (${MOST_ANSWERED}) reached for a single query; ${instead}`);
}

async function prepare(asking: Asking, query: MetricQuery, outer?: SeriesLabels): Promise<Points> {
  switch (query.kind) {
    case "range":
      return absentWhere(query, await rangePoints(asking, leafOf(query, outer)));
    case "aggregate": {
      const of = await prepare(asking, query.of, injected(query));
      const group = remembered((labels) => grouped(labels, query.grouping));
      return { at: (moment) => aggregate(query, group, of.at(moment)) };
    }
    case "binary":
      return await prepareBinary(asking, query);
    case "label_replace": {
      const of = await prepare(asking, query.of);
      const replace = labelReplacer(query);
      return { at: (moment) => of.at(moment).map(({ labels, value }) => ({ labels: replace(labels), value })) };
    }
    default:
      return { at: () => [{ labels: NO_LABELS, value: query.value }] };
  }
}

const SUMMED = new Set(["count_over_time", "rate", "bytes_over_time", "bytes_rate", "sum_over_time"]);

/** A sum of sums, or a maximum of maxima, needs no other labels of the records than its own. */
function injected({ operation, of, grouping }: VectorAggregation): SeriesLabels | undefined {
  if (of.kind !== "range" || of.grouping) return undefined;
  const isExtreme = (operation === "max" || operation === "min") && of.operation === `${operation}_over_time`;
  if (!isExtreme && !(operation === "sum" && SUMMED.has(of.operation))) return undefined;
  // The series of values have no label of that name.
  if (isExtreme && of.unwrap && grouping?.labels.includes(of.unwrap.label)) return undefined;
  return grouping ? groupingLabels(grouping.without, grouping.labels) : { kind: "none" };
}

async function prepareBinary(asking: Asking, query: BinaryOperation): Promise<Points> {
  const { left, right } = query;
  if (left.kind === "number") {
    const of = await prepare(asking, right);
    return { at: (moment) => withNumber(query, left.value, of.at(moment), true) };
  }
  const lefts = await prepare(asking, left);
  if (right.kind === "number") return { at: (moment) => withNumber(query, right.value, lefts.at(moment), false) };
  const rights = await prepare(asking, right);
  const match = remembered((labels) => signature(labels, query.matching));
  return { at: (moment) => combine(query, match, lefts.at(moment), rights.at(moment)) };
}

/** Where there is nothing there is a one, with the labels that the selector names. */
function absentWhere({ operation, log }: RangeAggregation, points: Points): Points {
  if (operation !== "absent_over_time") return points;
  const labels = new LabelSet(namedLabels(log.selector));
  return { at: (moment): Sample[] => (points.at(moment).length > 0 ? [] : [{ labels, value: 1 }]) };
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

/** Of the labels that label_replace makes, which stay as long as the query. */
const MOST_KEPT_CHARACTERS = 8 * 1024 * 1024;

function labelReplacer({
  target,
  replacement,
  source,
  pattern,
}: Extract<MetricQuery, { kind: "label_replace" }>): (labels: LabelSet) => LabelSet {
  const expression = compiled(`^(?:${pattern})$`);
  const known = new Map<string, LabelSet>();
  let keptCharacters = 0;
  return (labels) => {
    let replaced = known.get(labels.key);
    if (!replaced) {
      beginRecord();
      const matcher = expression.find(labels.get(source));
      replaced = matcher
        ? labels.with(
            target,
            expandedGroups(replacement, (name) => groupOf(matcher, name)),
          )
        : labels;
      checkSize(known.size + 1, 1);
      keptCharacters += replaced.get(target).length;
      if (keptCharacters > MOST_KEPT_CHARACTERS)
        throw tooExpensive(`makes labels of more than ${MOST_KEPT_CHARACTERS} characters by label_replace`);
      known.set(labels.key, replaced);
    }
    return replaced;
  };
}
