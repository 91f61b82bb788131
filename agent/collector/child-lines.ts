// What a child writes, line by line. Invariants: a line that does not end is held up to MAX_LINE_LENGTH and told then, marked as cut, and the
// rest of it is passed over; a cut goes through no secret, because what is left of one might not be known for what it is.
import type { Readable } from "node:stream";

/** Characters. */
export const MAX_LINE_LENGTH = 64 * 1024;
/** Longer than a secret; none of those that are masked has a space or a double quote in it. */
const MAX_SECRET_LENGTH = 8 * 1024;

export const CUT_MARK = "… [cut: the line is longer than 64 KiB]";

/** Calls `tell` with each line that `stream` (bytes of UTF-8) brings, the last one without an end too. */
export function eachLine(stream: Readable, tell: (line: string) => void): void {
  let begun = "";
  let isCut = false;
  const add = (text: string): void => {
    if (isCut) return;
    begun += text;
    if (begun.length <= MAX_LINE_LENGTH) return;
    isCut = true;
    tell(cut(begun));
    begun = "";
  };
  const end = (): void => {
    if (!isCut) tell(begun.endsWith("\r") ? begun.slice(0, -1) : begun);
    begun = "";
    isCut = false;
  };
  stream.setEncoding("utf8");
  stream.on("data", (text: string) => {
    const [first = "", ...others] = text.split("\n");
    add(first);
    for (const other of others) {
      end();
      add(other);
    }
  });
  stream.on("end", () => {
    if (begun !== "") end();
  });
}

/** After its last word that is whole, or earlier by a secret's length. */
function cut(line: string): string {
  const kept = line.slice(0, MAX_LINE_LENGTH);
  const wordAt = Math.max(kept.lastIndexOf(" "), kept.lastIndexOf('"')) + 1;
  return `${kept.slice(0, Math.max(wordAt, MAX_LINE_LENGTH - MAX_SECRET_LENGTH))}${CUT_MARK}`;
}
