// Finds the level in the head of a plain line, by the rule of the backend (backend/ingest/otlp/kernel/line-head.ts), with regular expressions of
// RE2 that are small enough for Go's faster matcher (500 instructions). Invariant: as in the backend, the first level of the line counts.

/** The beginning of the line that is searched. */
export const MAX_HEAD_CHARACTERS = 128;
/** Words from the time to a level in the message, with the time. */
const MAX_WORDS = 6;

/** The words of .NET's console, which are no values of a field `level`. */
export const DOTNET_LEVELS: Readonly<Record<string, string>> = { trace: "trce", debug: "dbug", error: "fail" };

const BLANK = String.raw`[ \t\r\n]`;
const TEXT = String.raw`[^ \t\r\n]*?`;
const MARK = String.raw`[\[\](){}<>|:,;]`;
const OPENING = String.raw`[\[({<]`;
const INSIDE = String.raw`[^\])}>"]*?`;
const BRACKETS = String.raw`${OPENING}${INSIDE}[\])}>]`;
const LETTERS = String.raw`[^ \t\r\n\[\](){}<>|:,;"=]*`;
const NUMBER = String.raw`[^ \t\r\n\[\](){}<>|:,;"=0-9]*[0-9]${LETTERS}`;
const NAMES = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat|Sun|AM|PM|UTC|GMT|PHP";
const WORD = `(?:${NUMBER}|[-.*#+/~]+|[A-Z]|${NAMES})?`;
const HEAD = String.raw`(?:${WORD}(?:[ \t\r\n|:,;\])}>]|${BRACKETS}))*?`;
const TIME = "[0-9]{2}:[0-9]{2}:[0-9]{2}";

/**
 * Expressions whose group `level` is the first level of its kind, and `before` what precedes it. `message` counts only if neither of the others
 * matches.
 */
export function headExpressions(levels: readonly string[]): Readonly<Record<"capitals" | "marked" | "message", string>> {
  /** `ERROR`, `INFO/MainProcess` or `channel.ERROR` */
  const capitals = String.raw`(?:[^ \t\r\n\[\](){}<>|:,;]*\.)??)(?P<level>${levels.join("|").toUpperCase()})(?:${BLANK}|${MARK}|/|$)`;
  const anyCase = `(?P<level>(?i:${[...levels, ...Object.values(DOTNET_LEVELS)].join("|")}))`;
  return {
    capitals: String.raw`^(?P<before>${HEAD}(?:${WORD}${OPENING}(?:${INSIDE}[ \t\r\n|:,;\[({<])??)??${capitals}`,
    // `error: `, `[error]`, `[core:error]`, `<Error> `, or a level before a tab or `|`.
    marked: String.raw`^(?P<before>${HEAD}(?:${WORD}(?:[\[<]|${OPENING}${INSIDE}[:\[<])${BLANK}*)??)${anyCase}(?::(?:${BLANK}|$)|[\t|]|${BLANK}*(?:\]|>${BLANK}))`,
    message: String.raw`^(?P<before>${HEAD}(?:${LETTERS}|${WORD}${OPENING}${INSIDE})${TIME}(?:(?:${TEXT}${BLANK}+){1,${MAX_WORDS}}?(?:${TEXT}${MARK})??|${TEXT}${MARK})${capitals}`,
  };
}
