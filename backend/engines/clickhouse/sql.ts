// Builds ClickHouse statements with values as literals. Invariant: an interpolated value can never end its literal. It is used instead of
// bound parameters because the embedded engine runs bound statements one at a time in the whole process.

/** A piece of SQL that is safe already; usually created by `sql`. The constructor trusts its text. */
export class Sql {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type SqlValue = Sql | string | number | bigint | readonly string[];

/**
 * Tagged template: strings become quoted literals, arrays of strings become array literals, numbers and bigints become digits, `Sql` is
 * inserted unchanged.
 */
export function sql(parts: TemplateStringsArray, ...values: SqlValue[]): Sql {
  return new Sql(parts.map((part, index) => part + (index < values.length ? literal(values[index] as SqlValue) : "")).join(""));
}

/** The conditions joined by `AND`; at least one is required. */
export function and(conditions: readonly Sql[]): Sql {
  return new Sql(conditions.map((condition) => `(${condition.text})`).join(" AND "));
}

/** The conditions joined by `OR`; at least one is required. */
export function or(conditions: readonly Sql[]): Sql {
  return new Sql(conditions.map((condition) => `(${condition.text})`).join(" OR "));
}

export function unionAll(statements: readonly Sql[]): Sql {
  return new Sql(statements.map(({ text }) => text).join(" UNION ALL "));
}

export function commaList(values: readonly SqlValue[]): Sql {
  return new Sql(values.map(literal).join(", "));
}

function literal(value: SqlValue): string {
  if (value instanceof Sql) return value.text;
  if (typeof value === "string") return quote(value);
  if (typeof value === "object") return `[${value.map(quote).join(", ")}]`;
  if (typeof value === "number" && !Number.isSafeInteger(value)) throw new RangeError(`not a safe integer: ${value}`);
  return String(value);
}

/** In ClickHouse a backslash always escapes within quotes. NUL is written as an escape because the engine expects C strings. */
function quote(text: string): string {
  return `'${text.replace(/[\\']/g, "\\$&").replaceAll("\0", "\\0")}'`;
}
