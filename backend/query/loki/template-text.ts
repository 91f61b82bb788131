// Cuts a template into its texts and its actions ({{ … }}), one step a character. A regular expression for this tries each quotation mark
// of an unclosed action both as the beginning of a text and as a character, in a time that doubles with each.
import { wrongQuery } from "./literals.ts";

export interface Piece {
  readonly text: string;
  readonly isAction: boolean;
}

/** `{{- ` and ` -}}` remove the white space around an action. Throws ApiError invalid_parameter. */
export function cutTemplate(template: string): Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  let trimsNext = false;
  const addText = (end: number, trimsEnd: boolean): void => {
    const whole = template.slice(at, end);
    const left = trimsNext ? whole.trimStart() : whole;
    const text = trimsEnd ? left.trimEnd() : left;
    if (text !== "") pieces.push({ text, isAction: false });
  };
  for (let open = template.indexOf("{{"); open !== -1; open = template.indexOf("{{", at)) {
    const trimsBefore = template[open + 2] === "-" && isSpace(template[open + 3]);
    addText(open, trimsBefore);
    const from = open + (trimsBefore ? 3 : 2);
    const close = actionEnd(template, from);
    trimsNext = template[close - 1] === "-" && close - 2 >= from && isSpace(template[close - 2]);
    pieces.push({ text: template.slice(from, trimsNext ? close - 1 : close).trim(), isAction: true });
    at = close + 2;
  }
  addText(template.length, false);
  return pieces;
}

/** Where the `}}` of an action begins that is not within a text or a comment. */
function actionEnd(template: string, from: number): number {
  let at = from;
  while (at < template.length) {
    const character = template[at];
    if (character === "}" && template[at + 1] === "}") return at;
    if (character === '"') at = quoteEnd(template, at);
    else if (character === "`") at = endOf(template, "`", at + 1, "unterminated raw quoted string");
    else if (character === "/" && template[at + 1] === "*") at = endOf(template, "*/", at + 2, "unclosed comment") + 1;
    at += 1;
  }
  throw wrongTemplate("unclosed action");
}

function quoteEnd(template: string, open: number): number {
  for (let at = open + 1; at < template.length && template[at] !== "\n"; at += 1) {
    if (template[at] === "\\") at += 1;
    else if (template[at] === '"') return at;
  }
  throw wrongTemplate("unterminated quoted string");
}

function endOf(template: string, end: string, from: number, problem: string): number {
  const at = template.indexOf(end, from);
  if (at === -1) throw wrongTemplate(problem);
  return at;
}

function isSpace(character: string | undefined): boolean {
  return character !== undefined && /\s/.test(character);
}

export function wrongTemplate(what: string): Error {
  return wrongQuery(`invalid line template: ${what}`);
}
