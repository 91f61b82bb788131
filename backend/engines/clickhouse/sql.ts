// Builds ClickHouse statements with values as literals. Invariant: a value that is interpolated can never end its literal. Used instead
// of bound parameters because the embedded engine runs bound statements one at a time in the whole process.

/** A piece of SQL that is already safe. Made by `sql` only. */
export class Sql {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type SqlValue = Sql | string | number | bigint | readonly string[];

/** Tagged template: strings become quoted literals, arrays of strings array literals, numbers and bigints digits, `Sql` stays. */
export function sql(parts: TemplateStringsArray, ...values: SqlValue[]): Sql {
  return new Sql(parts.map((part, index) => part + (index < values.length ? literal(values[index] as SqlValue) : "")).join(""));
}

/** `AND` between the conditions; at least one is needed. */
export function and(conditions: readonly Sql[]): Sql {
  return new Sql(conditions.map((condition) => `(${condition.text})`).join(" AND "));
}

function literal(value: SqlValue): string {
  if (value instanceof Sql) return value.text;
  if (typeof value === "string") return quote(value);
  if (typeof value === "object") return `[${value.map(quote).join(", ")}]`;
  if (typeof value === "number" && !Number.isSafeInteger(value)) throw new RangeError(`not a safe integer: ${value}`);
  return String(value);
}

/** In ClickHouse a backslash always escapes within quotes; NUL is written as an escape because the engine takes C strings. */
function quote(text: string): string {
  return `'${text.replace(/[\\']/g, "\\$&").replaceAll("\0", "\\0")}'`;
}
