// Reads the query parameters that logs and traces share (range, limit, cursor) and builds the Link to the next page. Invariants: a page
// starts exactly after the last row of the previous one in the order (time, id); nanoseconds are digits or bigint, never doubles.
import type { FastifyRequest } from "fastify";
import { MAX_TIME_NS, parseTime } from "../../common/time.ts";
import { and, type Sql, sql } from "../engines/clickhouse/sql.ts";
import { ApiError } from "../errors.ts";
import { parametersOf } from "../http/query-string.ts";
import { MAX_LIMIT } from "./storage-limits.ts";

export const DEFAULT_LIMIT = 100;
const DEFAULT_WINDOW_NS = 3_600_000_000_000n;

/** Both ends inclusive, nanoseconds since 1970; undefined: unbounded. */
export interface TimeRange {
  readonly start: bigint | undefined;
  readonly end: bigint | undefined;
}

/** Both ends inclusive, nanoseconds since 1970. */
export interface TimeSpan {
  readonly start: bigint;
  readonly end: bigint;
}

/** Two ranges to compare. */
export interface ComparedRanges {
  readonly before: TimeSpan;
  readonly now: TimeSpan;
}

/** The position of a row in the order of its page. */
export interface Cursor {
  readonly time: bigint;
  readonly id: bigint;
}

export interface Page {
  readonly range: TimeRange;
  readonly limit: number;
  /** Rows come after this one. */
  readonly after: Cursor | undefined;
  /** Unset: newest first. */
  readonly oldestFirst?: boolean;
}

export interface PageResult {
  /** An array of rows in JSON. */
  readonly json: Buffer;
  /** The position of the last row if there are more rows. */
  readonly next: Cursor | undefined;
  /** No row was found. */
  readonly isEmpty?: boolean;
}

export interface PageParameters {
  start?: string;
  end?: string;
  limit?: number;
  cursor?: string;
}

/** Schemas of the parameters; `readPage` checks what a schema cannot express. */
export const PAGE_PARAMETERS = {
  start: { type: "string", description: "RFC 3339, inclusive; default 1 hour before now", examples: ["2026-01-31T12:00:00Z"] },
  end: { type: "string", description: "RFC 3339, inclusive; default now" },
  limit: { type: "integer", minimum: 1, default: DEFAULT_LIMIT, description: `rows of a page; above ${MAX_LIMIT} counts as ${MAX_LIMIT}` },
  cursor: { type: "string", description: 'opaque; from the Link header with rel="next"' },
} as const;

/** Throws ApiError invalid_parameter that names the parameter. `unbounded`: without start and end, the whole time is searched. */
export function readPage(request: FastifyRequest<{ Querystring: PageParameters }>, now: Date, unbounded = false): Page {
  const parameters = request.query;
  const limit = parametersOf(request).get("limit");
  // The schema accepts everything that JavaScript converts to a number.
  if (limit !== null && !/^\d+$/.test(limit)) throw new ApiError("invalid_parameter", "limit: must be digits");
  const whole = unbounded && parameters.start === undefined && parameters.end === undefined;
  const nowNs = BigInt(now.getTime()) * 1_000_000n + 999_999n;
  return {
    range: whole
      ? { start: undefined, end: undefined }
      : {
          start: parameters.start === undefined ? nowNs - DEFAULT_WINDOW_NS : readTime("start", parameters.start),
          end: parameters.end === undefined ? nowNs : readTime("end", parameters.end),
        },
    limit: Math.min(parameters.limit ?? DEFAULT_LIMIT, MAX_LIMIT),
    after: parameters.cursor === undefined ? undefined : readCursor(parameters.cursor),
  };
}

/** Conditions on the columns `time` and `id`. The cursor's time is repeated as its own condition, so that partitions are skipped. */
export function pageConditions({
  range,
  after,
  oldestFirst = false,
}: Pick<Page, "range" | "oldestFirst"> & Partial<Pick<Page, "after">>): Sql[] {
  const conditions: Sql[] = [];
  if (range.start !== undefined) conditions.push(sql`time >= ${nanoseconds(range.start)}`);
  if (range.end !== undefined) conditions.push(sql`time <= ${nanoseconds(range.end)}`);
  if (after) {
    const at = nanoseconds(after.time);
    conditions.push(
      oldestFirst
        ? and([sql`time >= ${at}`, sql`time > ${at} OR id > ${after.id}`])
        : and([sql`time <= ${at}`, sql`time < ${at} OR id < ${after.id}`]),
    );
  }
  return conditions;
}

/** Converts nanoseconds since 1970 to the type of the column. */
export function nanoseconds(time: bigint): Sql {
  return sql`fromUnixTimestamp64Nano(toInt64(${time}), 'UTC')`;
}

/** The value of the Link header for the page after `last`. It contains the range as times, so that "now" keeps its meaning. */
export function nextLink(request: FastifyRequest, page: Page, last: Cursor): string {
  const [path = ""] = request.url.split("?", 1);
  const parameters = parametersOf(request);
  if (page.range.start !== undefined) parameters.set("start", formatTime(page.range.start));
  if (page.range.end !== undefined) parameters.set("end", formatTime(page.range.end));
  parameters.set("cursor", Buffer.from(`${last.time}.${last.id}`).toString("base64url"));
  return `<${path}?${parameters.toString()}>; rel="next"`;
}

/** Throws ApiError invalid_parameter that names the parameter. */
export function readCursor(text: string): Cursor {
  const match = /^(\d{1,19})\.(\d{1,20})$/.exec(Buffer.from(text, "base64url").toString("latin1"));
  if (!match || BigInt(match[1] as string) > MAX_TIME_NS || BigInt(match[2] as string) > MAX_ID) {
    throw new ApiError("invalid_parameter", 'cursor: not one of ours; take it from the Link header with rel="next"');
  }
  return { time: BigInt(match[1] as string), id: BigInt(match[2] as string) };
}

const MAX_ID = 18_446_744_073_709_551_615n;
/** A time in RFC 3339 to nanoseconds since 1970, as `parseTime` does. Throws ApiError invalid_parameter that names the parameter. */
export function readTime(name: string, text: string, otherForms = ""): bigint {
  const time = parseTime(text);
  if (time === undefined) throw new ApiError("invalid_parameter", `${name}: must be ${otherForms}RFC 3339, such as 2026-01-31T12:00:00Z`);
  return time;
}

/** RFC 3339, UTC, always 9 fraction digits. */
export function formatTime(time: bigint): string {
  const second = new Date(Number(time / 1_000_000_000n) * 1000).toISOString().slice(0, 19);
  return `${second}.${String(time % 1_000_000_000n).padStart(9, "0")}Z`;
}
