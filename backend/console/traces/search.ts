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

/** The comparisons as parameters of the queries over traces. */
export function whereParameters(text: string): { where: string[] } {
  return { where: parseAttributes(text) };
}

/** An equality as users type it. */
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
    ...whereParameters(query.get("attributes") ?? ""),
  };
}
