// Builds requests of the trace search. The attribute field contains comparisons such as `http.response.status_code>=500` or `user="Ada
// Lovelace"`, separated by spaces; the backend parses each of them and rejects invalid ones.
import type { Query } from "../state/api.ts";

const COMPARISON = /[^\s"]*"[^"]*"|\S+/g;

/** In the form of `where` of GET /query/traces/search. */
export function parseAttributes(text: string): string[] {
  return [...text.matchAll(COMPARISON)].map(([comparison]) => comparison.replace(/"([^"]*)"$/, "$1"));
}

/** The comparisons as parameters of the queries over traces. */
export function whereParameters(text: string): { where: string[] } {
  return { where: parseAttributes(text) };
}

/** An equality as users type it; undefined if the value cannot be typed. */
export function formatAttribute(key: string, value: string): string | undefined {
  if (!/^[^\s!<>="]+$/.test(key) || value.includes('"')) return undefined;
  return `${key}=${/^\S+$/.test(value) ? value : `"${value}"`}`;
}

/** A filter with an additional equality, which replaces one for the same key; undefined if it cannot be typed. */
export function addAttribute(text: string, key: string, value: string): string | undefined {
  const added = formatAttribute(key, value);
  if (added === undefined) return undefined;
  const remaining = [...text.matchAll(COMPARISON)]
    .map(([comparison]) => comparison)
    .filter((comparison) => !comparison.startsWith(`${key}=`));
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
