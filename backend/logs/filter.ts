// Which log records are meant, and as conditions on the table logs. Invariant: every value is a literal; a regular expression sees only the
// first part of a message, because the engine looks at the clock between granules of rows and not within one.
import { ApiError } from "../errors.ts";
import { type Sql, sql } from "../engines/clickhouse/sql.ts";
import { MATCHED_BYTES, MATCHED_ROWS } from "./pattern.ts";

type Pairs = readonly (readonly [key: string, value: string])[];

/** Unset fields, and empty texts, do not filter. */
export interface RecordFilter {
  readonly source?: string;
  readonly level?: string;
  /** Each is a substring of the message, any case. */
  readonly q?: readonly string[];
  /** None is. */
  readonly notQ?: readonly string[];
  /** RE2: each is found in the message. To be checked by `checkPatterns` before. */
  readonly regex?: readonly string[];
  /** None is. */
  readonly notRegex?: readonly string[];
  readonly hostId?: string;
  readonly node?: string;
  /** Lowercase hex. */
  readonly traceId?: string;
  /** Each key has this value. */
  readonly labels: Pairs;
  /** No key has this value; it may be missing. */
  readonly notLabels?: Pairs;
  /** Of the table, for what no other field says; with the rows between two looks at the clock where it costs much for each. */
  readonly also?: readonly Sql[];
  readonly alsoBlockRows?: number | undefined;
}

export function recordConditions(filter: RecordFilter): Sql[] {
  const conditions: Sql[] = [...(filter.also ?? [])];
  if (filter.source !== undefined) conditions.push(sql`source = ${filter.source}`);
  if (filter.level !== undefined) conditions.push(sql`level = ${filter.level.toLowerCase()}`);
  if (filter.hostId !== undefined) conditions.push(sql`host_id = ${filter.hostId}`);
  if (filter.node !== undefined) conditions.push(sql`node = ${filter.node}`);
  if (filter.traceId !== undefined) conditions.push(sql`trace_id = ${filter.traceId}`);
  for (const text of given(filter.q)) conditions.push(sql`positionCaseInsensitiveUTF8(message, ${text}) > 0`);
  for (const text of given(filter.notQ)) conditions.push(sql`positionCaseInsensitiveUTF8(message, ${text}) = 0`);
  for (const [key, value] of filter.labels) conditions.push(hasLabel(key, value));
  for (const [key, value] of filter.notLabels ?? []) conditions.push(sql`NOT (${hasLabel(key, value)})`);
  for (const pattern of given(filter.regex)) conditions.push(readable(pattern), found(pattern));
  for (const pattern of given(filter.notRegex)) conditions.push(readable(pattern), sql`NOT ${found(pattern)}`);
  return conditions;
}

/** Where regular expressions cost much for each row: as of Ask. */
export function blockRowsOf({ regex, notRegex, alsoBlockRows }: RecordFilter): number | undefined {
  return given(regex).length + given(notRegex).length > 0 ? MATCHED_ROWS : alsoBlockRows;
}

function given(texts: readonly string[] = []): string[] {
  return texts.filter(Boolean);
}

function hasLabel(key: string, value: string): Sql {
  return sql`mapContains(labels, ${key}) AND labels[${key}] = ${value}`;
}

function found(pattern: string): Sql {
  return sql`match(substring(message, 1, ${MATCHED_BYTES}), ${pattern})`;
}

/** Always true. The engine reads it before it looks for rows, so that what it cannot read is refused where there are none as well. */
function readable(pattern: string): Sql {
  return sql`match('', ${pattern}) IN (0, 1)`;
}

const CANNOT_COMPILE_REGEXP = "427";

/** Throws ApiError invalid_parameter naming the parameter whose regular expression the engine cannot read, else the error itself. */
export function refusePattern(error: unknown, { regex, notRegex }: RecordFilter): never {
  const { code, message = "" } = ((error as Error).cause ?? {}) as { code?: unknown; message?: string };
  if (String(code) !== CANNOT_COMPILE_REGEXP) throw error;
  const why = /, error: (.{0,200}?)\. Look at/s.exec(message)?.[1] ?? "it cannot be read";
  const isOurs = (pattern: string) => message.includes(`re2: ${pattern}, error`);
  const name = !given(regex).some(isOurs) && given(notRegex).some(isOurs) ? "not_regex" : "regex";
  throw new ApiError("invalid_parameter", `${name}: not a regular expression of RE2: ${why}`, { cause: error });
}
