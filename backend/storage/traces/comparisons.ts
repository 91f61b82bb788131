// Comparisons with a span's attributes, as a person writes them: `http.response.status_code>=500`, `http.route=/pay`, `!enduser.id`. Invariant:
// a comparison that cannot be read is refused with an example, never taken for another one.
import { ApiError } from "../../errors.ts";
import { type Sql, sql } from "../../engines/clickhouse/sql.ts";

const OPERATORS = ["=", "!=", ">=", "<=", ">", "<", "exists", "!exists"] as const;

export interface Comparison {
  readonly key: string;
  readonly operator: (typeof OPERATORS)[number];
  /** "" of existence. */
  readonly value: string;
}

const COMPARISON = /^(!?)([^\s!<>=]+)(?:(!=|>=|<=|=|>|<)(.*))?$/s;
const NUMBER = /^-?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?$/i;
/** In one query. */
export const MAX_COMPARISONS = 20;

/** Throws ApiError invalid_parameter naming `parameter`. */
export function readComparisons(parameter: string, texts: readonly string[]): Comparison[] {
  const refused = (message: string): ApiError => new ApiError("invalid_parameter", `${parameter}: ${message}`);
  if (texts.length > MAX_COMPARISONS) throw refused(`at most ${MAX_COMPARISONS} comparisons`);
  return texts.map((text) => {
    const [, not, key, operator, value = ""] = COMPARISON.exec(text) ?? [];
    if (key === undefined || (not === "!" && operator !== undefined))
      throw refused("write key=value, key!=value, key>=500, key (is there) or !key (is not there)");
    if (operator === undefined) return { key, operator: not === "!" ? "!exists" : "exists", value };
    if (/[<>]/.test(operator) && !NUMBER.test(value)) throw refused(`${key}${operator} needs a number, such as ${key}${operator}500`);
    return { key, operator: operator as Comparison["operator"], value };
  });
}

/** Numbers compare as numbers; `!=` also keeps spans without the attribute. */
export function comparisonCondition({ key, operator, value }: Comparison): Sql {
  const has = sql`mapContains(attributes, ${key})`;
  const number = sql`toFloat64OrNull(attributes[${key}])`;
  const bound = sql`toFloat64(${value})`;
  const conditions: Readonly<Record<Comparison["operator"], Sql>> = {
    exists: has,
    "!exists": sql`NOT ${has}`,
    "=": sql`${has} AND attributes[${key}] = ${value}`,
    "!=": sql`NOT (${has} AND attributes[${key}] = ${value})`,
    ">=": sql`ifNull(${number} >= ${bound}, 0)`,
    "<=": sql`ifNull(${number} <= ${bound}, 0)`,
    ">": sql`ifNull(${number} > ${bound}, 0)`,
    "<": sql`ifNull(${number} < ${bound}, 0)`,
  };
  return conditions[operator];
}
