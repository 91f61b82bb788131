// Formats ages, sizes and cells of CSV for the CLI and the console.

/** Such as `3 min ago`. */
export function ageText(ageMs: number): string {
  const s = Math.max(0, Math.round(ageMs / 1000));
  if (s < 90) return `${s} s ago`;
  if (s < 5400) return `${Math.round(s / 60)} min ago`;
  if (s < 172_800) return `${Math.round(s / 3600)} h ago`;
  return `${Math.round(s / 86_400)} d ago`;
}

const BYTE_UNITS = ["B", "kB", "MB", "GB", "TB"] as const;

/** Such as `112.7 MB`, in decimal units. */
export function bytesText(bytes: number): string {
  const power = Math.min(BYTE_UNITS.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  return `${Number((bytes / 1000 ** power).toPrecision(4))} ${BYTE_UNITS[power]}`;
}

/** A cell of CSV (https://www.rfc-editor.org/rfc/rfc4180). A text that a spreadsheet would run as a formula gets a leading quote. */
export function csvCell(value: unknown): string {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  // https://owasp.org/www-community/attacks/CSV_Injection
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
