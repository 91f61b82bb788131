// Matchers of labels as people write them, such as severity="critical". Invariant: what is read is printed in one way, so that two spellings
// of the same matcher are the same text.
import type { ApiResponses } from "../client/api.ts";
import { Problem, WrongUsage } from "./cli-error.ts";

export type RouteMatcher = ApiResponses["GET /alerting/routes"][number]["matchers"][number];

const MATCHER = /^\s*([a-zA-Z_]\w*)\s*(=~|!=|!~|=)/;

/** Throws Problem; `where` is what it begins with. */
export function readMatcher(text: string, where: string): RouteMatcher {
  const [begin, label, op] = MATCHER.exec(text) ?? [];
  if (begin === undefined || label === undefined || op === undefined)
    throw new Problem(`${where}: ${text} is no matcher: write severity=critical, team!=shop or instance=~"db-.*"`);
  const given = text.slice(begin.length).trim();
  return { label, op: op as RouteMatcher["op"], value: given.startsWith('"') ? unquoted(given, where) : given };
}

/** Of an argument or option, printed. Throws WrongUsage. */
export function typedMatcher(text: string, where: string): string {
  try {
    return matcherText(readMatcher(text, where));
  } catch (error) {
    throw error instanceof Problem ? new WrongUsage(error.message) : error;
  }
}

export function matcherText({ label, op, value }: RouteMatcher): string {
  return `${label}${op}${JSON.stringify(value)}`;
}

/** As Alertmanager's API has them. */
export function toAlertmanager({ label, op, value }: RouteMatcher): object {
  return { name: label, value, isRegex: op.endsWith("~"), isEqual: op.startsWith("=") };
}

export function fromAlertmanager({ name, value, isRegex, isEqual }: Record<string, unknown>): RouteMatcher {
  return { label: String(name), op: isEqual === false ? (isRegex ? "!~" : "!=") : isRegex ? "=~" : "=", value: String(value) };
}

function unquoted(text: string, where: string): string {
  const [, inner] = /^"((?:[^"\\]|\\[^])*)"$/.exec(text) ?? [];
  if (inner === undefined) throw new Problem(`${where}: ${text}: a quote is not closed, or one within is not written as \\"`);
  return inner.replaceAll(/\\([n"\\])/g, (_, escape: string) => (escape === "n" ? "\n" : escape));
}
