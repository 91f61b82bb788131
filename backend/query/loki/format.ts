// Formats a LogQL query with one space between its parts, as `format_query` does. Invariant: the meaning stays; strings are unchanged.
import { Tree } from "./grammar.ts";

const TOKEN = /"(?:[^"\\]|\\[^])*"|`[^`]*`|\d[\w.]*(?:(?<=[eE])[+-]\d+)?|[A-Za-z_][\w.:]*|\|[=~>]|![=~>]|=~|[=<>]=|--[A-Za-z][\w-]*|[^\s]/g;
/** A parenthesis after one of these words or operators does not belong to a function. */
const WORD_BEFORE_GROUP = /^(?:by|without|on|ignoring|group_left|group_right|and|or|unless|bool|[^\w]+)$/;
const MATCH_OPERATOR = /^(?:=|!=|=~|!~)$/;

/** Throws ApiError invalid_parameter. Comments are removed. */
export function formatQuery(text: string): string {
  const tokens = new Tree(text).text.match(TOKEN) ?? [];
  let written = "";
  let isSelector = false;
  for (const [at, token] of tokens.entries()) {
    if (token === "{") isSelector = true;
    const isSigned = tokens[at - 1] === "-" && tokens[at - 2] === "offset";
    if (at > 0 && !isSigned && hasSpace(tokens[at - 1] ?? "", token, isSelector)) written += " ";
    written += token;
    if (token === "}") isSelector = false;
  }
  return written;
}

function hasSpace(before: string, token: string, isSelector: boolean): boolean {
  if (/^[([{]$/.test(before) || /^[)\]},[]$/.test(token)) return false;
  if (isSelector && (MATCH_OPERATOR.test(before) || MATCH_OPERATOR.test(token))) return false;
  if (token === "(") return before === ")" || WORD_BEFORE_GROUP.test(before);
  return true;
}
