// Formats rows as a table for people, or as JSON for programs. Invariant: text from telemetry cannot control the terminal: control
// characters are shown escaped.
import { ageText } from "../client/text.ts";

export type Row = Record<string, unknown>;

/** Columns that are shown as an age, because that is what people look for. */
const AGES: ReadonlySet<string> = new Set(["last_heartbeat", "key_created_at", "last_used_at"]);
/** Times of resources. Those of telemetry have nanoseconds and are not truncated. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** Header and rows, with columns as wide as their widest cell; the last column is not padded. */
export function table(rows: readonly Row[], columns: readonly string[]): string {
  const cells = rows.map((row) => columns.map((column) => timeCell(column, row[column]) ?? cell(row[column])));
  const heads = columns.map(headingOf);
  const widths = heads.map((head, index) => Math.max(head.length, ...cells.map((row) => row[index]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    row
      .map((text, index) => (index === row.length - 1 ? text : text.padEnd(widths[index] ?? 0)))
      .join("  ")
      .trimEnd();
  return [line(heads), ...cells.map(line)].join("\n");
}

function timeCell(column: string, value: unknown): string | undefined {
  if (typeof value !== "string" || !TIME.test(value)) return undefined;
  return AGES.has(column) ? ageText(Date.now() - Date.parse(value)) : `${value.slice(0, 19)}Z`;
}

/** `duration_ms` and `DurationMs` have the same heading. */
function headingOf(column: string): string {
  return column.replace(/([a-z])([A-Z])/g, "$1_$2").toUpperCase();
}

/** One cell: empty as "-", objects as JSON, control characters escaped. */
export function cell(value: unknown): string {
  if (value === null || value === undefined || value === "") return "-";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return visible(text);
}

/** At most `maxLength` characters; the last one is `…` if the text is longer. */
export function truncate(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength - 1)}…`;
}

/** C0, C1, DEL, line separators and direction overrides as \u escapes. */
export function visible(text: string): string {
  return text.replace(CONTROLS, (character) => (character === "\n" ? "\\n" : character === "\t" ? "\\t" : escapeCharacter(character)));
}

/** Equivalent JSON without characters that control a terminal. */
export function escapeJson(json: string): string {
  return json.replace(CONTROLS, escapeCharacter);
}

const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
