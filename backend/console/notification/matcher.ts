// Several label matchers, one per line, and the matchers of an alert (client/matcher.ts). Invariant: every character of a formatted matcher
// is visible, and parsing it returns the same matcher.
import { formatMatcher, type Matcher, parseMatcher } from "../../client/matcher.ts";
import { UNSEEN } from "../parts/text.ts";

export type Labels = Readonly<Record<string, string>>;

const MAX_MATCHERS = 20;

/** Throws an Error whose message is shown to the user. */
export function parseMatchers(text: string): Matcher[] {
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map(parseMatcher);
}

export function splitNames(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

export function formatMatchers(matchers: readonly Matcher[]): string {
  return matchers.map(formatVisibleMatcher).join("\n");
}

/** The form that users read and type; invisible characters are escaped, such as `\u202e`. */
export function formatVisibleMatcher(matcher: Matcher): string {
  return formatMatcher(matcher).replaceAll(UNSEEN, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Matchers that match this alert, and no alert with other values of these labels. */
export function matchersOf({ alertname = "", ...labels }: Labels): Matcher[] {
  return Object.entries({ alertname, ...labels })
    .map(([label, value]): Matcher => ({ label, op: "=", value }))
    .slice(0, MAX_MATCHERS);
}

/** Equal for two alerts with the same labels. */
export function labelsKey(labels: Labels): string {
  return JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
}
