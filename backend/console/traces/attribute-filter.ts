// The attribute field of the trace search: comparisons such as `http.response.status_code>=500` or `user="Ada Lovelace"`, separated by spaces.
// The backend reads each of them, and refuses what it does not understand.
const COMPARISON = /[^\s"]*"[^"]*"|\S+/g;

/** As GET /query/traces/search takes them in `where`. */
export function readAttributes(text: string): string[] {
  return [...text.matchAll(COMPARISON)].map(([comparison]) => comparison.replace(/"([^"]*)"$/, "$1"));
}

/** One equality as it is typed; undefined if it cannot be. */
export function writtenAttribute(key: string, value: string): string | undefined {
  if (!/^[^\s!<>="]+$/.test(key) || value.includes('"')) return undefined;
  return `${key}=${/^\S+$/.test(value) ? value : `"${value}"`}`;
}
