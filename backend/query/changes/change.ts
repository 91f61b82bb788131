// Defines what GET /query/changes returns, and how changes are ranked. Invariant: every change has figures of both ranges or a time, the
// request that proves it, and a link to the console's screen that shows it.
import { consoleAddress } from "../../client/console-address.ts";
import type { ComparedRanges } from "../../storage/page.ts";

export const CHANGE_KINDS = [
  "agent",
  "alert",
  "attribute",
  "audit",
  "cluster",
  "errors",
  "latency",
  "logs",
  "rate",
  "resource",
  "version",
] as const;
export type ChangeKind = (typeof CHANGE_KINDS)[number];

export interface Change {
  readonly kind: ChangeKind;
  /** `problem`: someone may have to act; `notice`: it can explain a problem. */
  readonly severity: "problem" | "notice";
  /** 0 to 100: higher first. */
  readonly score: number;
  /** What changed: a service, a pod, a pattern. */
  readonly subject: string;
  readonly title: string;
  readonly service?: string | undefined;
  readonly operation?: string | undefined;
  readonly before?: number | undefined;
  readonly now?: number | undefined;
  readonly unit?: string | undefined;
  /** When it began, if that is known. */
  readonly since_ms?: number | undefined;
  readonly p?: number | undefined;
  /** The request of the API that shows the figures. */
  readonly evidence: string;
  /** The console's screen: `#/…`. */
  readonly link: string;
}

export interface Span {
  readonly startMs: number;
  readonly endMs: number;
}

/** Both ranges have the same length. */
export interface Comparison {
  readonly before: Span;
  readonly now: Span;
}

/** Compared with an empty range, everything would be new. */
export class NothingBefore extends Error {
  constructor() {
    super("there is no data in the range before to compare with");
  }
}

/** Intervals into which each range is divided. */
export const POINTS = 12;
/** Parts of the range, from its end, in which a change may have begun: all of it, its second half, its last quarter. */
export const WINDOWS = [POINTS, POINTS / 2, POINTS / 4] as const;

export function windowOf({ now: { startMs, endMs } }: Comparison, points: number): Span {
  return { startMs: endMs - ((endMs - startMs) / POINTS) * points, endMs };
}

/** Both ranges and what is between them. */
export function wholeOf({ before, now }: Comparison): Span {
  return { startMs: before.startMs, endMs: now.endMs };
}

export function nanoseconds(ms: number): bigint {
  return BigInt(Math.round(ms)) * 1_000_000n;
}

/** Both ends inclusive, as the stores read them. */
export function nanosecondRanges({ before, now }: Comparison): ComparedRanges {
  return { before: nanosecondRange(before), now: nanosecondRange(now) };
}

export function nanosecondRange({ startMs, endMs }: Span): ComparedRanges["now"] {
  return { start: nanoseconds(startMs), end: nanoseconds(endMs) - 1n };
}

export function rangeParameters({ startMs, endMs }: Span): { start: string; end: string } {
  return { start: new Date(startMs).toISOString(), end: new Date(endMs).toISOString() };
}

export function evidenceOf(path: string, range: Span, parameters: Record<string, string | undefined>): string {
  const all = Object.entries({ ...rangeParameters(range), ...parameters });
  const known = all.filter((entry): entry is [string, string] => entry[1] !== undefined);
  return `${path}?${new URLSearchParams(known).toString()}`;
}

export function linkTo(screen: string, parameters: Record<string, string | undefined>, range: Span, id?: string): string {
  const { start: from, end: to } = rangeParameters(range);
  return consoleAddress(screen, { ...parameters, from, to }, id);
}

export function sinceOf(ms: number | undefined): { since?: string } {
  return ms === undefined ? {} : { since: new Date(ms).toISOString() };
}

/** A quoted value of the log query. */
export function quote(text: string): string {
  return `"${text.replaceAll(/["\\]/g, "\\$&")}"`;
}

/** 1.5, 12, 1,200: at most three significant digits. */
export function figure(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString("en");
}

/** The score of an effect that has a ratio: `least` for the smallest one that is reported, `most` for a ratio of 30 or more. */
export function scoreOfRatio(ratio: number, least: number, most: number): number {
  const size = Math.min(1, Math.abs(Math.log(Math.max(ratio, 1e-6))) / Math.log(30));
  return least + (most - least) * size;
}
