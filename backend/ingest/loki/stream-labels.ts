// Reads the labels of a stream as Loki's protobuf has them: `{job="varlogs", host="a"}`, values as Go quotes them. Invariant: one pass, and text
// that is not a list of labels throws `invalid_payload`.
import { ApiError } from "../../errors.ts";
import { MAX_LABELS_OF_STREAM, MAX_STREAM_LABELS_LENGTH } from "../limits.ts";

const LABEL = /\s*([a-zA-Z_]\w*)\s*=\s*("(?:[^"\\]|\\.)*"|`[^`]*`)\s*(,|$)/suy;
const ESCAPE = /\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|([0-3][0-7]{2})|(.))/gisu;
const CONTROL: Readonly<Record<string, string>> = { a: "\x07", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t", v: "\v" };
const MAX_CODE_POINT = 0x10ffff;
/** Longer texts are quoted in messages up to here. */
const QUOTED_CHARACTERS = 100;

export function parseStreamLabels(text: string): [name: string, value: string][] {
  if (text.length > MAX_STREAM_LABELS_LENGTH) throw invalid(`the labels of a stream have more than ${MAX_STREAM_LABELS_LENGTH} characters`);
  const trimmed = text.trim();
  if (!trimmed.startsWith("{") || !trimmed.endsWith("}")) throw wrong(text);
  const inner = trimmed.slice(1, -1).trim();
  const labels: [string, string][] = [];
  for (let at = 0; at < inner.length; at = LABEL.lastIndex) {
    LABEL.lastIndex = at;
    const [, name, literal] = LABEL.exec(inner) ?? [];
    if (name === undefined || literal === undefined) throw wrong(text);
    if (labels.length === MAX_LABELS_OF_STREAM) throw invalid(`a stream has more than ${MAX_LABELS_OF_STREAM} labels`);
    labels.push([name, unquote(literal)]);
  }
  return labels;
}

function unquote(literal: string): string {
  const inner = literal.slice(1, -1);
  if (literal.startsWith("`") || !inner.includes("\\")) return inner;
  return inner.replaceAll(ESCAPE, (_, hex?: string, four?: string, eight?: string, octal?: string, other = "") => {
    const digits = hex ?? four ?? eight ?? octal;
    if (digits === undefined) return CONTROL[other as string] ?? (other as string);
    const code = Number.parseInt(digits, octal === undefined ? 16 : 8);
    return code > MAX_CODE_POINT ? "\uFFFD" : String.fromCodePoint(code);
  });
}

function wrong(text: string): ApiError {
  const shown = JSON.stringify(text.slice(0, QUOTED_CHARACTERS));
  return invalid(`${shown} is not a list of labels such as {job="a"}`);
}

function invalid(what: string): ApiError {
  return new ApiError("invalid_payload", `not a Loki push request, nothing was stored: ${what}`);
}
