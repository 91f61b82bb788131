// Label matchers as users type them: `severity="critical"`, `team!=shop`, `instance=~"db-.*"`, for the CLI and the console. Invariant:
// parsing a formatted matcher returns the same matcher. The backend validates and evaluates them.
import type { ApiResponses } from "./api.ts";

/** A matcher in the format of routes. */
export type Matcher = ApiResponses["GET /alerting/routes"][number]["matchers"][number];

/** A matcher in the format of silences, which is Alertmanager's. */
export type SilenceMatcher = ApiResponses["GET /alerting/silences"][number]["matchers"][number];

const MATCHER = /^\s*([a-zA-Z_]\w*)\s*(=~|!=|!~|=)([^]*)$/;
const QUOTED = /^"((?:[^"\\]|\\[^])*)"$/;

/** Throws an Error whose message is shown to the user. */
export function parseMatcher(text: string): Matcher {
  const [, label, op, rest = ""] = MATCHER.exec(text) ?? [];
  const shown = text.trim().slice(0, 60);
  if (label === undefined || op === undefined)
    throw new Error(`${shown} is no matcher: write severity="critical", team!="shop" or instance=~"db-.*"`);
  const value = rest.trim();
  if (!value.startsWith('"')) return { label, op: op as Matcher["op"], value };
  const [, inner] = QUOTED.exec(value) ?? [];
  if (inner === undefined) throw new Error(String.raw`${shown}: a quote is not closed, or one within is not written as \"`);
  return { label, op: op as Matcher["op"], value: inner.replaceAll(/\\(u[0-9a-f]{4}|[n"\\])/g, unescapeSequence) };
}

function unescapeSequence(_: string, sign: string): string {
  if (sign.length > 1) return String.fromCharCode(Number.parseInt(sign.slice(1), 16));
  return sign === "n" ? "\n" : sign;
}

/** The form that the alerting API accepts as a filter. */
export function formatMatcher({ label, op, value }: Matcher): string {
  return `${label}${op}"${value.replaceAll(/["\\\n]/g, (sign) => (sign === "\n" ? String.raw`\n` : `\\${sign}`))}"`;
}

export function toSilence({ label, op, value }: Matcher): SilenceMatcher {
  return { name: label, value, isRegex: op.endsWith("~"), isEqual: op.startsWith("=") };
}

export function fromSilence({ name, value, isRegex, isEqual }: SilenceMatcher): Matcher {
  return { label: name, op: isEqual ? (isRegex ? "=~" : "=") : isRegex ? "!~" : "!=", value };
}
