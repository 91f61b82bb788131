// Splits messages into words as the word_filter index of the logs table does: runs of ASCII letters, digits and non-ASCII characters.
// Invariant: the index only skips granules; every condition is exact without it.
import { and, type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { MAX_INDEX_WORDS } from "../storage-limits.ts";

/** All ASCII characters except letters and digits, as the engine separates tokens. */
const SEPARATORS = /[\0-/:-@[-`{-\x7f]+/;

export function wordsOf(text: string): string[] {
  return text.split(SEPARATORS).filter(Boolean);
}

/** Every one of the words occurs in the message, ignoring the case of ASCII letters. `words`: at least one. */
export function hasWords(words: readonly string[]): Sql {
  return and([...new Set(words)].map((word) => sql`hasToken(lower(message), ${lowerCase(word)})`));
}

/**
 * Adds conditions that let the index skip granules. The inner words of the text are whole words of the message; the words at its ends may
 * be parts of longer ones, so they are not used.
 */
export function withHints(text: string, condition: Sql): Sql {
  const inner = text.split(SEPARATORS).slice(1, -1).map(lowerCase);
  const longest = [...new Set(inner)].sort((a, b) => b.length - a.length).slice(0, MAX_INDEX_WORDS);
  return longest.length === 0 ? condition : and([sql`indexHint(${hasWords(longest)})`, condition]);
}

function lowerCase(text: string): string {
  return text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
}
