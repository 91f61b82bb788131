// Estimates from the text of a PromQL query what it costs the engine, whatever the data. The engine ignores its timeout while it computes a
// subquery, and expands templates before any check, so expensive queries have to be rejected here. Invariants: the text is read in one
// pass; a query that would keep the engine busy for long even without data is rejected.
import { expressionDurationMs } from "../../../common/duration.ts";
import { ApiError } from "../../errors.ts";
import { MAX_EXPRESSION_BYTES } from "../../engines/engine-limits.ts";
import { readTime } from "../page.ts";
import { MAX_DOUBLING, MAX_METRIC_QUERY_DEPTH, MAX_SUBQUERY_VALUES } from "../storage-limits.ts";

/** Templates that write an argument twice: each nested level doubles the expression (14 levels take minutes and gigabytes). */
const DOUBLING = /^(?:ru|ttf)$/i;
/** Functions that make a series of each value, so memory grows with the square of the points: 29,000 points of rand() take 7 GB. */
const SPREADING = /^count_values(?:_over_time)?$/i;
const OVER_TIME = /_over_time$/i;
/** Functions that add labels to series that need no data, so that the window is computed for each series. */
const LABELLING = /^(?:alias|label_\w+)$/i;

/** How often and how far apart an expression is evaluated. */
export interface Evaluation {
  readonly points: number;
  readonly stepMs: number;
}

/** A range in square brackets; `within` are the ranges inside the expression that it applies to. */
interface Window {
  readonly text: string;
  readonly isSubquery: boolean;
  readonly within: readonly Window[];
  readonly depth: number;
}

/** Throws ApiError query_too_expensive, or invalid_parameter if the cost cannot be estimated. */
export function refuseCostly(expression: string, evaluation: Evaluation): void {
  if (Buffer.byteLength(expression) > MAX_EXPRESSION_BYTES)
    throw tooExpensive(`the expression is longer than ${MAX_EXPRESSION_BYTES} bytes`);
  const { windows, functions, spreading } = parseExpression(expression);
  if (spreading !== undefined && (evaluation.points > 1 || OVER_TIME.test(spreading) || hasSubquery(windows)))
    throw tooExpensive(`${spreading}() makes a series of each value: ask for one moment, without a subquery`);
  if (valuesOf(windows, evaluation) * functions > MAX_SUBQUERY_VALUES) {
    throw tooExpensive("its subqueries compute too many values; ask for a longer step, a shorter range or a shorter [window:step]");
  }
}

/** How far an expression reads before its evaluation by its longest `offset`, and the earliest Unix time that an `@` names. */
export function readReach(expression: string, stepMs: number): { readonly offsetMs: number; readonly atMs: number } {
  let [offsetMs, atMs, before] = [0, Number.POSITIVE_INFINITY, ""];
  for (const [token] of expression.matchAll(TOKENS)) {
    if (token.startsWith("#")) continue;
    if (/^offset$/i.test(before)) offsetMs = Math.max(offsetMs, expressionDurationMs(token, stepMs) ?? 0);
    else if (before === "@" && Number.isFinite(Number(token))) atMs = Math.min(atMs, Number(token) * 1000);
    before = token;
  }
  return { offsetMs, atMs };
}

function tooExpensive(problem: string): ApiError {
  return new ApiError("query_too_expensive", `query: ${problem}`);
}

/** Unterminated strings and brackets extend to the end, so that no character is read twice. */
const TOKENS = /"(?:[^"\\]|\\[^])*"?|'(?:[^'\\]|\\[^])*'?|`[^`]*`?|#[^\n]*|\[[^\]]*\]?|[\p{L}_:\\.$\d][\p{L}_:\\.$\d]*|[^\s]/gu;

/** In `f(…) keep_metric_names [1h:1s]` and `sum(…) by (x) limit 5 [1h:1s]`, the window applies to the content of the first parentheses. */
const MODIFIERS = /^(?:keep_metric_names|limit)$/i;
const GROUPING = /^(?:by|without)$/i;

function hasSubquery(windows: readonly Window[]): boolean {
  return windows.some(({ isSubquery, within }) => isSubquery || hasSubquery(within));
}

/** `functions`: an upper bound of the functions and series that use one window; `spreading`: the first function of that kind, if any. */
function parseExpression(expression: string): { windows: Window[]; functions: number; spreading: string | undefined } {
  const windows: Window[] = [];
  const opened: number[] = [];
  let [before, group, strings, doubling] = ["", 0, 0, 0];
  let [isAggregated, isLimited] = [false, false];
  let labelling = 0;
  let spreading: string | undefined;
  for (const [token] of expression.matchAll(TOKENS)) {
    if (token.startsWith("#")) continue;
    // These words may appear between a closing parenthesis and its window.
    if (isLimited || (before === ")" && MODIFIERS.test(token))) {
      isLimited = !isLimited && /^limit$/i.test(token);
      continue;
    }
    if (SPREADING.test(token) && (spreading === undefined || OVER_TIME.test(token))) spreading = token;
    if (LABELLING.test(token)) labelling += 1;
    if (token.startsWith("[")) {
      // After a parenthesis, the window makes a subquery of its content; after another window, of that window.
      const from = before === ")" ? group : before.startsWith("[") ? windows.length - 1 : windows.length;
      const text = token.slice(1, -1);
      const isSubquery = from < windows.length || before === ")" || text.includes(":");
      const within = windows.splice(from);
      const depth = within.reduce((deepest, window) => Math.max(deepest, window.depth), 0) + 1;
      if (depth > MAX_METRIC_QUERY_DEPTH) throw tooExpensive(`subqueries are nested more than ${MAX_METRIC_QUERY_DEPTH} deep`);
      windows.push({ text, isSubquery, within, depth });
    } else if (token === "(") {
      if (before.includes("\\")) throw new ApiError("invalid_parameter", "query: names of functions are taken without escapes");
      if (/^with$/i.test(before)) throw new ApiError("invalid_parameter", "query: WITH templates are not taken; write the expression out");
      if (DOUBLING.test(before) && ++doubling > MAX_DOUBLING) throw tooExpensive(`${before}() more than ${MAX_DOUBLING} times`);
      if (/^aggr_over_time$/i.test(before)) isAggregated = true;
      opened.push(GROUPING.test(before) ? group : windows.length);
    } else if (token === ")") group = opened.pop() ?? 0;
    else if (/^["'`]/.test(token)) strings += 1;
    before = token;
  }
  return { windows, functions: (isAggregated ? Math.max(1, strings) : 1) * Math.max(1, labelling), spreading };
}

function valuesOf(windows: readonly Window[], { points, stepMs }: Evaluation): number {
  let values = 0;
  for (const { text, isSubquery, within } of windows) {
    if (!isSubquery) continue;
    const [window = "", step = ""] = text.split(":");
    const windowMs = window.trim() === "" ? stepMs : durationOf(window, stepMs);
    const innerMs = (step.trim() === "" ? 0 : durationOf(step, stepMs)) || stepMs;
    values += points * Math.max(1, windowMs / innerMs);
    values += valuesOf(within, { points: ((points - 1) * stepMs + windowMs) / innerMs + 1, stepMs: innerMs });
  }
  return values;
}

function durationOf(text: string, stepMs: number): number {
  const ms = expressionDurationMs(text, stepMs);
  if (ms === undefined) throw new ApiError("invalid_parameter", `query: [${text.slice(0, 50)}] is no duration such as 5m or 1h30m`);
  return ms;
}

/** The step of queries that do not set one. */
const DEFAULT_STEP_MS = 300_000;

/**
 * Returns the evaluation times. Writes start, end and step into `params` as they were parsed, so that the engine parses the same. Throws
 * ApiError invalid_parameter.
 */
export function evaluationOf(endpoint: "query" | "query_range", params: URLSearchParams, nowMs = Date.now()): Evaluation {
  const step = params.get("step");
  const stepMs = step === null || step === "" ? DEFAULT_STEP_MS : expressionDurationMs(step, DEFAULT_STEP_MS);
  if (stepMs === undefined || !(stepMs >= 1)) throw new ApiError("invalid_parameter", "step: must be a duration such as 15s, or seconds");
  if (step !== null) params.set("step", `${Math.floor(stepMs)}ms`);
  if (endpoint === "query") return { points: 1, stepMs };
  const endMs = timeOf("end", params, nowMs);
  const startMs = timeOf("start", params, endMs - DEFAULT_STEP_MS);
  return { points: Math.floor(Math.max(0, endMs - startMs) / stepMs) + 1, stepMs };
}

/** Parses the parameter to Unix milliseconds, and writes it back as it was parsed. Throws ApiError invalid_parameter. */
export function timeOf(name: "start" | "end" | "time", params: URLSearchParams, otherwiseMs: number): number {
  const text = params.get(name);
  if (text === null || text === "") return otherwiseMs;
  const isNumber = /^-?\d+(?:\.\d+)?(?:e\+?\d+)?$/i.test(text);
  const ms = isNumber ? Number(text) * 1000 : Number(readTime(name, text, "seconds since 1970, or ")) / 1e6;
  if (!Number.isFinite(ms)) throw new ApiError("invalid_parameter", `${name}: must be a smaller number`);
  params.set(name, String(ms / 1000));
  return ms;
}
