// The formats of results for programs: JSON, YAML and CSV. Invariant: a cell of CSV that a spreadsheet would run as a formula is written as text.
import { stringify } from "yaml";
import { harmlessJson, type Row } from "./table.ts";

export const OUTPUTS = ["table", "json", "yaml", "csv"] as const;
export type Output = (typeof OUTPUTS)[number];

function jsonText(value: object): string {
  return harmlessJson(JSON.stringify(value));
}

/** `value` as JSON or YAML. */
export function documentText(output: Exclude<Output, "table" | "csv">, value: object): string {
  return output === "json" ? jsonText(value) : stringify(value, { lineWidth: 0, blockQuote: "literal" }).trimEnd();
}

/** Names of the columns, in the order in which they first occur. */
export function csvColumns(rows: readonly Row[]): string[] {
  return [...new Set(rows.flatMap((row) => Object.keys(row)))];
}

/** One line without its end; https://www.rfc-editor.org/rfc/rfc4180. */
export function csvLine(values: readonly unknown[]): string {
  return values.map(csvCell).join(",");
}

function csvCell(value: unknown): string {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  // https://owasp.org/www-community/attacks/CSV_Injection
  const harmless = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}
