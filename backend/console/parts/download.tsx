// Downloads the content of a screen as JSON, CSV or NDJSON. The browser creates the file.
import { csvCell } from "../../client/text.ts";
import { useSending } from "../state/sending.ts";
import { Problem } from "./common.tsx";
import { Select } from "./controls.tsx";

export type Rows = readonly Readonly<Record<string, unknown>>[];

const FORMATS = {
  json: { type: "application/json", write: (rows: Rows) => `${JSON.stringify(rows, undefined, 1)}\n` },
  csv: { type: "text/csv", write: csvOf },
  ndjson: { type: "application/x-ndjson", write: (rows: Rows) => rows.map((row) => `${JSON.stringify(row)}\n`).join("") },
} as const;
type Format = keyof typeof FORMATS;

/** `read`: returns the rows, possibly after requests. `name`: file name without extension. */
export function Download({ name, read }: { name: string; read: () => Promise<Rows> | Rows }) {
  const { send, isBusy, error } = useSending(async (format: Format) => {
    const { type, write } = FORMATS[format];
    saveFile(`${name}.${format}`, new Blob([write(await read())], { type }));
  });
  return (
    <>
      <Select
        aria-label="Download"
        disabled={isBusy}
        value=""
        of={[
          ["", isBusy ? "Reading …" : "Download"],
          ["json", "JSON"],
          ["csv", "CSV"],
          ["ndjson", "NDJSON"],
        ]}
        onChoose={(format) => format && void send(format)}
      />
      <Problem message={error} />
    </>
  );
}

export function saveFile(name: string, contents: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(contents);
  link.download = name;
  link.click();
  // The browser reads it after the click.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Columns are all names that occur; objects are flattened by one level: `labels.http.route`. */
export function csvOf(rows: Rows): string {
  const flat = rows.map(flattenRow);
  const names = [...new Set(flat.flatMap((row) => Object.keys(row)))];
  const lines = flat.map((row) => names.map((name) => csvCell(row[name])).join(","));
  return `${[names.map(csvCell).join(","), ...lines].join("\r\n")}\r\n`;
}

function flattenRow(row: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const pairs = Object.entries(row).flatMap(([name, value]): [string, unknown][] =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.entries(value).map(([key, inner]) => [`${name}.${key}`, inner])
      : [[name, value]],
  );
  return Object.fromEntries(pairs);
}
