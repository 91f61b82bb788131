// Removes the codes by which programs colour their lines in a terminal, one step a character:
// ESC or CSI, then [ ] ( ) # ; ?, then either letters, digits and semicolons up to BEL, or numbers and one final character.

const BEGIN = /[\u001b\u009b]/g;
const INTRODUCTION = "[]()#;?";
const FINAL = /[\dA-PRZcf-ntqry=><~]/;
const MOST_DIGITS = 4;

export function withoutColours(line: string): string {
  const parts: string[] = [];
  let at = 0;
  BEGIN.lastIndex = 0;
  for (let begin = BEGIN.exec(line); begin; begin = BEGIN.exec(line)) {
    const end = codeEnd(line, begin.index + 1);
    if (end === undefined) continue;
    parts.push(line.slice(at, begin.index));
    at = end;
    BEGIN.lastIndex = end;
  }
  return at === 0 ? line : parts.join("") + line.slice(at);
}

/** Behind the code whose first character is before `from`; undefined: there is none. */
function codeEnd(line: string, from: number): number | undefined {
  let start = from;
  while (start < line.length && INTRODUCTION.includes(line[start] as string)) start += 1;
  let end = start;
  while (end < line.length && isWord(line.charCodeAt(end))) end += 1;
  return line[end] === "\u0007" ? end + 1 : numbersEnd(line, start);
}

/** Behind numbers such as 1;31 and a final character, which may be the last digit of the numbers. */
function numbersEnd(line: string, start: number): number | undefined {
  let at = start;
  let digits = 0;
  let lastDigit: number | undefined;
  for (; at < line.length; at += 1) {
    const isNumber = isDigit(line.charCodeAt(at));
    if (isNumber ? digits === MOST_DIGITS : line[at] !== ";" || lastDigit === undefined) break;
    digits = isNumber ? digits + 1 : 0;
    if (isNumber) lastDigit = at;
  }
  if (at < line.length && FINAL.test(line[at] as string)) return at + 1;
  return lastDigit === undefined ? undefined : lastDigit + 1;
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** A letter, a digit or a semicolon. */
function isWord(code: number): boolean {
  return isDigit(code) || code === 59 || (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
}
