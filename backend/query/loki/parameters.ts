// Parses the parameters of Loki's HTTP API as Loki does: unknown ones are ignored, so that a newer client works. Invariant: a record counts
// for the evaluation times t with t - range < record <= t.
import { MAX_TIME_NS } from "../../../common/time.ts";
import { createParameterError } from "../../errors.ts";
import { readTime as readRfc3339 } from "../../storage/page.ts";
import { MAX_ENTRIES, MAX_RANGE_STEPS } from "../query-limits.ts";
import { parseDuration, parseNumber } from "./grammar.ts";

export type RequestParameters = Readonly<Record<string, string | string[] | undefined>>;

const HOUR_NS = 3_600_000_000_000n;
const SECOND_NS = 1_000_000_000n;
const DEFAULT_ENTRIES = 100;

/** Throws ApiError invalid_parameter if one of the `known` parameters occurs twice. */
export function checkRepeated(parameters: RequestParameters, known: readonly string[]): void {
  const repeated = known.find((name) => Array.isArray(parameters[name]));
  if (repeated !== undefined) throw createParameterError(repeated, "is given more than once");
}

export function textOf(parameters: RequestParameters, name: string): string | undefined {
  const value = parameters[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** Accepts nanoseconds, seconds with or without a fraction, or RFC 3339. */
export function readTime(name: string, text: string): bigint {
  const ns = readDigits(text) ?? readRfc3339(name, text, "nanoseconds or seconds since 1970, or ");
  return ns > MAX_TIME_NS ? MAX_TIME_NS : ns;
}

function readDigits(text: string): bigint | undefined {
  if (/^\d{11,19}$/.test(text)) return BigInt(text);
  const [, whole, fraction = ""] = /^(\d{1,12})(?:\.(\d+))?$/.exec(text) ?? [];
  return whole === undefined ? undefined : BigInt(whole) * SECOND_NS + BigInt(fraction.slice(0, 9).padEnd(9, "0"));
}

/** Nanoseconds since 1970. */
export interface TimeSpan {
  readonly start: bigint;
  readonly end: bigint;
}

/** `start` and `end`, or `since` before the end; default: the last hour. */
export function readTimeRange(parameters: RequestParameters, nowNs: bigint): TimeSpan {
  const [start, end, since] = [textOf(parameters, "start"), textOf(parameters, "end"), textOf(parameters, "since")];
  const endNs = end === undefined ? nowNs : readTime("end", end);
  const sinceNs = since === undefined ? HOUR_NS : readDuration("since", since);
  const pastEndNs = endNs < nowNs ? endNs : nowNs;
  const span = { start: start === undefined ? (pastEndNs > sinceNs ? pastEndNs - sinceNs : 0n) : readTime("start", start), end: endNs };
  if (span.end < span.start) throw createParameterError("end", "end timestamp must not be before or equal to start time");
  return span;
}

export function readDuration(name: string, text: string): bigint {
  const number = (parseNumber(text) ?? Number.NaN) * 1e9;
  const ns = Number.isFinite(number) ? BigInt(Math.round(number)) : parseDuration(text, true);
  if (ns === undefined || ns <= 0n)
    throw createParameterError(name, "must be a positive duration such as 5m, or a positive number of seconds");
  return ns;
}

export function readSteps(parameters: RequestParameters, { start, end }: TimeSpan): Steps {
  const step = textOf(parameters, "step");
  const defaultStepNs = BigInt(Math.max(1, Math.floor(Number(end - start) / 1e9 / 250))) * SECOND_NS;
  const stepNs = step === undefined ? defaultStepNs : readDuration("step", step);
  if ((end - start) / stepNs > BigInt(MAX_RANGE_STEPS)) {
    const reason = `exceeded maximum resolution of ${MAX_RANGE_STEPS.toLocaleString("en")} points per time series. Try increasing the value of the step parameter`;
    throw createParameterError("step", reason);
  }
  return stepsOf(start, end, stepNs);
}

export interface EntryBounds {
  readonly limit: number;
  readonly oldestFirst: boolean;
}

export function readLimitAndDirection(parameters: RequestParameters): EntryBounds {
  const direction = (textOf(parameters, "direction") ?? "backward").toLowerCase();
  if (direction !== "forward" && direction !== "backward") throw createParameterError("direction", "must be forward or backward");
  return { limit: readLimit(parameters, "limit", DEFAULT_ENTRIES, MAX_ENTRIES), oldestFirst: direction === "forward" };
}

export function readLimit(parameters: RequestParameters, name: string, defaultLimit: number, maxLimit: number): number {
  const text = textOf(parameters, name);
  if (text === undefined) return defaultLimit;
  if (!/^0*[1-9]\d{0,8}$/.test(text)) throw createParameterError(name, "must be a whole number of at least 1");
  if (Number(text) > maxLimit)
    throw createParameterError(name, `max entries limit per query exceeded, limit > max_entries_limit (${Number(text)} > ${maxLimit})`);
  return Number(text);
}

/** Evaluation times in nanoseconds since 1970: start, start + step, … up to the end. */
export interface Steps {
  readonly start: bigint;
  readonly step: bigint;
  readonly count: number;
}

export function stepsOf(start: bigint, end: bigint, step: bigint): Steps {
  return { start, step, count: Number((end - start) / step) + 1 };
}

export interface Window {
  readonly rangeNs: bigint;
  readonly offsetNs: bigint;
}

/** The numbers of the first and the last evaluation time for which a record counts; if there is none, the first is greater. */
export function stepIndexesOf(timeNs: bigint, { start, step, count }: Steps, { rangeNs, offsetNs }: Window): [first: number, last: number] {
  const since = timeNs + offsetNs - start;
  const first = since <= 0n ? 0 : Number((since + step - 1n) / step);
  const until = since + rangeNs - 1n;
  return [first, until < 0n ? -1 : Math.min(count - 1, Number(until / step))];
}

/** The range of records that count for any evaluation time; both ends are inclusive. */
export function spanOf({ start, step, count }: Steps, { rangeNs, offsetNs }: Window): TimeSpan {
  const last = start + step * BigInt(count - 1);
  return { start: start - offsetNs - rangeNs + 1n, end: last - offsetNs };
}
