/* oxlint-disable plain-english/words -- the list of the rule itself */
// Words of a private English that crept into this repository, each with the standard term. The lint rule plain-english/words applies the
// list to code, and hack/prose.test.ts to pages. Words with a legitimate meaning (place, hold, look, says) are left to reviewers.
/** @typedef {{ readonly pattern: RegExp, readonly use: string }} Word */

/** @param {string} words @param {string} use @returns {Word} */
const word = (words, use) => ({ pattern: new RegExp(String.raw`(?<![\w-])(?:${words})(?![\w-])`, "gi"), use });

/** @type {readonly Word[]} */
export const WORDS = [
  word("(?:told|tells?|telling)(?! (?:\\S+ )?apart)", "notify, report, return, document or print"),
  word("nobody", "no client, no user or no one"),
  word("somebody|whoever", "a user, the client that …"),
  word("beside", "next to"),
  word("strangers?", "unauthenticated client"),
  word("judges?|judged|judging|judgements?|verdicts?", "validate, validation result"),
  word("reckons?|reckoned|reckoning", "estimate, calculate"),
  word("mends?|mended|mending", "fix"),
  word("lanes?", "insert queue"),
  word("aside", "quarantined, dead letter"),
  word("owed|owes?", "pending replay"),
  word("linger(?:s|ed|ing)?", "batching window, coalesce"),
  word("stands|lies", "is stored, runs"),
  word("breathes?|breathed|breathing", "yield to the event loop"),
  word("as many as may", "the limit"),
  word("no such thing", "resource not found"),
  word("ways? in|ways? back", "ingest path, rollback"),
  word("in words", "slow path, message text"),
  word("goes? before", "take precedence"),
  word("lives", "is stored, runs, is valid"),
  word("(?:comes?|came) by", "get, arrive through"),
  word("(?:other|another|no|for|whatever) company", "batch"),
  word("gives? again|given again", "return again, replay"),
  word("heard", "acknowledged, received"),
  word("(?:a|each|one|next) look(?! at)", "pass, poll, check"),
  word("places? in (?:its |a |the )?files?", "offset, checkpoint"),
  word("the way of", "path, pipeline"),
];

/** Every private word in `text`, with what to write instead. @param {string} text @returns {{ word: string, use: string, index: number }[]} */
export function privateWords(text) {
  return WORDS.flatMap(({ pattern, use }) => [...text.matchAll(pattern)].map((match) => ({ word: match[0], use, index: match.index })));
}

/** `insertLaneOf` → `insert Lane Of`, so that a name is searched like a text. @param {string} name */
export const wordsOfName = (name) => name.replaceAll("_", " ").replaceAll(/(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/g, " ");
