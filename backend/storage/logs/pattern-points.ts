// Counts patterns of messages by source over two ranges, to find those that are new, gone or more frequent. Invariant: the work is bounded
// by four samples: warnings and errors, and all other records, of each range.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { sql } from "../../engines/clickhouse/sql.ts";
import { parseLines } from "../found-page.ts";
import type { ComparedRanges } from "../page.ts";
import { MAX_COMPARED_NAME_CHARACTERS, MAX_MESSAGE_PATTERNS, MAX_PATTERN_SAMPLE_RECORDS } from "../storage-limits.ts";
import { NO_MATCHING } from "./matching.ts";
import { countRecords, mergePatterns, type MessagePattern, type PatternQuestion, type Text, textsOf } from "./message-patterns.ts";

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

type SourceText = Text & { readonly source: string };

export async function comparePatterns(ask: Ask, orgId: string, { before, now }: ComparedRanges, points: number): Promise<ComparedPatterns> {
  const patterns: PatternPoints[] = [];
  const oneOf = { problems: { before: 1, now: 1 }, others: { before: 1, now: 1 } };
  for (const kind of ["problems", "others"] as const) {
    const condition = kind === "problems" ? PROBLEM : sql`NOT (${PROBLEM})`;
    const texts: SourceText[] = [];
    for (const [name, range, offset] of [
      ["before", before, 0],
      ["now", now, points],
    ] as const) {
      const stepNs = (range.end - range.start) / BigInt(points) + 1n;
      const question = { orgId, conditions: [condition], matching: NO_MATCHING, range, stepNs };
      oneOf[kind][name] = await readSample(ask, question, (text) => texts.push(movedBy(text, offset)));
    }
    for (const [source, ofSource] of Map.groupBy(texts, (text) => text.source)) {
      const merged = await mergePatterns(
        ofSource.toSorted((a, b) => b.total - a.total),
        1,
      );
      const series = (counts: MessagePattern["counts"], offset: number) =>
        Array.from({ length: points }, (_, at) => counts.get(at + offset) ?? 0);
      for (const { pattern, example, counts } of merged)
        patterns.push({ source, pattern, example, isProblem: kind === "problems", before: series(counts, 0), now: series(counts, points) });
    }
  }
  return { patterns, oneOf };
}

/** Returns how many periods there are for each that was read. */
async function readSample(ask: Ask, question: PatternQuestion, add: (text: SourceText) => void): Promise<number> {
  const records = await countRecords(ask, question);
  if (records === 0) return 1;
  const oneOf = Math.ceil(records / MAX_PATTERN_SAMPLE_RECORDS);
  const statement = sql`SELECT substringUTF8(source, 1, ${MAX_COMPARED_NAME_CHARACTERS}) AS name, pattern, any(example) AS example, toFloat64(sum(n)) AS total, groupArray((slot, n)) AS cells
    FROM (${textsOf(question, oneOf, sql`source, `)}) GROUP BY name, pattern ORDER BY total DESC, pattern LIMIT ${MAX_MESSAGE_PATTERNS}`;
  for (const { name, ...text } of parseLines<Text & { name: string }>(await ask(statement))) add({ ...text, source: name });
  return oneOf;
}

function movedBy(text: SourceText, offset: number): SourceText {
  return { ...text, cells: text.cells.map(([slot, n]) => [slot + offset, n] as const) };
}
