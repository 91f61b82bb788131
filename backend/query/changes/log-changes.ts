// Finds patterns of messages that are new, gone or more frequent. Invariant: a pattern that was rare before and after is never reported.
import type { ComparedPatterns, PatternPoints } from "../../storage/logs/pattern-points.ts";
import {
  type Change,
  type Comparison,
  evidenceOf,
  figure,
  linkTo,
  NothingBefore,
  POINTS,
  quote,
  scoreOfRatio,
  WINDOWS,
  wholeOf,
  windowOf,
} from "./change.ts";
import { compareCounts, discoveries, dispersionOfCounts, sum } from "./statistics.ts";

/** Minimum number of records, of the sample and of the range that has more. */
const MIN_PROBLEMS = 5;
const MIN_OTHERS = 20;
const MIN_RATIO = 3;
/** A pattern is gone only if it was in this many of the 12 intervals before, so that an hourly job is not missed. */
const MIN_POINTS_BEFORE = 8;
const EVENTS_SOURCE = "kubernetes-events";
const MAX_EXAMPLE_CHARACTERS = 160;
const GAP = "<_>";

interface Test extends PatternPoints {
  readonly p: number;
  readonly points: number;
  /** Records of the whole store, estimated: as many as before would be in the window, and those that are. */
  readonly expected: number;
  readonly nowCount: number;
}

/** Throws NothingBefore. */
export function findLogChanges({ patterns, oneOf }: ComparedPatterns, comparison: Comparison): Change[] {
  if (patterns.length > 0 && !patterns.some(({ before }) => before.some((n) => n > 0))) throw new NothingBefore();
  const tests = patterns.flatMap((pattern) => testsOf(pattern, oneOf[pattern.isProblem ? "problems" : "others"]));
  const found = discoveries(tests).filter(isLarge);
  const ofPattern = Map.groupBy(found, ({ source, pattern, isProblem }) => `${isProblem} ${source} ${pattern}`);
  return [...ofPattern.values()].map((same) => describe(same.toSorted((a, b) => a.p - b.p)[0] as Test, comparison));
}

/** `oneOf`: the sampled shares of both ranges. */
function testsOf(pattern: PatternPoints, oneOf: { readonly before: number; readonly now: number }): Test[] {
  const before = sum(pattern.before);
  const dispersion = dispersionOfCounts(pattern.before);
  return WINDOWS.flatMap((points): Test[] => {
    const now = sum(pattern.now.slice(-points));
    const exposure = (points / POINTS) * (oneOf.before / oneOf.now);
    if (Math.max(now, before * exposure) < (pattern.isProblem ? MIN_PROBLEMS : MIN_OTHERS)) return [];
    const expected = before * exposure * oneOf.now;
    return [{ ...pattern, points, expected, nowCount: now * oneOf.now, p: compareCounts(before, now, exposure, dispersion) }];
  });
}

function isLarge({ before, expected, nowCount }: Test): boolean {
  if (nowCount === 0) return before.filter((n) => n > 0).length >= MIN_POINTS_BEFORE;
  return nowCount >= MIN_RATIO * expected;
}

function describe(test: Test, comparison: Comparison): Change {
  const { source, pattern, example, isProblem, expected, nowCount, points, p } = test;
  // The example shows what the gaps of the pattern hide, such as x509.
  const shown = example.length > MAX_EXAMPLE_CHARACTERS ? `${example.slice(0, MAX_EXAMPLE_CHARACTERS)}…` : example;
  const range = windowOf(comparison, points);
  const isEvent = source === EVENTS_SOURCE;
  const q = searchOf(source, example, pattern);
  return {
    kind: isEvent ? "cluster" : "logs",
    severity: isProblem && nowCount > 0 ? "problem" : "notice",
    score: scoreOf(test),
    subject: `${source}: ${pattern}`,
    title: `${isEvent ? "events" : "logs"} of ${source}: ${wordsOf(test)}: ${shown}`,
    service: isEvent ? undefined : source,
    before: expected,
    now: nowCount,
    unit: "records",
    since_ms: range.startMs,
    p,
    evidence: evidenceOf("/query/logs", nowCount > 0 ? range : comparison.before, { query: q }),
    link: linkTo("logs", { q }, nowCount > 0 ? range : wholeOf(comparison)),
  };
}

function wordsOf({ expected, nowCount }: Test): string {
  if (nowCount === 0) return "pattern gone";
  return expected < 0.5 ? `new pattern, ${figure(nowCount)} records` : `${figure(nowCount / expected)} times as many records`;
}

function scoreOf({ isProblem, expected, nowCount }: Test): number {
  const size = scoreOfRatio(1 + nowCount / 10, 0, 10);
  if (nowCount === 0) return 25;
  if (!isProblem) return expected < 0.5 ? 28 + size / 2 : 22 + size / 2;
  return expected < 0.5 ? 72 + size : 60 + size;
}

/** A search that finds the pattern: its source, and the longest part of the example without a gap. */
function searchOf(source: string, example: string, pattern: string): string {
  const parts = pattern.split(GAP).map((part) => part.trim());
  const longest = parts.filter((part) => example.includes(part)).toSorted((a, b) => b.length - a.length)[0] ?? "";
  return [`source:${quote(source)}`, ...(longest === "" ? [] : [quote(longest)])].join(" ");
}
