// Numbers, durations and sizes in the text of a label, read by SQL. Invariant: `isPlain` holds only for texts that `convert` of literals.ts
// reads as the same number, and `isNone` only for texts that it does not read.
import { type Sql, sql } from "../../engines/clickhouse/sql.ts";
import type { Conversion } from "./syntax.ts";

export interface NumberSql {
  readonly isPlain: Sql;
  /** Zero where the text is not plain. */
  readonly value: Sql;
  /** The text may be a number in a form that only JavaScript reads, such as 0x1p-2. */
  readonly isOther: Sql;
  /** Neither: it is no number. */
  readonly isNone: Sql;
}

const PLAIN_NUMBER = "^[+-]?(?:[0-9]{1,40}(?:[.][0-9]{1,40})?|[.][0-9]{1,40})(?:[eE][+-]?[0-9]{1,2})?$";
const ANY_NUMBER = "(?i)^[+-]?(?:[0-9.]+(?:e[+-]?[0-9]+)?|inf|infinity|nan|0x[0-9a-f.]*p[+-]?[0-9]+)$";

// Few digits and parts: the nanoseconds fit into 64 bits.
const PLAIN_DURATION = "^[+-]?(?:[0-9]{1,5}(?:[.][0-9]{0,15})?(?:ns|us|\u00b5s|\u03bcs|ms|s|m|h)){1,4}$";
const ANY_DURATION = "^[+-]?(?:0|(?:[0-9.]+(?:ns|us|\u00b5s|\u03bcs|ms|s|m|h))+)$";
const DURATION_PART = "([0-9]{1,5})[.]?([0-9]{0,15})(ns|us|\u00b5s|\u03bcs|ms|s|m|h)";
const DURATION_UNITS = ["ns", "us", "\u00b5s", "\u03bcs", "ms", "s", "m", "h"];

const PLAIN_SIZE = "(?i)^[0-9]{1,15}(?:[.][0-9]{1,15})? ?(?:[kmgtpe]i?)?b?$";
const ANY_SIZE = "^[^0-9a-zA-Z]*[0-9.,]+[^0-9a-zA-Z]*[a-zA-Z]*[^0-9a-zA-Z]*$";
const SIZE_UNITS = ["", "k", "m", "g", "t", "p", "e", "ki", "mi", "gi", "ti", "pi", "ei"];

/** `text`: not empty. */
export function numberSql(text: Sql, conversion: Conversion): NumberSql {
  const [plain, any] = { number: [PLAIN_NUMBER, ANY_NUMBER], duration: [PLAIN_DURATION, ANY_DURATION], bytes: [PLAIN_SIZE, ANY_SIZE] }[
    conversion
  ] as [string, string];
  const isPlain = sql`match(${text}, ${plain})`;
  const isAny = sql`match(${text}, ${any})`;
  return {
    isPlain,
    value: sql`if(${isPlain}, ${VALUES[conversion](text)}, 0.)`,
    isOther: sql`(${isAny} AND NOT ${isPlain})`,
    isNone: sql`(NOT ${isAny})`,
  };
}

const VALUES: Readonly<Record<Conversion, (text: Sql) => Sql>> = {
  number: (text) => sql`toFloat64OrZero(${text})`,
  duration: (text) => {
    const unit = sql`transform(part[3], ${DURATION_UNITS}, [1, 1000, 1000, 1000, 1000000, 1000000000, 60000000000, 3600000000000], 0)`;
    const fraction = sql`toInt64(trunc(toFloat64OrZero(concat('0.', part[2], '0')) * ${unit}))`;
    const parts = sql`extractAllGroupsVertical(${text}, ${DURATION_PART})`;
    const ns = sql`arraySum(part -> toInt64OrZero(part[1]) * toInt64(${unit}) + ${fraction}, ${parts})`;
    return sql`(if(startsWith(${text}, '-'), -1, 1) * toFloat64(${ns}) / 1e9)`;
  },
  bytes: (text) => {
    const unit = sql`lower(replaceRegexpOne(${text}, '(?i)^[0-9.]+ ?([kmgtpe]?i?)b?$', '\\\\1'))`;
    const factors = [0, 1, 2, 3, 4, 5, 6].map((power) => 1000n ** BigInt(power));
    const binary = [1, 2, 3, 4, 5, 6].map((power) => 1024n ** BigInt(power));
    const list = [...factors, ...binary].map((factor) => sql`${factor}`).reduce((left, right) => sql`${left}, ${right}`);
    return sql`trunc(toFloat64OrZero(extract(${text}, '^[0-9.]+')) * toFloat64(transform(${unit}, ${SIZE_UNITS}, [${list}], 0)))`;
  },
};

/** Undefined: it has no literal. */
export function floatLiteral(value: number): Sql | undefined {
  return Number.isFinite(value) ? sql`toFloat64(${String(value)})` : undefined;
}
