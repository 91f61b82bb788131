// Translates the parts of a query that the engine can evaluate into SQL: the selector, and the filters that only use the stored line and
// labels. Rows are read as `matching` defines. Invariant: a filter is passed to the engine only if it has exactly the same meaning in
// ClickHouse as in pipeline.ts.
import { and, or, type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { type Matching, matchingOf, NO_MATCHING } from "../../storage/logs/matching.ts";
import { withHints } from "../../storage/logs/words.ts";
import { STABLE_LABELS } from "./entry.ts";
import { ANY_KEYS, type KeysOf, labelValue } from "./label-sql.ts";
import { anchored, plainValues } from "./regex.ts";
import type { LabelFilter, LineFilter, LogQuery, Matcher, Stage } from "./syntax.ts";

/** What the engine evaluates of a query, and what remains. */
export interface PushedDown {
  readonly conditions: readonly Sql[];
  /** The stages that remain to be run for each record. */
  readonly rest: readonly Stage[];
  readonly matching: Matching;
}

export function mayDropRecords(stages: readonly Stage[]): boolean {
  return stages.some(({ kind }) => kind === "line_filter" || kind === "label_filter");
}

/** `keysOf`: the attribute keys of labels, if they were looked up. */
export function pushDown(query: LogQuery, keysOf: KeysOf = ANY_KEYS): PushedDown {
  const matching = matchingOf(patternsOf(query));
  return { ...translate(query, { matchPattern: matching.matchPattern, keysOf }), matching };
}

/** Selects the records of any of the queries in one statement. */
export function selectAny(queries: readonly LogQuery[]): { readonly where: Sql; readonly matching: Matching } {
  const matching = matchingOf(queries.flatMap(patternsOf));
  return {
    where: or(queries.map((query) => and(translate(query, { matchPattern: matching.matchPattern, keysOf: ANY_KEYS }).conditions))),
    matching,
  };
}

interface Context extends Pick<Matching, "matchPattern"> {
  readonly keysOf: KeysOf;
}

/** The regular expressions that the engine has to match. */
function patternsOf(query: LogQuery): string[] {
  const patterns: string[] = [];
  const matchPattern: Matching["matchPattern"] = (text, pattern, isWanted) => {
    patterns.push(pattern);
    return NO_MATCHING.matchPattern(text, pattern, isWanted);
  };
  translate(query, { matchPattern, keysOf: ANY_KEYS });
  return patterns;
}

function translate({ selector, stages }: LogQuery, context: Context): Omit<PushedDown, "matching"> {
  const conditions = selector.map((matcher) => matches(matcher, context));
  const rest: Stage[] = [];
  let [hasLine, hasLabels, isParsed] = [true, true, false];
  for (const stage of stages) {
    const condition =
      stage.kind === "line_filter" && hasLine
        ? lineCondition(stage, context)
        : stage.kind === "label_filter" && hasLabels
          ? filterCondition(stage.filter, isParsed, context)
          : undefined;
    if (condition) conditions.push(condition);
    else rest.push(stage);
    hasLine &&= !["line_format", "unpack", "decolorize"].includes(stage.kind);
    hasLabels &&= !["label_format", "drop", "keep"].includes(stage.kind);
    isParsed ||= ["json", "logfmt", "regexp", "pattern", "unpack"].includes(stage.kind);
  }
  return { conditions, rest };
}

function matches(matcher: Matcher, { matchPattern, keysOf }: Context): Sql {
  return valueMatches(labelValue(matcher.name, keysOf), matcher, matchPattern);
}

export function valueMatches(label: Sql, { operator, value }: Matcher, matchPattern: Matching["matchPattern"]): Sql {
  const isNot = operator.startsWith("!");
  if (operator === "=" || operator === "!=") return isNot ? sql`${label} != ${value}` : sql`${label} = ${value}`;
  if (value === ".*") return isNot ? sql`0` : sql`1`;
  // Every record has a service name.
  if (value === ".+" && label.text === "source") return isNot ? sql`0` : sql`1`;
  if (value === ".+") return isNot ? sql`${label} = ''` : sql`${label} != ''`;
  const values = plainValues(value);
  if (values) return isNot ? sql`${label} NOT IN ${values}` : sql`${label} IN ${values}`;
  return matchPattern(label, anchored(value), !isNot);
}

function lineCondition({ operator, texts }: LineFilter, { matchPattern }: Context): Sql | undefined {
  if (operator === "|>" || operator === "!>") return undefined;
  const isWanted = operator.startsWith("|");
  const isText = operator === "|=" || operator === "!=";
  const conditions = texts.map((text) => {
    // A dot does not match a line break, as in Go.
    if (!isText) return matchPattern(sql`message`, `(?-s:${text})`, isWanted);
    if (text === "") return isWanted ? sql`1` : sql`0`;
    const contains = sql`position(message, ${text}) > 0`;
    return isWanted ? withHints(text, contains) : sql`NOT (${contains})`;
  });
  return isWanted ? or(conditions) : and(conditions);
}

function filterCondition(filter: LabelFilter, isParsed: boolean, context: Context): Sql | undefined {
  if (filter.kind === "match") {
    const { name } = filter.matcher;
    return name.startsWith("__error") || (isParsed && !STABLE_LABELS.has(name)) ? undefined : matches(filter.matcher, context);
  }
  if (filter.kind === "compare") return undefined;
  const [left, right] = [filterCondition(filter.left, isParsed, context), filterCondition(filter.right, isParsed, context)];
  if (!left || !right) return undefined;
  return filter.kind === "and" ? and([left, right]) : or([left, right]);
}
