// Parses the parameters of Jaeger's search for traces as Jaeger does: unknown parameters are ignored. Invariant: a filter that cannot be
// parsed is rejected by name, because without it the search would find too much.
import { createParameterError } from "../../errors.ts";
import type { SpanColumn, SpanConditions, TraceFilter } from "../../storage/traces/search.ts";
import { MAX_COMPARED_TRACES, MAX_TRACES } from "../query-limits.ts";

export interface JaegerParameters {
  traceID?: string | string[];
  service?: string;
  operation?: string;
  tags?: string;
  /** `key:value`. */
  tag?: string | string[];
  minDuration?: string;
  maxDuration?: string;
  limit?: string;
  start?: string;
  end?: string;
  lookback?: string;
}

const DEFAULT_LIMIT = 20;
const HOUR_NS = 3_600_000_000_000n;
const text = (description: string) => ({ type: "string", description });

/** Summaries of the routes of both APIs. */
export const FOUND_TRACES = "traces, newest first, each with its first 100 spans, or with its first one if that is more than 16 MiB";
export const ONE_TRACE = "one trace; beyond 10,000 spans or 8 MiB it is cut, with a warning";

/** Each parameter is validated below, because some have several forms. */
export const JAEGER_PARAMETERS = {
  traceID: { type: "array", items: { type: "string" }, description: "ids of traces: these whole traces, and no others" },
  service: text("service.name of the sender"),
  operation: text("name of the span"),
  tags: text('a JSON object with string values; attributes, and error, span.kind, otel.status_code, …: {"error":"true"}'),
  tag: { type: "array", items: { type: "string" }, description: "one attribute, such as error:true; repeatable" },
  minDuration: text("of the span, such as 1.2s, 100ms or 500us"),
  maxDuration: text("of the span, such as 1.2s, 100ms or 500us"),
  limit: text(`traces; ${DEFAULT_LIMIT} by default, above ${MAX_TRACES} counts as ${MAX_TRACES}`),
  start: text("microseconds since 1970; default one hour before the end"),
  end: text("microseconds since 1970; default now"),
  lookback: text("ignored: Jaeger's own page sends it together with start"),
} as const;

/** Throws ApiError invalid_parameter that names the parameter. */
export function readJaegerSearch(parameters: JaegerParameters, now: Date): TraceFilter {
  const single = Object.keys(JAEGER_PARAMETERS).filter((name) => name !== "tag" && name !== "traceID");
  const repeated = single.find((name) => Array.isArray((parameters as Record<string, unknown>)[name]));
  if (repeated !== undefined) throw createParameterError(repeated, "is given more than once");
  const end = nanoseconds("end", parameters.end) ?? BigInt(now.getTime()) * 1_000_000n + 999_999n;
  const start = nanoseconds("start", parameters.start) ?? (end > HOUR_NS ? end - HOUR_NS : 0n);
  const span: SpanConditions = {
    service: parameters.service || undefined,
    operation: parameters.operation || undefined,
    minDurationNs: duration("minDuration", parameters.minDuration),
    maxDurationNs: duration("maxDuration", parameters.maxDuration),
    ...readTags([...parseTags("tags", parameters.tags), ...[parameters.tag ?? []].flat().map(parseTag)]),
  };
  return { range: { start, end }, limit: readLimit("limit", parameters.limit), after: undefined, span };
}

export function readLimit(name: string, value: string | undefined, byDefault = DEFAULT_LIMIT): number {
  if (!value) return byDefault;
  if (!/^0*[1-9]\d{0,8}$/.test(value)) throw createParameterError(name, "must be a whole number of at least 1");
  return Math.min(Number(value), MAX_TRACES);
}

/** The engine's times end in 2262. */
const MAX_NS = 9_223_372_036_000_000_000n;

function nanoseconds(name: string, value: string | undefined): bigint | undefined {
  if (!value) return undefined;
  if (!/^\d{1,19}$/.test(value)) throw createParameterError(name, "must be microseconds since 1970, in digits");
  const ns = BigInt(value) * 1000n;
  return ns > MAX_NS ? MAX_NS : ns;
}

/** Older clients omit leading zeros. */
export const TRACE_ID_PARAMETER = {
  type: "string",
  pattern: "^[0-9a-fA-F]{1,32}$",
  description: "up to 32 hex digits, in upper or lower case",
};

/** The ids in their stored form; none if there is none. Throws ApiError invalid_parameter. */
export function readTraceIds({ traceID = [] }: JaegerParameters): string[] {
  const ids = [traceID].flat();
  if (ids.length > MAX_COMPARED_TRACES || !ids.every((id) => new RegExp(TRACE_ID_PARAMETER.pattern).test(id)))
    throw createParameterError("traceID", `must be up to 32 hex digits, and at most ${MAX_COMPARED_TRACES} ids`);
  return ids.map(readTraceId);
}

/** The id in its stored form. */
export function readTraceId(value: string): string {
  return value.toLowerCase().padStart(32, "0");
}

/** Throws ApiError invalid_parameter that names the parameter. */
export function milliseconds(name: string, value: string | undefined): number | undefined {
  if (!value) return undefined;
  if (!/^\d{1,15}$/.test(value)) throw createParameterError(name, "must be milliseconds in digits");
  return Math.min(Number(value), Number(MAX_NS / 1_000_000n));
}

/** The units of Go's durations. */
const UNITS_NS: Readonly<Record<string, number>> = { ns: 1, us: 1e3, µs: 1e3, μs: 1e3, ms: 1e6, s: 1e9, m: 60e9, h: 3600e9 };
const PART = /(\d{1,12}(?:\.\d{1,12})?)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)/g;

export function duration(name: string, value: string | undefined): bigint | undefined {
  if (!value) return undefined;
  const parts = [...value.matchAll(PART)];
  const isWhole = parts.length > 0 && parts.length <= 8 && parts.map(([part]) => part).join("") === value;
  const ns = parts.reduce((sum, [, value, unit = ""]) => sum + Number(value) * (UNITS_NS[unit] ?? Number.NaN), 0);
  if (!isWhole || !(ns <= Number(MAX_NS))) throw createParameterError(name, "must be a duration such as 1.2s, 100ms or 500us");
  return BigInt(Math.round(ns));
}

/** Tags of Jaeger that are stored as columns, not as attributes. */
const COLUMN_OF: Readonly<Record<string, SpanColumn>> = {
  "span.kind": "kind",
  "otel.status_code": "status_code",
  "otel.status_description": "status_message",
  "otel.scope.name": "scope_name",
  "otel.scope.version": "scope_version",
  "w3c.tracestate": "trace_state",
};
const IN_CAPITALS = new Set<SpanColumn>(["kind", "status_code"]);

export function readTags(tags: readonly Tag[]): Pick<SpanConditions, "error" | "columns" | "attributes"> {
  const columns: [SpanColumn, string][] = [];
  const attributes: [string, string][] = [];
  let error: boolean | undefined;
  for (const [key, value] of tags) {
    const column = Object.hasOwn(COLUMN_OF, key) ? COLUMN_OF[key] : undefined;
    if (key === "error" && (value === "true" || value === "false")) error = value === "true";
    else if (column) columns.push([column, IN_CAPITALS.has(column) ? value.toUpperCase() : value]);
    else attributes.push([key, value]);
  }
  return { error, columns, attributes };
}

type Tag = [key: string, value: string];

function parseTag(value: string): Tag {
  const colon = value.indexOf(":");
  if (colon < 1) throw createParameterError("tag", "must be key:value, such as error:true");
  return [value.slice(0, colon), value.slice(colon + 1)];
}

export function parseTags(name: string, value: string | undefined): Tag[] {
  if (!value) return [];
  if (/^[^\s{[="]+=/.test(value)) return parseLogfmt(value);
  const tags = parseJson(name, value);
  if (typeof tags !== "object" || tags === null || Array.isArray(tags)) throw createTagsError(name);
  return Object.entries(tags).map(([key, value]: [string, unknown]) => {
    if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean") throw createTagsError(name);
    return [key, String(value)];
  });
}

/** Parses `error=true http.method="GET /"`. */
function parseLogfmt(value: string): Tag[] {
  const pairs = value.matchAll(/(?:^|\s)([^\s="]+)=(?:"([^"]*)"|(\S*))/g);
  return [...pairs].map(([, key = "", quoted, plain = ""]): Tag => [key, quoted ?? plain]);
}

function parseJson(name: string, value: string): unknown {
  try {
    return JSON.parse(value);
  } catch (cause) {
    throw createTagsError(name, cause);
  }
}

const createTagsError = (name: string, cause?: unknown) =>
  createParameterError(name, 'must be a JSON object with string values, such as {"http.status_code":"500"}, or logfmt', cause);
