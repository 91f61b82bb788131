// A line of logfmt, key=value key="a value", as Loki's own reader has it. Invariant: what is no pair is passed over up to the next blank,
// and told.
import { unescaped } from "./json-walk.ts";

const BLANK_OR_MORE = /[\u0000- ]/g;
const KEY_END = /[="\u0000- ]/g;

/**
 * Calls back for each pair in turn; `visit` answers true to end. `stops`: at the first that is none. Answers what was wrong last; undefined:
 * nothing.
 */
export function eachPair(line: string, stops: boolean, visit: (key: string, value: string) => boolean | undefined): string | undefined {
  let [at, problem]: [number, string | undefined] = [0, undefined];
  const wrong = (where: number, what: string): void => {
    problem = `logfmt syntax error at pos ${where + 1} : ${what}`;
    at = next(BLANK_OR_MORE, line, where);
  };
  while (at < line.length) {
    while (at < line.length && (line[at] as string) <= " ") at += 1;
    if (at >= line.length) break;
    const end = next(KEY_END, line, at);
    const key = line.slice(at, end);
    let value = "";
    if (line[end] === '"' || (line[end] === "=" && key === "")) wrong(end, `unexpected '${line[end]}'`);
    else if (line[end] === "=" && line[end + 1] === '"') {
      const close = quoteEnd(line, end + 1);
      if (close === undefined) {
        problem = `logfmt syntax error at pos ${line.length + 1} : unterminated quoted value`;
        at = line.length;
        if (stops) break;
        continue;
      }
      value = unescaped(line.slice(end + 2, close));
      at = close + 1;
      if (visit(key, value)) return problem;
      continue;
    } else if (line[end] === "=") {
      const stop = next(KEY_END, line, end + 1);
      if (line[stop] === "=" || line[stop] === '"') wrong(stop, `unexpected '${line[stop]}'`);
      else {
        at = stop;
        if (visit(key, line.slice(end + 1, stop))) return problem;
        continue;
      }
    } else {
      at = end;
      if (visit(key, "")) return problem;
      continue;
    }
    if (stops) break;
  }
  return problem;
}

function next(expression: RegExp, line: string, at: number): number {
  expression.lastIndex = at;
  return expression.exec(line)?.index ?? line.length;
}

function quoteEnd(line: string, open: number): number | undefined {
  for (let at = open + 1; at < line.length; at += 1) {
    if (line[at] === "\\") at += 1;
    else if (line[at] === '"') return at;
  }
  return undefined;
}
