// Words of messages as the index word_filter of the table logs has them: runs of ASCII letters, digits and other characters than ASCII.
// Invariant: an index only skips granules; every condition is exact by itself.
import { and, type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { MAX_INDEX_WORDS } from "../limits.ts";

/** Everything of ASCII but letters and digits, as the engine separates tokens. */
const SEPARATORS = /[\0-/:-@[-`{-\x7f]+/;

export function wordsOf(text: string): string[] {
  return text.split(SEPARATORS).filter(Boolean);
}

/** Every word is one of the message's, ASCII letters in any case. `words`: at least one. */
export function hasWords(words: readonly string[]): Sql {
  return and([...new Set(words)].map((word) => sql`hasToken(lower(message), ${lowered(word)})`));
}

/**
 * A condition on the message that contains the text, for the index alone: the words in the middle of the text are words of the message; those
 * at its ends may be parts of longer ones.
 */
export function withHints(text: string, condition: Sql): Sql {
  const inner = text.split(SEPARATORS).slice(1, -1).map(lowered);
  const longest = [...new Set(inner)].sort((one, other) => other.length - one.length).slice(0, MAX_INDEX_WORDS);
  return longest.length === 0 ? condition : and([sql`indexHint(${hasWords(longest)})`, condition]);
}

function lowered(text: string): string {
  return text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
}
