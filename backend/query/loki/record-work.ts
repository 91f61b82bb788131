// The work that the stages of a query may do for one record, counted in characters that they walk or make.
// A query's budget (budget.ts) is asked between records only; without this one, a single record could compute for hours, or fill the memory.
// Records are computed one at a time and without waiting, so one counter serves all queries of a thread.
import { tooExpensive } from "./budget.ts";

/** Some 0.3 s for the slowest functions, and as many characters kept at most. */
const MOST_CHARACTERS = 32 * 1024 * 1024;
/** The longest line or attribute that stages read. Loki accepts no longer lines by default. */
export const MOST_TEXT = 256 * 1024;
/** V8 searches for a longer text in a time that grows with the product of both lengths. */
const LONG_PART = 64;

let spent = 0;

/** To be called before the stages of another record. */
export function beginRecordWork(): void {
  spent = 0;
}

/** Counts characters before they are walked or made. Throws ApiError query_too_expensive. */
export function charge(characters: number): void {
  spent += characters;
  if (spent > MOST_CHARACTERS) throw tooExpensive(`walks or makes more than ${MOST_CHARACTERS / 1024 / 1024} Mi characters for one record`);
}

/** As `text.indexOf(part, from)`. Throws ApiError query_too_expensive. */
export function findText(text: string, part: string, from = 0): number {
  if (part.length > LONG_PART) charge((text.length - from) * Math.ceil(part.length / LONG_PART));
  const found = text.indexOf(part, from);
  charge((found === -1 ? text.length : found) - from);
  return found;
}

/** How often a text is found in another, without overlaps. Throws ApiError query_too_expensive. */
export function countText(text: string, part: string): number {
  if (part === "") return text.length + 1;
  let count = 0;
  for (let at = findText(text, part); at !== -1; at = findText(text, part, at + part.length)) count += 1;
  return count;
}

/** Throws ApiError query_too_expensive. `what`: "a line", or "an attribute". */
export function checkLength(text: string, what: string): void {
  if (text.length > MOST_TEXT) throw tooExpensive(`has stages that read ${what} of more than ${MOST_TEXT / 1024} KiB`);
}
