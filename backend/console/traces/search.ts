// Builds requests of the trace search. The attribute field contains comparisons such as `http.response.status_code>=500`, `user="Ada
// Lovelace"` or `"user name"=Ada`, separated by spaces; the backend parses each of them and rejects invalid ones.
import type { Query } from "../state/api.ts";

const COMPARISON = /(?:"(?:[^"\\]|\\.)*"|[^\s"])+|\S+/gs;
/** The key, quoted or not, and a quoted value. */
const QUOTED_VALUE = /^((?:"(?:[^"\\]|\\.)*"|[^\s!<>="]+)(?:!=|>=|<=|=|>|<))"((?:[^"\\]|\\.)*)"$/s;

/** In the form of `where` of GET /query/traces/search. */
export function parseAttributes(text: string): string[] {
  return [...text.matchAll(COMPARISON)].map(([comparison]) => {
    const [, start, value] = QUOTED_VALUE.exec(comparison) ?? [];
    return value === undefined ? comparison : `${start}${value.replaceAll(/\\(["\\])/g, "$1")}`;
  });
}

export function formatAttribute(key: string, value: string): string {
  return `${/^[^\s!<>="\\]+$/.test(key) ? key : quote(key)}=${/^[^\s"\\]+$/.test(value) ? value : quote(value)}`;
}

function quote(text: string): string {
  return `"${text.replaceAll(/["\\]/g, "\\$&")}"`;
}

/** A filter with an additional equality, which replaces one for the same key. */
export function addAttribute(text: string, key: string, value: string): string {
  const added = formatAttribute(key, value);
  const start = added.slice(0, formatAttribute(key, "").length - '""'.length);
  const remaining = [...text.matchAll(COMPARISON)].map(([comparison]) => comparison).filter((comparison) => !comparison.startsWith(start));
  return [...remaining, added].join(" ");
}

/** Parameters of GET /query/traces/search from those of the address. */
export function searchParameters(query: URLSearchParams): Query {
  const named = (name: string): string | undefined => query.get(name) || undefined;
  return {
    service: named("service"),
    operation: named("operation"),
    min_duration_ms: named("min"),
    max_duration_ms: named("max"),
    error: named("error"),
    where: parseAttributes(query.get("attributes") ?? ""),
  };
}

/** What the fields of a search are called in the query of a dashboard's panel, next to comparisons of attributes: the parameter of the address. */
const FIELDS: readonly (readonly [start: string, parameter: "service" | "operation" | "min" | "max" | "error"])[] = [
  ["service=", "service"],
  ["operation=", "operation"],
  ["duration_ms>=", "min"],
  ["duration_ms<=", "max"],
  ["error=", "error"],
];

/** The search of an address as the query of a panel, such as `service=checkout duration_ms>=400 http.route=/cart`. */
export function panelQuery(query: URLSearchParams): string {
  const fields = FIELDS.flatMap(([start, parameter]) => {
    const value = query.get(parameter);
    return value ? [`${start}${/^[^\s"\\]+$/.test(value) ? value : quote(value)}`] : [];
  });
  return [...fields, query.get("attributes") ?? ""].filter(Boolean).join(" ");
}

export function searchOfPanel(text: string): Readonly<Record<string, string>> {
  const search: Record<string, string> = {};
  const attributes: string[] = [];
  for (const [comparison] of text.matchAll(COMPARISON)) {
    const [start = "", parameter] = FIELDS.find(([name]) => comparison.startsWith(name)) ?? [];
    if (parameter === undefined) attributes.push(comparison);
    else search[parameter] = parseAttributes(comparison)[0]?.slice(start.length) ?? "";
  }
  return { ...search, ...(attributes.length > 0 && { attributes: attributes.join(" ") }) };
}

/** The query of a panel as parameters of the queries over traces. */
export function panelParameters(text: string): Query {
  return searchParameters(new URLSearchParams(searchOfPanel(text)));
}
