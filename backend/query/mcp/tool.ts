// Defines a tool of the MCP server: its name, description and parameters, and how it asks the API. Invariant: a tool only sends GET requests
// of documented routes with the caller's own credential, so it can read what the caller can read, within the caller's limits.
import { durationWithin } from "../../../common/duration.ts";
import { consoleAddress, type ConsoleQuery } from "../../client/console-address.ts";
import { ApiError } from "../../errors.ts";
import type { ToolAnswer } from "./answer.ts";

export type Parameters = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/** Sends a GET request to a route of this backend and returns its JSON. Throws RouteError. */
export type Ask = (path: string, parameters?: Parameters) => Promise<unknown>;

/** The answer of a route that failed. */
export class RouteError extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export type Arguments = Readonly<Record<string, unknown>>;

export interface Tool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  /** JSON schema of each argument. */
  readonly parameters: Readonly<Record<string, object>>;
  readonly required?: readonly string[];
  readonly run: (ask: Ask, given: Arguments) => Promise<ToolAnswer>;
}

export const text = (description: string) => ({ type: "string", maxLength: 4000, description });
export const count = (description: string, most: number, preset: number) => ({
  type: "integer",
  minimum: 1,
  maximum: most,
  default: preset,
  description,
});
export const choice = (description: string, values: readonly string[]) => ({ type: "string", enum: values, description });

/** Arguments of every tool that reads a range of time. */
export const RANGE = {
  since: text("how far back from now, such as 15m, 1h, 24h or 7d; default 1h"),
  start: text("RFC 3339, instead of since"),
  end: text("RFC 3339; default now"),
};

export interface Range {
  readonly start: string;
  readonly end: string;
}

/** Throws ApiError invalid_parameter. */
export function readRange(given: Arguments): Range {
  const [since = "1h", start, end] = ["since", "start", "end"].map((name) => optionalText(given[name]));
  const endMs = end === undefined ? Date.now() : Date.parse(end);
  const backMs = durationWithin(since, { maxMs: 400 * 86_400_000 });
  const startMs = start === undefined ? endMs - (backMs ?? Number.NaN) : Date.parse(start);
  if (backMs === undefined) throw new ApiError("invalid_parameter", "since: write it as 15m, 24h or 7d");
  // The first day that a Date can have has no earlier one.
  if (!isTime(startMs) || !isTime(endMs)) throw new ApiError("invalid_parameter", "start, end: write times as 2026-01-31T12:00:00Z");
  return { start: new Date(startMs).toISOString(), end: new Date(endMs).toISOString() };
}

function isTime(ms: number): boolean {
  return Number.isFinite(new Date(ms).getTime());
}

/** The screen of the console with this range. */
export function screenLink(screen: string, query: ConsoleQuery, { start, end }: Range, id?: string): string {
  return consoleAddress(screen, { ...query, from: start, to: end }, id);
}

export function optionalText(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** 3 significant digits: an assistant needs no more, and each digit is a token. */
export function short(value: unknown): unknown {
  return typeof value === "number" && Number.isFinite(value) ? Number(value.toPrecision(4)) : value;
}

export function shortFigures(row: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, short(value)]));
}
