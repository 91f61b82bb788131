// The query line of the logs screen, and the filters of GET /query/logs that it stands for. The grammar, words parted by spaces:
//   text        the message has it             -text        has it not         "two words"
//   /regex/     is found in the message        -/regex/     is not             (RE2)
//   name:value  of that level, source, node, host_id or trace_id
//   key=value   has this label                 -key=value   has not            key="two words"
// Invariant: what is written back from filters reads as the same filters.
export const FIELDS = ["level", "source", "node", "host_id", "trace_id"] as const;

export interface Term {
  readonly kind: "text" | "regex" | "field" | "label";
  readonly not: boolean;
  /** Of a field or a label. */
  readonly name: string;
  readonly value: string;
}

export type Filters = readonly (readonly [string, string])[];

/** Throws an Error with words for whoever types. */
export function filtersOf(line: string): Filters {
  return termsOf(line).map(filterOf);
}

function filterOf({ kind, not, name, value }: Term): readonly [string, string] {
  if (kind === "text") return [not ? "not_q" : "q", value];
  if (kind === "regex") return [not ? "not_regex" : "regex", value];
  if (kind === "label") return [`${not ? "not_label" : "label"}.${name}`, value];
  if (not) throw new Error(`-${name}:… cannot be asked: only text, /regex/ and labels can be left out`);
  return [name, value];
}

export function termsOf(line: string): Term[] {
  const terms: Term[] = [];
  for (let at = 0; at < line.length;) {
    if (/\s/.test(line[at] ?? "")) at++;
    else {
      const { term, end } = termAt(line, at);
      terms.push(term);
      at = end;
    }
  }
  return terms;
}

function termAt(line: string, start: number): { term: Term; end: number } {
  const not = line[start] === "-" && /\S/.test(line[start + 1] ?? " ");
  const at = not ? start + 1 : start;
  if (line[at] === "/") {
    const [value, end] = until(line, at + 1, "/");
    return { term: { kind: "regex", not, name: "", value }, end };
  }
  const named = /^([\w.\-/]+)([:=])(?=\S)/.exec(line.slice(at));
  const [head = "", name = "", sign] = named ?? [];
  const isField = sign === ":" && (FIELDS as readonly string[]).includes(name);
  if (named && (isField || sign === "=")) {
    const [value, end] = valueAt(line, at + head.length);
    return { term: { kind: isField ? "field" : "label", not, name, value }, end };
  }
  const [value, end] = valueAt(line, at);
  return { term: { kind: "text", not, name: "", value }, end };
}

/** A word, or what stands between quotes. */
function valueAt(line: string, at: number): [string, number] {
  if (line[at] === '"') return until(line, at + 1, '"');
  const [word = ""] = /^\S+/.exec(line.slice(at)) ?? [];
  return [word, at + word.length];
}

/** Up to the closing sign; a backslash keeps it, all others are the expression's own. */
function until(line: string, start: number, sign: string): [string, number] {
  let value = "";
  for (let at = start; at < line.length; at++) {
    const [char, next] = [line[at], line[at + 1]];
    if (char === sign) return [value, at + 1];
    if (char === "\\" && next !== undefined && (next === sign || (next === "\\" && sign === '"'))) {
      value += next;
      at++;
    } else value += char;
  }
  throw new Error(sign === "/" ? "the regular expression has no closing /" : 'a closing " is missing');
}

/** One term as it is typed. */
export function written({ kind, not, name, value }: Term): string {
  const sign = not ? "-" : "";
  if (kind === "regex") return `${sign}/${value.replaceAll("/", "\\/")}/`;
  if (kind === "field") return `${sign}${name}:${quoted(value)}`;
  if (kind === "label") return `${sign}${name}=${quoted(value)}`;
  const looksLikeMore = /^[-/"]/.test(value) || /^[\w.\-/]+[:=]\S/.test(value);
  return `${sign}${looksLikeMore ? inQuotes(value) : quoted(value)}`;
}

/** The line with one more term, and without its opposite. */
export function withTerm(line: string, term: Term): string {
  const others = termsOf(line).filter(
    (other) =>
      !(other.kind === term.kind && other.name === term.name && (other.value === term.value || (term.kind === "field" && !term.not))),
  );
  return [...others, term].map(written).join(" ");
}

function quoted(value: string): string {
  return value === "" || /[\s"\\]/.test(value) ? inQuotes(value) : value;
}

function inQuotes(value: string): string {
  return `"${value.replace(/["\\]/g, "\\$&")}"`;
}
