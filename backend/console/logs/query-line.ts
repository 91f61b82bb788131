// Edits the query line of the log explorer as text: adds and removes single conditions. The backend parses the line (docs/log-query.md), so
// this file only knows where one condition ends and the next begins. Invariant: the text written for a value matches exactly this value.
import { isLogQl } from "../../client/query-syntax.ts";

/** A condition that is added by a click. */
export interface Term {
  readonly not: boolean;
  /** A field as GET /query/logs/fields names it, such as `level` or `label.http.route`; empty: the message contains `value`. */
  readonly name: string;
  readonly value: string;
  /** `value` is only the start of what the field contains. */
  readonly isCut?: boolean;
}

/** Labels of LogQL whose names differ from those of the fields by more than other characters. */
const LOGQL_LABELS: Readonly<Record<string, string>> = { source: "service_name", service: "service_name", scope: "scope_name" };

function logQlStage({ not, name, value, isCut }: Term): string {
  if (name === "") return `${not ? "!=" : "|="} ${JSON.stringify(value)}`;
  if (isCut) return `| ${logQlLabel(name)}${not ? "!~" : "=~"}${JSON.stringify(`(?s)${escapeStart(value)}.*`)}`;
  return `| ${logQlLabel(name)}${not ? "!=" : "="}${JSON.stringify(value)}`;
}

/** A field as GET /query/logs/fields names it or a user writes it, as a label of LogQL. */
export function logQlLabel(field: string): string {
  const key = LOGQL_LABELS[field] ?? field.replaceAll(/^"|"$/g, "").replace(/^label\./, "");
  return key.replace(/^\d/, "_$&").replace(/[^a-zA-Z0-9_]/g, "_");
}

/** The line with one more stage, without its opposite, and without a stage for another value of the same label. */
function addStage(line: string, term: Term): string {
  const remaining = line.replaceAll(` ${logQlStage(term)}`, "").replaceAll(` ${logQlStage({ ...term, not: !term.not })}`, "");
  const others = new RegExp(` \\| ${logQlLabel(term.name)}="(?:[^"\\\\]|\\\\.)*"`, "g");
  return `${(term.not || term.name === "" ? remaining : remaining.replace(others, "")).trimEnd()} ${logQlStage(term)}`;
}

const LABEL = "label.";
const OWN_FIELDS: ReadonlySet<string> = new Set([
  "level",
  "source",
  "service",
  "node",
  "host_id",
  "trace_id",
  "span_id",
  "scope",
  "message",
  "severity_number",
]);
const OPERATORS: ReadonlySet<string> = new Set(["AND", "OR", "NOT"]);

export function formatTerm({ not, name, value, isCut }: Term): string {
  const sign = not ? "-" : "";
  if (isCut && name !== "") return `${sign}${formatFieldName(name)}:/^${escapeStart(value)}/`;
  if (name !== "") return `${sign}${formatFieldName(name)}:${quoteIfNeeded(value)}`;
  return `${sign}${/[:=]/.test(value) || OPERATORS.has(value) ? quote(value) : quoteIfNeeded(value)}`;
}

export function formatFieldName(name: string): string {
  const key = name.startsWith(LABEL) ? name.slice(LABEL.length) : name;
  const isAmbiguous = name !== key && (OWN_FIELDS.has(key) || key.startsWith(LABEL));
  const typed = isAmbiguous ? name : key;
  return /^[A-Za-z_@][\w.@/-]*$/.test(typed) ? typed : quote(typed);
}

/** The line with an additional condition, without its opposite and without other values of the same field. */
export function addTerm(line: string, term: Term): string {
  if (isLogQl(line)) return addStage(line, term);
  const pieces = splitQuery(line);
  if (pieces.includes("OR")) return `(${line.trim()}) ${formatTerm(term)}`;
  const replaced = new Set([formatTerm(term), formatTerm({ ...term, not: !term.not })]);
  const field = term.name !== "" && !term.not ? `${formatFieldName(term.name)}:` : undefined;
  const remaining = removePieces(pieces, (piece) => replaced.has(piece) || (field !== undefined && piece.startsWith(field)));
  return [...remaining, formatTerm(term)].join(" ");
}

/** The line with an additional condition in the query language. */
export function addCondition(line: string, condition: string): string {
  if (isLogQl(line)) return `${line.trimEnd()} ${patternStage(condition)}`;
  const pieces = splitQuery(line);
  if (pieces.includes(condition)) return line;
  return pieces.includes("OR") ? `(${line.trim()}) ${condition}` : [...pieces, condition].join(" ");
}

export function hasTerm(line: string, term: Term): boolean {
  return isLogQl(line) ? line.includes(` ${logQlStage(term)}`) : splitQuery(line).includes(formatTerm(term));
}

export function removeTerm(line: string, term: Term): string {
  if (isLogQl(line)) return line.replaceAll(` ${logQlStage(term)}`, "");
  const removed = formatTerm(term);
  return removePieces(splitQuery(line), (piece) => piece === removed).join(" ");
}

/** The fields for which a line chooses values, each with the line without that choice; none for LogQL, and for conditions that OR joins. */
export function chosenFields(line: string): { readonly field: string; readonly rest: string }[] {
  const pieces = splitQuery(line);
  if (isLogQl(line) || pieces.includes("OR") || pieces.includes("NOT")) return [];
  const fields = pieces.flatMap((piece) => /^("(?:[^"\\]|\\.)*"|[A-Za-z_@][\w.@/-]*):(?!\/\/)./.exec(piece)?.[1] ?? []);
  return [...new Set(fields)].map((field) => ({ field, rest: removePieces(pieces, (piece) => piece.startsWith(`${field}:`)).join(" ") }));
}

/** An operator that would lose its condition is removed too. */
function removePieces(pieces: readonly string[], isRemoved: (piece: string) => boolean): string[] {
  const conditions = pieces.filter((piece, at) => {
    const condition = piece === "NOT" ? (pieces.slice(at).find((other) => other !== "NOT") ?? piece) : piece;
    return !isRemoved(condition);
  });
  return conditions.filter((piece, at) => {
    const [before, next] = [conditions[at - 1], conditions[at + 1]];
    return piece !== "AND" || (before !== undefined && next !== undefined && next !== "AND");
  });
}

/** The conditions and operators of a line; a group is one piece. */
export function splitQuery(line: string): string[] {
  const pieces: string[] = [];
  let [start, depth] = [-1, 0];
  for (let at = 0; at <= line.length; at++) {
    const char = line[at] ?? " ";
    if (/\s/.test(char) && (depth === 0 || at === line.length)) {
      if (start >= 0) pieces.push(line.slice(start, at));
      start = -1;
      continue;
    }
    if (start < 0) start = at;
    if (char === "\\") at++;
    else if (char === '"' || (char === "/" && isAtStart(line, start, at))) at = closingAt(line, at);
    else if (char === "(") depth++;
    else if (char === ")") depth = Math.max(0, depth - 1);
  }
  return pieces;
}

function isAtStart(line: string, start: number, at: number): boolean {
  return at === start || (at === start + 1 && line[start] === "-");
}

/** An unclosed quote extends to the end; the backend refuses it. */
function closingAt(line: string, start: number): number {
  for (let at = start + 1; at < line.length; at++) {
    if (line[at] === "\\") at++;
    else if (line[at] === line[start]) return at;
  }
  return line.length - 1;
}

function quoteIfNeeded(value: string): string {
  return /^[\w@.][\w@.+/:-]*$/.test(value) ? value : quote(value);
}

function quote(value: string): string {
  return `"${value.replace(/["\\]/g, "\\$&")}"`;
}

const GAP = "<_>";
/** The backend allows 50 parts of variable length in the regular expressions of a query. */
const MAX_GAPS = 20;
const MAX_CHARACTERS = 500;

/**
 * The condition for the records of a pattern: a regular expression that is anchored at the start of the message and matches the text of the
 * pattern literally. Undefined if the pattern has no text of its own.
 */
export function patternCondition(pattern: string): string | undefined {
  const parts = pattern
    .slice(0, MAX_CHARACTERS)
    .split(GAP)
    .slice(0, MAX_GAPS + 1);
  if (parts.every((part) => part.trim() === "")) return undefined;
  // The last part may be cut inside of `<_>`.
  const last = parts.at(-1)?.replace(/<_?$/, "") ?? "";
  const expression = [...parts.slice(0, -1), last].map(escapeExpression).join(".*");
  return `/^${expression}/`;
}

/** The condition of a pattern, or its negation, as a stage of LogQL. */
function patternStage(condition: string): string {
  return `${condition.startsWith("-") ? "!~" : "|~"} ${JSON.stringify(condition.replace(/^-?\/|\/$/g, "").replaceAll("\\/", "/"))}`;
}

/** The backend allows 1000 characters in the regular expressions of a query. */
const MAX_START_CHARACTERS = 900;

/** As much of the text as fits, escaped like an expression; spaces and quotes are numbers, so that they do not end the condition. */
function escapeStart(text: string): string {
  let expression = "";
  for (const character of text) {
    const escaped = /[\p{Cc}\s"]/u.test(character)
      ? `\\x{${character.codePointAt(0)?.toString(16)}}`
      : character.replace(/[\\^$.*+?()[\]{}|/]/, "\\$&");
    if (expression.length + escaped.length > MAX_START_CHARACTERS) break;
    expression += escaped;
  }
  return expression;
}

/** Escaped for RE2 and for the slashes of the query language. */
function escapeExpression(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, "\\$&").replaceAll(/\s/g, (space) => (space === " " ? " " : "\\s"));
}
