// Sends one query to Loki and to the backend, and compares the results. Invariant: results count as equal only if they have the same
// labels, times and values, except for rounding.
import type { Answer, Parameters, Sides } from "./sides.ts";

export const OUTCOMES = [
  "equal",
  "equal, without results",
  "equal except for the time of the query",
  "rejected by both",
  "rejected by AtherOps",
  "different",
] as const;
export type Outcome = (typeof OUTCOMES)[number];

export interface Compared {
  readonly query: string;
  readonly outcome: Outcome;
  /** Explains a difference. */
  readonly why: string;
}

/** Our words for what is not supported. */
const BY_NAME = /not supported|; write |have at most/;
const SHOWN = 400;

/** Compares a log query, or a metric query both at one moment and over the range. */
export async function compare(sides: Sides, query: string, range: { start: string; end: string }): Promise<Compared> {
  const asked: ["query" | "query_range", Parameters][] = [["query_range", { query, ...range, step: "60", limit: "5000" }]];
  if (!/^\s*\{/.test(query)) asked.push(["query", { query, time: range.end, limit: "5000" }]);
  const all: Compared[] = [];
  for (const [path, params] of asked) {
    const [ours, theirs] = await Promise.all([sides.ours.ask(path, params), sides.theirs.ask(path, params)]);
    all.push({ query, ...classify(query, ours, theirs) });
  }
  // The worst outcome. A match over the range counts even if nothing is found at one moment.
  return all.reduce((one, other) => {
    const isFound = one.outcome === "equal" && other.outcome === "equal, without results";
    return !isFound && OUTCOMES.indexOf(other.outcome) > OUTCOMES.indexOf(one.outcome) ? other : one;
  });
}

function classify(query: string, ours: Answer, theirs: Answer): Omit<Compared, "query"> {
  const why = `ours: ${ours.refusal ?? "answers"}; Loki: ${theirs.refusal ?? "answers"}`.slice(0, SHOWN);
  if (ours.refusal !== undefined && theirs.refusal !== undefined) return { outcome: "rejected by both", why };
  if (ours.refusal !== undefined) return { outcome: BY_NAME.test(ours.refusal) ? "rejected by AtherOps" : "different", why };
  if (theirs.refusal !== undefined) return { outcome: "different", why };
  const difference = differenceOf(ours, theirs);
  if (difference === undefined) return { outcome: theirs.found.size === 0 ? "equal, without results" : "equal", why: "" };
  if (/\bnow\b/.test(query) && countOf(ours) === countOf(theirs)) return { outcome: "equal except for the time of the query", why: "" };
  return { outcome: "different", why: difference };
}

function countOf({ found }: Answer): number {
  return [...found.values()].reduce((sum, points) => sum + points.length, 0);
}

function differenceOf(ours: Answer, theirs: Answer): string | undefined {
  for (const [key, wanted] of theirs.found) {
    const given = ours.found.get(key);
    if (!given) return `ours has no ${key} with ${JSON.stringify(wanted.slice(0, 2))}`.slice(0, SHOWN);
    if (given.length !== wanted.length) return `${given.length} instead of ${wanted.length} of ${key}`.slice(0, SHOWN);
    const index = wanted.findIndex((point, at) => !isSame(point, given[at] as readonly [string, string]));
    if (index !== -1) return `${JSON.stringify(given[index])} instead of ${JSON.stringify(wanted[index])} of ${key}`.slice(0, SHOWN);
  }
  const more = [...ours.found.keys()].find((key) => !theirs.found.has(key));
  return more === undefined ? undefined : `ours has ${more} with ${JSON.stringify(ours.found.get(more)?.slice(0, 2))}, too`.slice(0, SHOWN);
}

function isSame([at, value]: readonly [string, string], [otherAt, other]: readonly [string, string]): boolean {
  if (at !== otherAt) return false;
  if (value === other) return true;
  const [one, two] = [Number(value), Number(other)];
  return value !== "" && other !== "" && Math.abs(one - two) <= 1e-9 * Math.max(1, Math.abs(one));
}
