// Finds patterns of messages and counts them, as Drain does: variable parts become <_>, as in Loki's pattern filter. ClickHouse replaces
// and counts them in a sample; this module merges the remaining few hundred texts. Invariant: the work is bounded by the sample.
import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { and, type Sql, sql, unionAll } from "../../engines/clickhouse/sql.ts";
import { parseLines } from "../found-page.ts";
import { MAX_PATTERN_LINE_CHARACTERS, MAX_MESSAGE_PATTERNS, MAX_PATTERN_SAMPLE_RECORDS } from "../storage-limits.ts";
import { pageConditions, type TimeSpan } from "../page.ts";
import type { Matching } from "./matching.ts";
import { rangeParts, useOnlyGroupColumns } from "./minute-counts.ts";

interface PatternQuestion {
  readonly orgId: string;
  readonly conditions: readonly Sql[];
  readonly matching: Matching;
  readonly range: TimeSpan;
  /** The range is divided into intervals of this length; the last one may be shorter. */
  readonly stepNs: bigint;
}

export interface MessagePattern {
  readonly pattern: string;
  /** One of the messages, cut to a limit. */
  readonly example: string;
  /** Records by the number of their interval: exact if the sample has all records, otherwise estimated. */
  readonly counts: ReadonlyMap<number, number>;
  readonly total: number;
}

interface FoundPatterns {
  readonly records: number;
  /** One of this many slices of time was read; 1: all records were read. */
  readonly sampledOneOf: number;
  /** Most frequent first. */
  readonly patterns: readonly MessagePattern[];
}

const GAP = "<_>";

export async function findPatterns(ask: Ask, question: PatternQuestion): Promise<FoundPatterns> {
  const records = await countRecords(ask, question);
  const sampledOneOf = Math.max(1, Math.ceil(records / MAX_PATTERN_SAMPLE_RECORDS));
  const rows = records === 0 ? [] : await readTexts(ask, question, sampledOneOf);
  return { records, sampledOneOf, patterns: await mergePatterns(rows, sampledOneOf) };
}

async function countRecords(ask: Ask, { orgId, conditions, matching, range }: PatternQuestion): Promise<number> {
  const counts = rangeParts(range, useOnlyGroupColumns(conditions)).map(
    (part) => sql`SELECT count() AS n FROM ${matching.from} WHERE ${and([sql`org_id = ${orgId}`, ...conditions, part])}`,
  );
  const answer = await ask(sql`SELECT toFloat64(sum(n)) AS n FROM (${unionAll(counts)})`, undefined, matching.blockRows);
  return (JSON.parse(answer.toString("utf8")) as { n: number }).n;
}

export interface Text {
  readonly pattern: string;
  readonly example: string;
  readonly total: number;
  readonly cells: readonly (readonly [slot: number, n: number])[];
}

/** Slices in a sample: each costs reading a block of rows. */
const SLICES = 240n;

async function readTexts(ask: Ask, question: PatternQuestion, oneOf: number): Promise<Text[]> {
  const answer = await ask(
    sql`SELECT pattern, any(example) AS example, toFloat64(sum(n)) AS total, groupArray((slot, n)) AS cells FROM (
      ${textsOf(question, { sampled: sampleOf(question.range, oneOf) })}
    ) GROUP BY pattern ORDER BY total DESC, pattern LIMIT ${MAX_MESSAGE_PATTERNS}`,
    undefined,
    question.matching.blockRows,
  );
  return parseLines(answer);
}

interface Texts {
  readonly sampled: readonly Sql[];
  /** Names of columns to group by in addition, each with a comma. */
  readonly keys?: Sql;
  /** Their definitions. */
  readonly columns?: Sql;
}

/** A SELECT of texts with gaps, by `slot`: `pattern`, `example` and `n`. */
export function textsOf(
  { orgId, conditions, matching, range, stepNs }: PatternQuestion,
  { sampled, keys = sql``, columns = keys }: Texts,
): Sql {
  const where = and([sql`org_id = ${orgId}`, ...pageConditions({ range }), ...sampled, ...conditions]);
  return sql`SELECT ${keys}${PATTERN} AS pattern, slot, any(line) AS example, toFloat64(count()) AS n FROM (
      SELECT ${columns}toUInt32(intDiv(toUnixTimestamp64Nano(time) - ${range.start}, ${stepNs})) AS slot, ${LINE} AS line, ${LINE_IS_CUT} AS is_cut
      FROM ${matching.from} WHERE ${where} LIMIT ${4 * MAX_PATTERN_SAMPLE_RECORDS}
    ) GROUP BY ${keys}pattern, slot`;
}

/** To read every n-th slice, the range is divided into n times as many. */
export function sampleOf({ start, end }: TimeSpan, oneOf: number, slices = SLICES): Sql[] {
  const sliceNs = (end - start) / (slices * BigInt(oneOf)) + 1n;
  return oneOf === 1 ? [] : [sql`intDiv(toUnixTimestamp64Nano(time) - ${start}, ${sliceNs}) % ${oneOf} = 0`];
}

/** The first line of a message, cut to a number of characters; a character has at most four bytes. */
const LINE = sql`substringUTF8(toValidUTF8(substring(substringIndex(message, '\n', 1), 1, ${4 * MAX_PATTERN_LINE_CHARACTERS})), 1, ${MAX_PATTERN_LINE_CHARACTERS})`;
const LINE_IS_CUT = sql`length(${LINE}) < length(message)`;
/** Runs of letters, digits and underscores that contain a digit, and hexadecimal numbers of at least 8 characters that contain none. */
const VARIABLE = "[0-9A-Za-z_]*[0-9][0-9A-Za-z_]*|\\b[a-fA-F]{8,}\\b";
/** Times, addresses, versions and UUIDs become a single gap. */
const GAPS = `${GAP}(?:[-.:,+]?${GAP})+`;
const PATTERN = sql`replaceRegexpAll(concat(replaceRegexpAll(line, ${VARIABLE}, ${GAP}), if(is_cut, ${GAP}, '')), ${GAPS}, ${GAP})`;

/** Two texts are one pattern if they have the same number of words, the same first word, and at least this share of equal words. */
const SIMILARITY = 0.7;

/** Texts that are merged before the event loop serves other requests: at most 6,000 comparisons. */
const TEXTS_AT_ONCE = 20;

interface Cluster {
  words: string[];
  readonly example: string;
  readonly counts: Map<number, number>;
  total: number;
}

/** Most frequent texts first, so that a rare text joins a frequent one. Yields to the event loop: 300 texts have up to 45,000 pairs. */
export async function mergePatterns(texts: readonly Text[], factor: number): Promise<MessagePattern[]> {
  const clusters = new Map<string, Cluster[]>();
  for (const [index, { pattern, example, cells }] of texts.entries()) {
    if (index % TEXTS_AT_ONCE === TEXTS_AT_ONCE - 1) await yieldToEventLoop();
    const words = pattern.split(" ");
    const key = `${words.length} ${words[0]}`;
    const similar = clusters.get(key) ?? [];
    clusters.set(key, similar);
    const minEqual = SIMILARITY * words.length;
    let cluster = similar.find((candidate) => candidate.words.filter((word, at) => word === words[at]).length >= minEqual);
    if (cluster) cluster.words = cluster.words.map((word, index) => (word === words[index] ? word : GAP));
    else similar.push((cluster = { words, example, counts: new Map(), total: 0 }));
    for (const [slot, n] of cells) {
      cluster.counts.set(slot, (cluster.counts.get(slot) ?? 0) + n * factor);
      cluster.total += n * factor;
    }
  }
  return [...clusters.values()]
    .flat()
    .map(({ words, ...cluster }) => ({ ...cluster, pattern: words.join(" ") }))
    .sort((a, b) => b.total - a.total || (a.pattern < b.pattern ? -1 : 1));
}
