// Defines a tool of the MCP server: its name, description and parameters, and how it asks the API. Invariant: a tool only sends GET requests
// of documented routes with the caller's own credential, so it can read what the caller can read, within the caller's limits.
import { durationWithin } from "../../../common/duration.ts";
import { consoleAddress, type ConsoleQuery } from "../../client/console-address.ts";
import { ApiError } from "../../errors.ts";
import { readTime } from "../../storage/page.ts";
import type { ToolAnswer } from "./answer.ts";

export type Row = Record<string, unknown>;

export type Parameters = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/** Sends a GET request to a route of this backend and returns its JSON. Throws RouteError. */
export type Ask = (path: string, parameters?: Parameters) => Promise<unknown>;

export class RouteError extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** The arguments of all tools: the schema of each tool has checked them, and none is an empty text. */
export type Arguments = Readonly<
  Partial<
    Record<
      "compare_with" | "contains" | "metric" | "operation" | "order" | "query" | "rule_id" | "service" | "slo_id" | "trace_id",
      string
    > &
      Record<"buckets" | "limit" | "min_duration_ms" | "slower_than_ms", number> &
      Record<"error" | "over_time", boolean> & { where: readonly string[] }
  >
>;

interface ToolDescription {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  /** JSON schema of each argument. */
  readonly parameters: Readonly<Record<string, object>>;
  readonly required?: readonly string[];
}

export interface Tool extends ToolDescription {
  readonly run: (ask: Ask, given: Arguments, range: Range) => Promise<ToolAnswer>;
}

interface RouteTool<T> extends ToolDescription {
  readonly route: (given: Arguments, range: Range) => readonly [path: string, parameters?: Parameters];
  readonly answer: (found: T) => Pick<ToolAnswer, "summary" | "rows">;
  readonly link: (given: Arguments, range: Range) => string;
  readonly narrow: string;
}

/** A tool that asks one route. */
export function routeTool<T = Row[]>({ route, answer, link, narrow, ...description }: RouteTool<T>): Tool {
  return {
    ...description,
    run: async (ask, given, range) => ({
      ...answer((await ask(...route(given, range))) as T),
      link: link(given, range),
      narrow,
    }),
  };
}

/** Runs a tool with the arguments of a call, which its schema has checked. Throws ApiError, RouteError. */
export async function runTool(tool: Tool, ask: Ask, given: Row): Promise<ToolAnswer> {
  const presets = Object.entries(tool.parameters).map(([name, schema]) => [name, "default" in schema ? schema.default : undefined]);
  const sent = Object.entries(given).filter(([, value]) => value !== "" && value !== false);
  const { since, start, end, ...named } = Object.fromEntries([...presets, ...sent]) as RangeArguments & Arguments;
  return await tool.run(ask, named, readRange({ since, start, end }));
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
  since: { ...text("how far back from now, such as 15m, 1h, 24h or 7d"), default: "1h" },
  start: text("RFC 3339, instead of since"),
  end: text("RFC 3339; default now"),
};

type RangeArguments = { readonly [name in keyof typeof RANGE]?: string | undefined };

export interface Range {
  readonly start: string;
  readonly end: string;
}

/** Throws ApiError invalid_parameter. */
export function readRange({ since = RANGE.since.default, start, end }: RangeArguments): Range {
  const endMs = end ? millisecondsOf("end", end) : Date.now();
  const backMs = durationWithin(since, { maxMs: 400 * 86_400_000 });
  if (backMs === undefined) throw new ApiError("invalid_parameter", "since: write it as 15m, 24h or 7d");
  const startMs = start ? millisecondsOf("start", start) : endMs - backMs;
  return { start: new Date(startMs).toISOString(), end: new Date(endMs).toISOString() };
}

function millisecondsOf(name: string, time: string): number {
  return Number(readTime(name, time)) / 1e6;
}

export function screenLink(screen: string, query: ConsoleQuery, { start, end }: Range, id?: string): string {
  return consoleAddress(screen, { ...query, from: start, to: end }, id);
}

/** An assistant needs no more digits, and each is a token. */
export function short(value: unknown): unknown {
  return typeof value === "number" && Number.isFinite(value) ? Number(value.toPrecision(4)) : value;
}

export function shortFigures(row: Readonly<Record<string, unknown>>): Row {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, short(value)]));
}
