// Reads words and quoted texts of the log query language, each once from left to right.

export interface Quoted {
  readonly text: string;
  readonly end: number;
}

/** The text between the quote at `start` and the next, undefined if there is none. A backslash escapes a quote; others are kept. */
export function quotedAt(query: string, start: number): Quoted | undefined {
  const sign = query[start];
  let text = "";
  for (let at = start + 1; at < query.length; at++) {
    const [char = "", next] = [query[at], query[at + 1]];
    if (char === sign) return { text, end: at + 1 };
    if (char === "\\" && next !== undefined && (next === sign || (next === "\\" && sign === '"'))) {
      text += next;
      at++;
    } else text += char;
  }
  return undefined;
}

export interface Word {
  readonly text: string;
  /** `text` with `*` for any characters, and a backslash before characters that are literal. */
  readonly pattern: string;
  readonly isGlob: boolean;
  readonly end: number;
}

const ESCAPED = /[*()":=<>,\\-]/;

/** Reads up to a space; in a group, up to its `)`; in a field, also up to a comma. Brackets within a word belong to it. */
export function wordAt(query: string, start: number, { isGrouped, isOfField }: { isGrouped: boolean; isOfField: boolean }): Word {
  let [text, pattern, isGlob, open] = ["", "", false, 0];
  let at = start;
  for (; at < query.length; at++) {
    const char = query[at] ?? "";
    if (/\s/.test(char) || (isOfField && char === "," && at > start)) break;
    if (char === ")" && isGrouped && open === 0) break;
    if (char === "(") open++;
    if (char === ")") open--;
    const next = query[at + 1];
    if (char === "\\" && next !== undefined && ESCAPED.test(next)) {
      text += next;
      pattern += `\\${next}`;
      at++;
    } else if (char === "*") {
      text += char;
      pattern += "*";
      isGlob = true;
    } else {
      text += char;
      pattern += char === "\\" ? "\\\\" : char;
    }
  }
  return { text, pattern, isGlob, end: at };
}

/** The RE2 expression for a pattern with `*`. */
export function globExpression(pattern: string, { isWhole, anyCase }: { isWhole: boolean; anyCase: boolean }): string {
  let expression = "";
  for (let at = 0; at < pattern.length; at++) {
    const char = pattern[at] ?? "";
    if (char === "*") {
      if (!expression.endsWith(".*")) expression += ".*";
    } else {
      const literal = char === "\\" ? (pattern[++at] ?? "\\") : char;
      expression += literal.replace(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
    }
  }
  return `(?s${anyCase ? "i" : ""})${isWhole ? `^${expression}$` : expression.replace(/^\.\*|\.\*$/g, "")}`;
}
