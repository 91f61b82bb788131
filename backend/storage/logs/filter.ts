// Translates a filter of log records into SQL conditions on the logs table. Invariant: every value becomes a literal. Regular expressions
// are matched as matching.ts decides, which also chooses the FROM clause.
import { ApiError } from "../../errors.ts";
import { refusedExpression } from "../../engines/clickhouse/engine.ts";
import { Sql, sql } from "../../engines/clickhouse/sql.ts";
import { type Matching, matchingOf } from "./matching.ts";
import { hasWords, withHints, wordsOf } from "./words.ts";

const WITH_COLUMN: ReadonlySet<string> = new Set([
  "http.route",
  "http.request.method",
  "http.response.status_code",
  "k8s.namespace.name",
  "k8s.pod.name",
  "k8s.container.name",
]);

/** The value of an attribute, a String or a LowCardinality(String); empty if the record does not have the attribute. */
export function attributeOf(key: string): Sql {
  return WITH_COLUMN.has(key) ? new Sql(columnOf(key)) : sql`labels[${key}]`;
}

/** The record has the attribute with this value. */
export function hasAttribute(key: string, value: string): Sql {
  if (WITH_COLUMN.has(key) && value !== "") return sql`${new Sql(columnOf(key))} = ${value}`;
  return sql`mapContains(labels, ${key}) AND labels[${key}] = ${value}`;
}

function columnOf(key: string): string {
  return `attribute_${key.replaceAll(".", "_")}`;
}

type Pairs = readonly (readonly [key: string, value: string])[];

/** Unset fields and empty texts do not filter. */
export interface RecordFilter {
  readonly source?: string;
  readonly level?: string;
  /** All words of all texts occur in the message; the case of ASCII letters is ignored. */
  readonly words?: readonly string[];
  /** Each text is a substring of the message. Case is ignored: if the text is ASCII, of ASCII letters only. */
  readonly q?: readonly string[];
  /** None of these texts is a substring of the message. */
  readonly notQ?: readonly string[];
  /** RE2: each expression matches the message. The caller checks them with `checkPatterns` first. */
  readonly regex?: readonly string[];
  /** None of these expressions matches the message. */
  readonly notRegex?: readonly string[];
  readonly hostId?: string;
  readonly node?: string;
  /** Lowercase hex. */
  readonly traceId?: string;
  /** Each key has the given value. */
  readonly labels: Pairs;
  /** No key has the given value; a missing key is fine. */
  readonly notLabels?: Pairs;
  /** Conditions that no other field expresses, and how their expressions are matched. If set, `regex` and `notRegex` are unset. */
  readonly also?: { readonly conditions: readonly Sql[]; readonly matching: Matching };
}

export function recordConditions(filter: RecordFilter): Sql[] {
  const conditions: Sql[] = [...(filter.also?.conditions ?? [])];
  const { matchPattern } = matchingIn(filter);
  if (filter.source !== undefined) conditions.push(sql`source = ${filter.source}`);
  if (filter.level !== undefined) conditions.push(sql`level = ${filter.level.toLowerCase()}`);
  if (filter.hostId !== undefined) conditions.push(sql`host_id = ${filter.hostId}`);
  if (filter.node !== undefined) conditions.push(sql`node = ${filter.node}`);
  if (filter.traceId !== undefined) conditions.push(sql`trace_id = ${filter.traceId}`);
  const words = nonEmpty(filter.words).flatMap(wordsOf);
  if (words.length > 0) conditions.push(hasWords(words));
  for (const text of nonEmpty(filter.q)) conditions.push(containsText(text));
  for (const text of nonEmpty(filter.notQ)) conditions.push(sql`NOT (${substring(text)})`);
  for (const [key, value] of filter.labels) conditions.push(hasAttribute(key, value));
  for (const [key, value] of filter.notLabels ?? []) conditions.push(sql`NOT (${hasAttribute(key, value)})`);
  for (const pattern of nonEmpty(filter.regex)) conditions.push(checkSyntax(pattern), matchPattern(MESSAGE, pattern, true));
  for (const pattern of nonEmpty(filter.notRegex)) conditions.push(checkSyntax(pattern), matchPattern(MESSAGE, pattern, false));
  return conditions;
}

/** How the regular expressions of a filter are matched. */
export function matchingIn({ regex, notRegex, also }: RecordFilter): Matching {
  return also?.matching ?? matchingOf([...nonEmpty(regex), ...nonEmpty(notRegex)]);
}

const MESSAGE = sql`message`;

/** The message contains the text; case is ignored as for `q`. */
export function containsText(text: string): Sql {
  return isAscii(text) ? withHints(text, substring(text)) : substring(text);
}

/** The function for ASCII folds no other characters into ASCII letters, so words of the text are words of the message, ignoring case. */
function substring(text: string): Sql {
  const position = isAscii(text) ? sql`positionCaseInsensitive` : sql`positionCaseInsensitiveUTF8`;
  return sql`${position}(message, ${text}) > 0`;
}

function isAscii(text: string): boolean {
  return /^[\0-\x7f]*$/.test(text);
}

function nonEmpty(texts: readonly string[] = []): string[] {
  return texts.filter(Boolean);
}

/** Always true. The engine evaluates it before it reads rows, so an invalid expression is refused even if no row would be read. */
export function checkSyntax(pattern: string): Sql {
  return sql`match('', ${pattern}) IN (0, 1)`;
}

/** Throws ApiError invalid_parameter that names the parameter if its regular expression is refused; otherwise the error itself. */
export function refusePattern(error: unknown, { regex, notRegex }: RecordFilter): never {
  const refused = refusedExpression(error);
  if (!refused) throw error;
  const { message, reason } = refused;
  const isOurs = (pattern: string) => message.includes(`re2: ${pattern}, error`);
  const name = nonEmpty(regex).some(isOurs) ? "regex" : nonEmpty(notRegex).some(isOurs) ? "not_regex" : "query";
  throw new ApiError("invalid_parameter", `${name}: not a regular expression of RE2: ${reason}`, { cause: error });
}
