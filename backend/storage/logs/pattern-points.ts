// Counts patterns of messages by source over two ranges, to find those that are new, gone or more frequent. Invariant: the work is bounded
// by four samples: warnings and errors, and all other records, of each range.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { and, or, sql, unionAll } from "../../engines/clickhouse/sql.ts";
import { parseLines } from "../found-page.ts";
import type { ComparedRanges } from "../page.ts";
import { MAX_COMPARED_NAME_CHARACTERS, MAX_MESSAGE_PATTERNS, MAX_PATTERN_SAMPLE_RECORDS } from "../storage-limits.ts";
import { NO_MATCHING } from "./matching.ts";
import { minutesAround } from "./minute-counts.ts";
import { mergePatterns, type MessagePattern, sampleOf, type Text, textsOf } from "./message-patterns.ts";

export interface PatternPoints extends Pick<MessagePattern, "pattern" | "example"> {
  readonly source: string;
  /** Warnings, errors and worse. */
  readonly isProblem: boolean;
  /** Records of the samples, by point. */
  readonly before: readonly number[];
  readonly now: readonly number[];
}

export interface ComparedPatterns {
  readonly patterns: readonly PatternPoints[];
  /** By `isProblem`: one of this many periods was read. */
  readonly oneOf: Readonly<Record<"problems" | "others", { readonly before: number; readonly now: number }>>;
}

const PROBLEM = sql`level IN ('warn', 'warning', 'error', 'fatal', 'critical', 'emergency', 'alert')`;

/** Slices of a sample: several in each point, but fewer than for patterns alone, because four samples are read. */
const SLICES = 120n;

type SourceText = Text & { readonly source: string; readonly is_problem: 0 | 1 };

/** The ranges are whole minutes. */
export async function comparePatterns(ask: Ask, orgId: string, { before, now }: ComparedRanges, points: number): Promise<ComparedPatterns> {
  const ranges = [before, now];
  const rateOf = await readRates(ask, orgId, ranges);
  const texts: SourceText[] = [];
  for (const [at, range] of ranges.entries()) {
    const sampled = or([
      and([sql`NOT (${PROBLEM})`, ...sampleOf(range, rateOf(0, at), SLICES)]),
      and([PROBLEM, ...sampleOf(range, rateOf(1, at), SLICES)]),
    ]);
    const stepNs = (range.end - range.start) / BigInt(points) + 1n;
    const question = { orgId, conditions: [], matching: NO_MATCHING, range, stepNs };
    const name = sql`substringUTF8(source, 1, ${MAX_COMPARED_NAME_CHARACTERS})`;
    const columns = sql`${name} AS name, ${PROBLEM} AS is_problem, `;
    const lines =
      await ask(sql`SELECT name AS source, is_problem, pattern, any(example) AS example, toFloat64(sum(n)) AS total, groupArray((toUInt32(slot + ${at * points}), n)) AS cells
      FROM (${textsOf(question, { sampled: [sampled], keys: sql`name, is_problem, `, columns })})
      GROUP BY name, is_problem, pattern ORDER BY total DESC, pattern LIMIT ${MAX_MESSAGE_PATTERNS} BY is_problem`);
    texts.push(...parseLines<SourceText>(lines));
  }
  const patterns: PatternPoints[] = [];
  for (const same of Map.groupBy(texts, ({ source, is_problem }) => `${is_problem} ${source}`).values()) {
    const { source, is_problem: isProblem } = same[0] as SourceText;
    const merged = await mergePatterns(
      same.toSorted((a, b) => b.total - a.total),
      1,
    );
    for (const { pattern, example, counts } of merged) {
      const all = Array.from({ length: 2 * points }, (_, at) => counts.get(at) ?? 0);
      patterns.push({ source, pattern, example, isProblem: isProblem === 1, before: all.slice(0, points), now: all.slice(points) });
    }
  }
  const ratesOf = (isProblem: 0 | 1) => ({ before: rateOf(isProblem, 0), now: rateOf(isProblem, 1) });
  return { patterns, oneOf: { problems: ratesOf(1), others: ratesOf(0) } };
}

/** Returns, by kind and range, how many slices there are for each that is read. */
async function readRates(ask: Ask, orgId: string, ranges: ComparedRanges["now"][]): Promise<(isProblem: 0 | 1, range: number) => number> {
  const counts = ranges.map(
    (range, at) => sql`SELECT ${PROBLEM} AS is_problem, ${at} AS range, count() AS n FROM ${NO_MATCHING.from}
      WHERE ${and([sql`org_id = ${orgId}`, minutesAround(range)])} GROUP BY is_problem`,
  );
  const lines = await ask(sql`SELECT is_problem, range, toFloat64(sum(n)) AS n FROM (${unionAll(counts)}) GROUP BY is_problem, range`);
  const found = parseLines<{ is_problem: number; range: number; n: number }>(lines);
  return (isProblem, at) => {
    const n = found.find((count) => count.is_problem === isProblem && count.range === at)?.n ?? 0;
    return Math.max(1, Math.ceil(n / MAX_PATTERN_SAMPLE_RECORDS));
  };
}
