// Builds requests of the trace search. The attribute field contains comparisons such as `http.response.status_code>=500` or `user="Ada
// Lovelace"`, separated by spaces; the backend parses each of them and rejects invalid ones.
const COMPARISON = /[^\s"]*"[^"]*"|\S+/g;

/** In the form of `where` of GET /query/traces/search. */
export function readAttributes(text: string): string[] {
  return [...text.matchAll(COMPARISON)].map(([comparison]) => comparison.replace(/"([^"]*)"$/, "$1"));
}

/** The comparisons as parameters of the queries over traces. */
export function whereParameters(text: string): [string, string][] {
  return readAttributes(text).map((comparison) => ["where", comparison]);
}

/** An equality as users type it; undefined if the value cannot be typed. */
export function writtenAttribute(key: string, value: string): string | undefined {
  if (!/^[^\s!<>="]+$/.test(key) || value.includes('"')) return undefined;
  return `${key}=${/^\S+$/.test(value) ? value : `"${value}"`}`;
}

/** A filter with an additional equality, which replaces one for the same key; undefined if it cannot be typed. */
export function withAttribute(text: string, key: string, value: string): string | undefined {
  const added = writtenAttribute(key, value);
  if (added === undefined) return undefined;
  const kept = [...text.matchAll(COMPARISON)].map(([comparison]) => comparison).filter((comparison) => !comparison.startsWith(`${key}=`));
  return [...kept, added].join(" ");
}

/** Parameters of GET /query/traces/search from those of the address. */
export function searchParameters(query: URLSearchParams): [string, string][] {
  const named = (parameter: string, name: string): [string, string][] => {
    const value = query.get(name);
    return value ? [[parameter, value]] : [];
  };
  return [
    ...named("service", "service"),
    ...named("operation", "operation"),
    ...named("min_duration_ms", "min"),
    ...named("max_duration_ms", "max"),
    ...named("error", "error"),
    ...whereParameters(query.get("attributes") ?? ""),
  ];
}
