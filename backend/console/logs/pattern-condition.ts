// A condition of the query language (docs/log-query.md) for the records of a pattern. Invariant: the text of a pattern is matched as text,
// whatever characters it contains.
const GAP = "<_>";
/** The backend allows 50 parts of variable length in the regular expressions of a query. */
const MOST_GAPS = 20;
const MOST_CHARACTERS = 500;

/** A regular expression that is anchored at the start of the message; undefined if the pattern has no text of its own. */
export function patternCondition(pattern: string): string | undefined {
  const parts = pattern
    .slice(0, MOST_CHARACTERS)
    .split(GAP)
    .slice(0, MOST_GAPS + 1);
  if (parts.every((part) => part.trim() === "")) return undefined;
  // The last part may be cut inside of `<_>`.
  const last = parts.at(-1)?.replace(/<_?$/, "") ?? "";
  const expression = [...parts.slice(0, -1), last].map(escaped).join(".*");
  return `/^${expression}/`;
}

/** As RE2 reads it, inside of the slashes of the query language. */
function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, "\\$&").replaceAll(/\s/g, (space) => (space === " " ? " " : "\\s"));
}
