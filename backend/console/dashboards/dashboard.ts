// The model of a dashboard: panels with queries of metrics, logs or traces, and variables that the queries contain. The backend stores it in
// this form (docs/console.md).
import type { Unit } from "../metrics/unit.ts";

export const PANEL_KINDS = ["timeseries", "stat", "table", "list", "text"] as const;
export type PanelKind = (typeof PANEL_KINDS)[number];
export const SOURCES = ["metrics", "logs", "traces"] as const;
export type Source = (typeof SOURCES)[number];

export interface PanelQuery {
  /** PromQL, a log query, or comparisons with span attributes, depending on the panel's `source`. */
  readonly query: string;
  /** Name of a series, with `{{label}}` for the value of a label. */
  readonly legend?: string;
}

export interface Panel {
  readonly title: string;
  readonly kind: PanelKind;
  readonly source: Source;
  readonly unit?: Unit;
  /** Width in columns, of 12. */
  readonly width: number;
  readonly queries: readonly PanelQuery[];
  /** Only for a text panel. */
  readonly text?: string;
}

/** A variable whose value the reader chooses: one of `values`, or a value of `label` in the series of `query`. */
export interface Variable {
  readonly name: string;
  readonly query?: string;
  readonly label?: string;
  readonly values?: readonly string[];
}

export interface Dashboard {
  readonly name: string;
  readonly description: string;
  readonly variables: readonly Variable[];
  readonly panels: readonly Panel[];
}

export type Chosen = Readonly<Record<string, string>>;

/** `$name`, `${name}`, `${name:regex}` and `[[name]]`. */
const VARIABLE = /\$\{(\w+)(?::\w+)?\}|\$(\w+)|\[\[(\w+)\]\]/g;

/** Names of the variables that a query contains. */
export function variablesIn(query: string): string[] {
  return [...query.matchAll(VARIABLE)].map(([, braced, plain, bracketed]) => braced ?? plain ?? bracketed ?? "");
}

/**
 * Replaces variables in a query by their values. A value inside a string cannot end the string: its quotes are escaped, and so is its
 * regular expression syntax if it is compared by `=~`. Outside a string, only a word or a number is inserted.
 */
export function filled(query: string, chosen: Chosen): string {
  return query.replace(VARIABLE, (written: string, ...groups: unknown[]) => {
    const [braced, plain, bracketed, offset] = groups as [string?, string?, string?, number?];
    const name = braced ?? plain ?? bracketed ?? "";
    const value = Object.hasOwn(chosen, name) ? chosen[name] : undefined;
    if (value === undefined) return written;
    const before = openString(query.slice(0, offset));
    if (before === undefined) return /^[\w.:]+$/.test(value) ? value : written;
    const text = /[=!]~\s*$/.test(before) ? value.replaceAll(/[$()*+.?[\\\]^{|}]/g, "\\$&") : value;
    return text.replaceAll(/["'\\`\n]/g, (char) => (char === "\n" ? "\\n" : `\\${char}`));
  });
}

/** The text before the quote of a string that is still open at the end; undefined outside strings. */
function openString(text: string): string | undefined {
  let start = -1;
  for (let at = 0; at < text.length; at++) {
    const char = text[at] ?? "";
    if (start >= 0 && char === "\\") at++;
    else if (start >= 0 && char === text[start]) start = -1;
    else if (start < 0 && `"'\``.includes(char)) start = at;
  }
  return start < 0 ? undefined : text.slice(0, start);
}

/** Replaces `{{pod}} {{container}}` by the series' labels. */
export function legendOf(legend: string, labels: Readonly<Record<string, string>>): string {
  return legend.replaceAll(/\{\{\s*([\w.]+)\s*\}\}/g, (_written, label: string) => labels[label] ?? "").trim();
}
