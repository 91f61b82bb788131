// Translates labels of a record to SQL, with the attribute keys of each label, and numbers in their texts. Invariant: an expression returns
// the same value as Entry.get and `convert`; a missing label is an empty text.
import { parseLines } from "../../storage/found-page.ts";
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { and, commaList, type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { attributeOf } from "../../storage/logs/filter.ts";
import { GROUP_KEYS, MAX_GROUP_KEYS } from "../../storage/logs/minute-counts.ts";
import { MAX_LABEL_CONDITION_BYTES, MAX_LABEL_KEYS, MAX_LABEL_NAMES } from "../query-limits.ts";
import { labelName, SOFT_LABEL, STREAM_LABELS, withoutExtracted } from "./entry.ts";
import type { Conversion } from "./syntax.ts";

/** The attribute keys that become the label of this name; undefined if they were not looked up, so that any key may. */
export type KeysOf = (name: string) => readonly string[] | undefined;

export const ANY_KEYS: KeysOf = () => undefined;

/** Labels that have a value in every record. */
const COLUMNS: Readonly<Record<string, Sql>> = {
  service_name: sql`source`,
  host_id: sql`host_id`,
  node: sql`node`,
};
const BELOW_ATTRIBUTE: ReadonlySet<string> = new Set([SOFT_LABEL, "detected_level"]);
const ABOVE_ATTRIBUTE: Readonly<Record<string, Sql>> = {
  trace_id: sql`trace_id`,
  span_id: sql`span_id`,
  scope_name: sql`scope_name`,
  severity_number: sql`if(severity_number > 0, toString(severity_number), '')`,
};

/** The value of a label; empty if there is none. */
export function labelValue(name: string, keysOf: KeysOf = ANY_KEYS): Sql {
  const column = COLUMNS[name];
  if (column) return column;
  const base = withoutExtracted(name);
  if (base !== undefined) return extractedValue(name, base, keysOf);
  const attribute = attributeValue([name], keysOf);
  const above = ABOVE_ATTRIBUTE[name];
  if (above) return orElse(above, attribute);
  if (BELOW_ATTRIBUTE.has(name)) return orElse(attribute, sql`level`);
  const key = STREAM_LABELS.get(name);
  if (key === undefined || hasOnly(keysOf(name), key)) return attribute;
  return orElse(attributeOf(key), attribute);
}

/** The value of a label x_extracted: an attribute of that name, or one with the name x if the stream of the record has a label x. */
function extractedValue(name: string, base: string, keysOf: KeysOf): Sql {
  if (COLUMNS[base]) return attributeValue([name, base], keysOf);
  const key = STREAM_LABELS.get(base);
  const plain = attributeValue([name], keysOf);
  if (key === undefined || hasOnly(keysOf(base), key)) return plain;
  return sql`if(${attributeOf(key)} != '', ${attributeValue([name, base], keysOf, key)}, ${plain})`;
}

/** Whether this label is an attribute with an empty value, which Entry.get distinguishes from a missing label. */
export function isEmptyAttribute(name: string, keysOf: KeysOf): Sql {
  if (COLUMNS[name] || BELOW_ATTRIBUTE.has(name)) return sql`0`;
  const keys = (keysOf(name) ?? [name]).filter((key) => STREAM_LABELS.get(name) !== key);
  if (keys.length === 0) return sql`0`;
  return sql`(${labelValue(name, keysOf)} = '' AND hasAny(mapKeys(labels), ${keys}))`;
}

const EMPTY_TEXT = sql`''`;

function orElse(first: Sql, second: Sql): Sql {
  if (second.text === EMPTY_TEXT.text) return first;
  return first.text === EMPTY_TEXT.text ? second : sql`if(${first} != '', ${first}, ${second})`;
}

function hasOnly(keys: readonly string[] | undefined, key: string): boolean {
  return keys?.every((other) => other === key) ?? false;
}

/** The first attribute with a value that becomes one of the names. `except`: a key to ignore. */
function attributeValue(names: readonly string[], keysOf: KeysOf, except?: string): Sql {
  const known = names.map((name) => keysOfLabel(name, keysOf));
  if (known.every((keys) => keys !== undefined)) {
    const keys = [...new Set(known.flat())].filter((key) => key !== except);
    if (keys.length <= 1) return keys.length === 0 ? EMPTY_TEXT : attributeOf(keys[0] as string);
    return sql`arrayFirst((value, key) -> key IN ${keys} AND value != '', mapValues(labels), mapKeys(labels))`;
  }
  const isOther = except === undefined ? sql`` : sql` AND key != ${except}`;
  const isKey = sql`match(key, ${keyPattern(names)})${isOther}`;
  return sql`arrayFirst((value, key) -> ${isKey} AND value != '', mapValues(labels), mapKeys(labels))`;
}

/** The keys that become this label or influence it; undefined: any key may. */
export function keysOfLabel(name: string, keysOf: KeysOf): readonly string[] | undefined {
  return keysOf(name) ?? (isOwnKey(name) ? [name] : undefined);
}

/** Whether a label of this name can only come from the key of the same name. */
function isOwnKey(name: string): boolean {
  return !/[_:]/.test(name);
}

/** An RE2 pattern for the keys that labelName turns into these names. */
function keyPattern(names: readonly string[]): string {
  const patterns = names.map((name) => {
    const digits = /^_(\d.*)$/s.exec(name)?.[1];
    const pattern = (digits ?? name).replaceAll("_", "[^a-zA-Z0-9]").replaceAll(/[^\w[\]^-]/g, "\\$&");
    return digits === undefined ? pattern : `[^a-zA-Z0-9]?${pattern}`;
  });
  return `^(?:${patterns.join("|")})$`;
}

/** The names whose keys have to be looked up. Most queries need none; otherwise one pass over the keys saves one over their values. */
function namesToLookUp(names: Iterable<string>, isAlways: boolean): string[] {
  const wanted = [...new Set([...names].flatMap((name) => [name, withoutExtracted(name) ?? name]))].filter((name) => !COLUMNS[name]);
  // Reading the key of the same name is faster than a lookup. But records rarely have an attribute with the name of a column, so such names
  // are looked up.
  return isAlways || wanted.some((name) => !isOwnKey(name) || BELOW_ATTRIBUTE.has(name)) ? wanted : [];
}

export interface KeySource {
  readonly from: Sql;
  readonly where: readonly Sql[];
  /**
   * The same conditions on the columns of minute-counts.ts, or conditions that select more records: then the keys are found without reading
   * records. Undefined if they cannot be expressed.
   */
  readonly groups?: readonly Sql[] | undefined;
  /** Keys are looked up even if every name can only be the key of the same name. */
  readonly isAlways?: boolean;
}

/** Looks up the keys of the labels in the records that the conditions select. */
export async function findKeys(ask: Ask, names: Iterable<string>, source: KeySource, blockRows?: number): Promise<KeysOf> {
  const { from, where, groups, isAlways = false } = source;
  const wanted = namesToLookUp(names, isAlways);
  if (wanted.length === 0 || wanted.length > MAX_LABEL_NAMES) return ANY_KEYS;
  const groupKeys = groups && (await keysOfGroups(ask, groups));
  if (groupKeys) return keysByName(wanted, groupKeys);
  // Extracts the keys first, then tests them: in the other order, the engine tests each key of each record.
  const answer = await ask(
    sql`SELECT toString(key) AS key FROM (SELECT arrayJoin(mapKeys(labels)) AS key FROM ${from} WHERE ${and(where)})
      WHERE match(key, ${keyPattern(wanted)}) GROUP BY key LIMIT ${MAX_LABEL_KEYS + 1}`,
    MAX_LABEL_CONDITION_BYTES,
    blockRows,
  );
  const keys = parseLines<{ key: string }>(answer).map(({ key }) => key);
  return keys.length > MAX_LABEL_KEYS ? ANY_KEYS : keysByName(wanted, keys);
}

/** Undefined if there may be more keys. */
async function keysOfGroups(ask: Ask, groups: readonly Sql[]): Promise<readonly string[] | undefined> {
  const answer = await ask(sql`SELECT ${GROUP_KEYS} AS keys FROM logs WHERE ${and(groups)}`, MAX_LABEL_CONDITION_BYTES);
  const { keys } = JSON.parse(answer.toString("utf8")) as { keys: string[] };
  return keys.length < MAX_GROUP_KEYS ? keys : undefined;
}

function keysByName(names: readonly string[], keys: readonly string[]): KeysOf {
  const keysOfName = new Map(names.map((name): [string, string[]] => [name, []]));
  for (const key of keys) keysOfName.get(labelName(key))?.push(key);
  return (name) => keysOfName.get(name);
}

export interface NumberSql {
  readonly isPlain: Sql;
  /** Zero if the text is not plain. */
  readonly value: Sql;
  /** The text may be a number in a notation that only JavaScript parses, such as 0x1p-2. */
  readonly isOther: Sql;
  /** The text is not a number. */
  readonly isNone: Sql;
}

const PLAIN_NUMBER = "^[+-]?(?:[0-9]{1,40}(?:[.][0-9]{1,40})?|[.][0-9]{1,40})(?:[eE][+-]?[0-9]{1,2})?$";
const ANY_NUMBER = "(?i)^[+-]?(?:[0-9.]+(?:e[+-]?[0-9]+)?|inf|infinity|nan|0x[0-9a-f.]*p[+-]?[0-9]+)$";

// Few digits and parts, so that the nanoseconds fit into 64 bits.
const PLAIN_DURATION = "^[+-]?(?:[0-9]{1,5}(?:[.][0-9]{0,15})?(?:ns|us|\u00b5s|\u03bcs|ms|s|m|h)){1,4}$";
const ANY_DURATION = "^[+-]?(?:0|(?:[0-9.]+(?:ns|us|\u00b5s|\u03bcs|ms|s|m|h))+)$";
const DURATION_PART = "([0-9]{1,5})[.]?([0-9]{0,15})(ns|us|\u00b5s|\u03bcs|ms|s|m|h)";
const DURATION_UNITS = ["ns", "us", "\u00b5s", "\u03bcs", "ms", "s", "m", "h"];

const PLAIN_SIZE = "(?i)^[0-9]{1,15}(?:[.][0-9]{1,15})? ?(?:[kmgtpe]i?)?b?$";
const ANY_SIZE = "^[^0-9a-zA-Z]*[0-9.,]+[^0-9a-zA-Z]*[a-zA-Z]*[^0-9a-zA-Z]*$";
const SIZE_UNITS = ["", "k", "m", "g", "t", "p", "e", "ki", "mi", "gi", "ti", "pi", "ei"];

/** `text` must not be empty. */
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
    return sql`trunc(toFloat64OrZero(extract(${text}, '^[0-9.]+')) * toFloat64(transform(${unit}, ${SIZE_UNITS}, [${commaList([...factors, ...binary])}], 0)))`;
  },
};

/** Undefined if the value has no literal. */
export function floatLiteral(value: number): Sql | undefined {
  return Number.isFinite(value) ? sql`toFloat64(${String(value)})` : undefined;
}
