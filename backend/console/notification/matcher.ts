// Parses and formats label matchers as users type them, one per line: `severity="critical"`, `team!=shop`, `instance=~"db-.*"`. Invariants:
// parsing a formatted matcher returns the same matcher; every character is visible. The backend validates and evaluates them.
import type { ApiResponses } from "../../client/api.ts";
import { UNSEEN } from "../parts/text.ts";

/** In the form of routes. */
export type Matcher = ApiResponses["GET /alerting/routes"][number]["matchers"][number];

/** In the form of silences. */
export type SilenceMatcher = ApiResponses["GET /alerting/silences"][number]["matchers"][number];

export type Labels = Readonly<Record<string, string>>;

/** Matchers per route or silence. */
const MOST_MATCHERS = 20;
const BEGIN = /^\s*([a-zA-Z_]\w*)\s*(=~|!=|!~|=)/;
const QUOTED = /^"((?:[^"\\]|\\[^])*)"$/;

/** Throws an Error whose message is shown to the user. */
export function matchersRead(text: string): Matcher[] {
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map(matcherRead);
}

export function matchersWritten(matchers: readonly Matcher[]): string {
  return matchers.map(matcherWritten).join("\n");
}

/** The form that users read and type; invisible characters are escaped, such as `\u202e`. */
export function matcherWritten(matcher: Matcher): string {
  return matcherAsked(matcher).replaceAll(UNSEEN, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The form that the alerting API accepts as a filter. */
export function matcherAsked({ label, op, value }: Matcher): string {
  const escaped = value.replaceAll(/["\\\n]/g, (sign) => (sign === "\n" ? String.raw`\n` : `\\${sign}`));
  return `${label}${op}"${escaped}"`;
}

/** Matchers that match this alert, and no alert with other values of these labels. */
export function matchersOf({ alertname = "", ...labels }: Labels): Matcher[] {
  return Object.entries({ alertname, ...labels })
    .map(([label, value]): Matcher => ({ label, op: "=", value }))
    .slice(0, MOST_MATCHERS);
}

export function toSilence({ label, op, value }: Matcher): SilenceMatcher {
  return { name: label, value, isRegex: op.endsWith("~"), isEqual: op.startsWith("=") };
}

export function fromSilence({ name, value, isRegex, isEqual }: SilenceMatcher): Matcher {
  return { label: name, op: isEqual ? (isRegex ? "=~" : "=") : isRegex ? "!~" : "!=", value };
}

/** Equal for two alerts with the same labels. */
export function labelsKey(labels: Labels): string {
  return JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function matcherRead(line: string): Matcher {
  const [begin, label, operator] = BEGIN.exec(line) ?? [];
  const shown = line.trim().slice(0, 60);
  if (begin === undefined || label === undefined || operator === undefined)
    throw new Error(`${shown} is no matcher: write severity="critical", team!="shop" or instance=~"db-.*"`);
  const op = operator as Matcher["op"];
  const given = line.slice(begin.length).trim();
  if (!given.startsWith('"')) return { label, op, value: given };
  const [, inner] = QUOTED.exec(given) ?? [];
  if (inner === undefined) throw new Error(String.raw`${shown}: a quote is not closed, or one within is not written as \"`);
  return { label, op, value: inner.replaceAll(/\\(u[0-9a-f]{4}|[n"\\])/g, unescaped) };
}

function unescaped(_: string, sign: string): string {
  if (sign.length > 1) return String.fromCharCode(Number.parseInt(sign.slice(1), 16));
  return sign === "n" ? "\n" : sign;
}
