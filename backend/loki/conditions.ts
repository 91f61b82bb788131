// What the engine answers of a query by itself: the selector, and the filters that ask nothing but the stored line and labels. Invariant: a
// filter is given to the engine only where it means there exactly what it means in pipeline.ts. Rows are read as `matching` says.
import { type Sql, sql, and } from "../engines/clickhouse/sql.ts";
import { type Matching, matchingOf, NO_MATCHING } from "../logs/matching.ts";
import { STABLE_LABELS, STREAM_LABELS, withoutAside } from "./label-names.ts";
import { anchored, plainValues } from "./regex.ts";
import type { LabelFilter, LineFilter, LogQuery, Matcher, Stage } from "./syntax.ts";

export interface Pushed {
  readonly conditions: readonly Sql[];
  /** What is left to do for each record. */
  readonly rest: readonly Stage[];
  readonly matching: Matching;
}

const COLUMNS: Readonly<Record<string, Sql>> = {
  service_name: sql`source`,
  host_id: sql`host_id`,
  node: sql`node`,
};
const BELOW_ATTRIBUTE = new Set(["level", "detected_level"]);
const ABOVE_ATTRIBUTE: Readonly<Record<string, Sql>> = {
  trace_id: sql`trace_id`,
  span_id: sql`span_id`,
  scope_name: sql`scope_name`,
  severity_number: sql`if(severity_number > 0, toString(severity_number), '')`,
};

/** The value of a label; empty where there is none. */
export function labelValue(name: string): Sql {
  const column = COLUMNS[name];
  if (column) return sql`toString(${column})`;
  if (BELOW_ATTRIBUTE.has(name)) return sql`if(labels[${name}] != '', labels[${name}], toString(level))`;
  const other = ABOVE_ATTRIBUTE[name];
  if (other) return sql`if(${other} != '', toString(${other}), ${attribute(name)})`;
  const key = STREAM_LABELS.get(name);
  if (key !== undefined) return sql`if(labels[${key}] != '', labels[${key}], ${attribute(name)})`;
  return attribute(name);
}

/** As labelName has it; evaluated for each key that is met, not for each record. */
const KEY_NAME = sql`replaceRegexpAll(replaceRegexpOne(key, '^([0-9])', '_\\\\1'), '[^a-zA-Z0-9_]', '_')`;

function attribute(name: string): Sql {
  // No other key becomes this name.
  if (!/[_:]/.test(name)) return sql`labels[${name}]`;
  const aside = withoutAside(name);
  const isAside = aside !== undefined && COLUMNS[aside] !== undefined;
  const names = isAside ? [name, aside] : [name];
  return sql`arrayFirst((value, key) -> ${KEY_NAME} IN ${names} AND value != '', mapValues(labels), mapKeys(labels))`;
}

export function push(query: LogQuery): Pushed {
  const matching = matchingOf(patternsOf(query));
  return { ...pushed(query, matching.found), matching };
}

/** What any of them selects, in one statement. */
export function selectAny(queries: readonly LogQuery[]): { readonly where: Sql; readonly matching: Matching } {
  const matching = matchingOf(queries.flatMap(patternsOf));
  return { where: or(queries.map((query) => and(pushed(query, matching.found).conditions))), matching };
}

type Found = Matching["found"];

/** What the engine is to match. */
function patternsOf(query: LogQuery): string[] {
  const patterns: string[] = [];
  pushed(query, (text, pattern, isWanted) => {
    patterns.push(pattern);
    return NO_MATCHING.found(text, pattern, isWanted);
  });
  return patterns;
}

function pushed({ selector, stages }: LogQuery, found: Found): Omit<Pushed, "matching"> {
  const conditions = selector.map((matcher) => matches(matcher, found));
  const rest: Stage[] = [];
  let [hasLine, hasLabels, isParsed] = [true, true, false];
  for (const stage of stages) {
    const condition =
      stage.kind === "line_filter" && hasLine
        ? lineCondition(stage, found)
        : stage.kind === "label_filter" && hasLabels
          ? filterCondition(stage.filter, isParsed, found)
          : undefined;
    if (condition) conditions.push(condition);
    else rest.push(stage);
    hasLine &&= !["line_format", "unpack", "decolorize"].includes(stage.kind);
    hasLabels &&= !["label_format", "drop", "keep"].includes(stage.kind);
    isParsed ||= ["json", "logfmt", "regexp", "pattern", "unpack"].includes(stage.kind);
  }
  return { conditions, rest };
}

function matches({ name, operator, value }: Matcher, found: Found): Sql {
  const given = labelValue(name);
  const isNot = operator.startsWith("!");
  if (operator === "=" || operator === "!=") return isNot ? sql`${given} != ${value}` : sql`${given} = ${value}`;
  if (value === ".*") return isNot ? sql`0` : sql`1`;
  if (value === ".+") return isNot ? sql`${given} = ''` : sql`${given} != ''`;
  const values = plainValues(value);
  if (values) return isNot ? sql`${given} NOT IN ${values}` : sql`${given} IN ${values}`;
  return found(given, anchored(value), !isNot);
}

function lineCondition({ operator, texts }: LineFilter, found: Found): Sql | undefined {
  if (operator === "|>" || operator === "!>") return undefined;
  const isWanted = operator.startsWith("|");
  const isText = operator === "|=" || operator === "!=";
  const conditions = texts.map((text) => {
    // A dot is no line break here, as in Go.
    if (!isText) return found(sql`message`, `(?-s:${text})`, isWanted);
    if (text === "") return isWanted ? sql`1` : sql`0`;
    return isWanted ? sql`position(message, ${text}) > 0` : sql`NOT (position(message, ${text}) > 0)`;
  });
  return isWanted ? or(conditions) : and(conditions);
}

function or(conditions: readonly Sql[]): Sql {
  return conditions.reduce((left, right) => sql`(${left}) OR (${right})`);
}

function filterCondition(filter: LabelFilter, isParsed: boolean, found: Found): Sql | undefined {
  if (filter.kind === "match") {
    const { name } = filter.matcher;
    return name.startsWith("__error") || (isParsed && !STABLE_LABELS.has(name)) ? undefined : matches(filter.matcher, found);
  }
  if (filter.kind === "compare") return undefined;
  const [left, right] = [filterCondition(filter.left, isParsed, found), filterCondition(filter.right, isParsed, found)];
  if (!left || !right) return undefined;
  return filter.kind === "and" ? and([left, right]) : or([left, right]);
}
