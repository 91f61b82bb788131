// Patterns of Loki such as "<method> <_> <status>": texts, and captures between them. Invariant: two captures never stand side by side,
// because nothing would tell where one ends.
import type { Pattern } from "./regex.ts";
import { wrongQuery } from "./literals.ts";
import { findText } from "./record-work.ts";

export type PatternPart = { readonly text: string } | { readonly capture: string };

const CAPTURE = /<([a-zA-Z_]\w*)>/g;

function partsOf(pattern: string): PatternPart[] {
  const parts: PatternPart[] = [];
  let at = 0;
  for (const match of pattern.matchAll(CAPTURE)) {
    if (match.index > at) parts.push({ text: pattern.slice(at, match.index) });
    parts.push({ capture: match[1] as string });
    at = match.index + match[0].length;
  }
  if (at < pattern.length) parts.push({ text: pattern.slice(at) });
  const adjacent = parts.some((part, index) => "capture" in part && "capture" in (parts[index + 1] ?? { text: "" }));
  if (adjacent)
    throw wrongQuery(`pattern ${JSON.stringify(pattern)}: invalid expression: found consecutive capture; write a text between them`);
  return parts;
}

/** Of the stage pattern. Throws ApiError invalid_parameter. */
export function parsePattern(pattern: string): PatternPart[] {
  const parts = partsOf(pattern);
  const names = parts.flatMap((part) => ("capture" in part && part.capture !== "_" ? [part.capture] : []));
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (names.length === 0) throw wrongQuery(`pattern ${JSON.stringify(pattern)}: at least one capture is required`);
  if (twice !== undefined) throw wrongQuery(`pattern ${JSON.stringify(pattern)}: duplicate capture name ${twice}`);
  return parts;
}

/** Of a line filter. Throws ApiError invalid_parameter. */
export function linePattern(pattern: string): PatternPart[] {
  const parts = partsOf(pattern);
  if (parts.some((part) => "capture" in part && part.capture !== "_"))
    throw wrongQuery(`pattern ${JSON.stringify(pattern)}: named captures are not allowed in a line filter: write <_>`);
  return parts;
}

/** What the captures of a line are. */
export function capturesOf(parts: readonly PatternPart[], line: string): [name: string, value: string][] {
  const found: [string, string][] = [];
  const [first] = parts;
  if (line === "" || !first) return found;
  const begins = "text" in first ? first.text : "";
  if (!line.startsWith(begins)) return found;
  let at = begins.length;
  for (let index = begins === "" ? 0 : 1; index < parts.length; index += 2) {
    const { capture } = parts[index] as { capture: string };
    const next = parts[index + 1] as { text: string } | undefined;
    const end = next ? findText(line, next.text, at) : -1;
    if (capture !== "_") found.push([capture, end === -1 ? line.slice(at) : line.slice(at, end)]);
    if (!next || end === -1) return found;
    at = end + next.text.length;
  }
  return found;
}

/** Whether a line is like the pattern of a line filter: each capture stands for something. */
export function isLike(parts: readonly PatternPart[], line: string): boolean {
  if (line === "" || parts.length === 0) return line === "" && parts.length === 0;
  let at = 0;
  for (const [index, part] of parts.entries()) {
    if (!("text" in part)) continue;
    const found = findText(line, part.text, at);
    if (found === -1 || (index !== 0 && found === at)) return false;
    at = found + part.text.length;
  }
  const endsOpen = "capture" in (parts.at(-1) as PatternPart);
  return endsOpen === (at !== line.length);
}

/** The names of the groups of the stage regexp, by their number. Throws ApiError invalid_parameter. */
export function captureNames(pattern: Pattern, text: string): [index: number, name: string][] {
  const names = Object.entries(pattern.names).map(([name, index]): [number, string] => [index, name]);
  if (names.length === 0)
    throw wrongQuery(`regexp ${JSON.stringify(text)}: at least one named capture must be supplied, such as (?P<status>\\d+)`);
  return names.sort(([one], [other]) => one - other);
}
