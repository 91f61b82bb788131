// Translates the log query language into conditions on the logs table. Invariant: every value becomes a literal, and every regular
// expression counts towards the limits of pattern.ts. Simple conditions become fields of the filter, because the engine has indexes and
// counts for these.
import { ApiError } from "../../../errors.ts";
import { and, or, type Sql, sql } from "../../../engines/clickhouse/sql.ts";
import { attributeOf, checkSyntax, containsText, hasAttribute, type RecordFilter } from "../../../storage/logs/filter.ts";
import { type Matching, matchingOf } from "../../../storage/logs/matching.ts";
import { type Comparison, type FieldValue, type LogQuery, parseLogQuery } from "./parse.ts";
import { globExpression } from "./scan.ts";

type FieldQuery = Extract<LogQuery, { kind: "field" }>;
type SimpleField = "source" | "level" | "node" | "hostId" | "traceId";

const COLUMNS: Readonly<Record<string, { readonly column: Sql; readonly field?: SimpleField }>> = {
  level: { column: sql`level`, field: "level" },
  source: { column: sql`source`, field: "source" },
  service: { column: sql`source`, field: "source" },
  node: { column: sql`node`, field: "node" },
  host_id: { column: sql`host_id`, field: "hostId" },
  trace_id: { column: sql`trace_id`, field: "traceId" },
  span_id: { column: sql`span_id` },
  scope: { column: sql`scope_name` },
  message: { column: sql`message` },
  severity_number: { column: sql`severity_number` },
};
/** Fields whose values are compared in lower case, because they are stored so. */
const LOWER_CASE: ReadonlySet<string> = new Set(["level", "trace_id", "span_id"]);
const LABEL = /^label\.(?=.)/;
/** Levels from least to most severe, each with alternative spellings. */
const LEVELS = [
  ["trace"],
  ["debug"],
  ["info", "information"],
  ["notice"],
  ["warn", "warning"],
  ["error", "err"],
  ["critical", "crit"],
  ["fatal"],
  ["alert"],
  ["emergency", "emerg", "panic"],
];

/** The regular expressions of a query, wildcards included. Throws ApiError invalid_parameter. */
export function patternsOfLogQuery(query: string | undefined): string[] {
  const parsed = query === undefined ? undefined : parseLogQuery(query);
  return parsed ? patternsOf(parsed) : [];
}

/** The filter with the conditions of the query. Throws ApiError invalid_parameter. */
export function withLogQuery(filter: RecordFilter, query: string | undefined): RecordFilter {
  const parsed = query === undefined ? undefined : parseLogQuery(query);
  if (!parsed) return filter;
  const { simple, others } = splitConditions(parsed, filter);
  const patterns = others.flatMap(patternsOf);
  const filterPatterns = [...(filter.regex ?? []), ...(filter.notRegex ?? [])].filter(Boolean);
  const matching = matchingOf([...filterPatterns, ...patterns]);
  const conditions = [...patterns.map(checkSyntax), ...others.map((part) => conditionOf(part, matching))];
  return others.length === 0 ? simple : { ...simple, also: { conditions, matching } };
}

/** Separates conditions, joined by AND, that fields of the filter can represent from the others. */
function splitConditions(query: LogQuery, filter: RecordFilter): { simple: RecordFilter; others: LogQuery[] } {
  let simple = filter;
  const others: LogQuery[] = [];
  for (const part of query.kind === "and" ? query.parts : [query]) {
    const extended = extendFilter(simple, part);
    if (extended) simple = extended;
    else others.push(part);
  }
  return { simple, others };
}

/** Adds the condition to the filter. Undefined if no field of the filter can represent it. */
function extendFilter(filter: RecordFilter, query: LogQuery): RecordFilter | undefined {
  const isNot = query.kind === "not";
  const part = isNot ? query.part : query;
  if (part.kind === "message" && part.value.kind === "text" && part.value.text !== "")
    return isNot
      ? { ...filter, notQ: [...(filter.notQ ?? []), part.value.text] }
      : { ...filter, q: [...(filter.q ?? []), part.value.text] };
  if (part.kind !== "field" || part.comparison !== "=" || part.values.length !== 1) return undefined;
  const [value] = part.values;
  if (value?.kind !== "text") return undefined;
  const column = COLUMNS[part.name];
  if (!column) {
    const pair = [part.name.replace(LABEL, ""), value.text] as const;
    return isNot ? { ...filter, notLabels: [...(filter.notLabels ?? []), pair] } : { ...filter, labels: [...filter.labels, pair] };
  }
  if (isNot || !column.field || filter[column.field] !== undefined) return undefined;
  return { ...filter, [column.field]: normaliseCase(part.name, value.text) };
}

function conditionOf(query: LogQuery, matching: Matching): Sql {
  switch (query.kind) {
    case "and":
      return and(query.parts.map((part) => conditionOf(part, matching)));
    case "or":
      return or(query.parts.map((part) => conditionOf(part, matching)));
    case "not":
      return sql`NOT (${conditionOf(query.part, matching)})`;
    case "message":
      return messageCondition(query.value, matching);
    default:
      return query.name === "message" && query.comparison === "="
        ? or(query.values.map((value) => messageCondition(value, matching)))
        : fieldCondition(query, matching);
  }
}

function messageCondition(value: FieldValue, { matchPattern }: Matching): Sql {
  if (value.kind === "any" || isEverything(value)) return sql`1`;
  const pattern = patternOf(value, "message");
  return pattern === undefined ? containsText(value.text) : matchPattern(sql`message`, pattern, true);
}

function isEverything({ kind, text }: FieldValue): boolean {
  return text === "" || (kind === "glob" && /^\*+$/.test(text));
}

function fieldCondition({ name, comparison, values }: FieldQuery, { matchPattern }: Matching): Sql {
  const key = name.replace(LABEL, "");
  const column = COLUMNS[name]?.column;
  const [first] = values;
  if (comparison !== "=") return comparisonSql(name, column ?? attributeOf(key), comparison, first?.text ?? "");
  const texts = values.filter(({ kind }) => kind === "text").map(({ text }) => normaliseCase(name, text));
  const conditions = values.flatMap((value): Sql[] => {
    if (value.kind === "text") return [];
    if (value.kind === "any") return [column ? sql`toString(${column}) != ''` : sql`mapContains(labels, ${key})`];
    const matches = matchPattern(sql`toString(${column ?? attributeOf(key)})`, patternOf(value, name) ?? "", true);
    return [column ? matches : and([sql`mapContains(labels, ${key})`, matches])];
  });
  if (texts.length === 0) return or(conditions);
  return or([column ? sql`toString(${column}) IN ${texts}` : or(texts.map((text) => hasAttribute(key, text))), ...conditions]);
}

function comparisonSql(name: string, value: Sql, comparison: Exclude<Comparison, "=">, text: string): Sql {
  if (name === "level") {
    const levels = levelsThat(comparison, text);
    return levels.length === 0 ? sql`0` : sql`level IN ${levels}`;
  }
  const number = sql`toFloat64OrNull(toString(${value}))`;
  const limit = sql`toFloat64(${text})`;
  const holds = {
    ">": sql`${number} > ${limit}`,
    ">=": sql`${number} >= ${limit}`,
    "<": sql`${number} < ${limit}`,
    "<=": sql`${number} <= ${limit}`,
  };
  // A record without the number fails the comparison, so NOT selects it.
  return sql`ifNull(${holds[comparison]}, 0)`;
}

/** Throws ApiError invalid_parameter. */
function levelsThat(comparison: Exclude<Comparison, "=">, text: string): string[] {
  const rank = LEVELS.findIndex((names) => names.includes(text.toLowerCase()));
  if (rank === -1)
    throw new ApiError("invalid_parameter", `query: level${comparison}${text.slice(0, 40)}: not a level; for example level>=warn`);
  return LEVELS.flatMap((names, at) => ({ ">": at > rank, ">=": at >= rank, "<": at < rank, "<=": at <= rank })[comparison] ? names : []);
}

function patternsOf(query: LogQuery): string[] {
  if (query.kind === "not") return patternsOf(query.part);
  if (query.kind !== "message" && query.kind !== "field") return query.parts.flatMap(patternsOf);
  const { name, values } = query.kind === "field" ? query : { name: "message", values: [query.value] };
  return values.flatMap((value) => (isEverything(value) ? [] : (patternOf(value, name) ?? [])));
}

/** The regular expression of a value, if it has one. */
function patternOf({ kind, text }: FieldValue, name: string): string | undefined {
  if (kind === "regex") return text;
  if (kind !== "glob") return undefined;
  return globExpression(normaliseCase(name, text), { isWhole: name !== "message", anyCase: name === "message" });
}

function normaliseCase(name: string, text: string): string {
  return LOWER_CASE.has(name) ? text.toLowerCase() : text;
}
