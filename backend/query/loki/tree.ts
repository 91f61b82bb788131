// The tree of a query by Grafana's own grammar, and how its nodes are read. Invariant: a query that the grammar does not take whole is
// refused with the place where it ends to be understood, and none is so long or so deep that reading it would cost others.
import { parser } from "@grafana/lezer-logql";
import type { SyntaxNode } from "@lezer/common";
import { wrongQuery } from "./literals.ts";

const MOST_CHARACTERS = 20_000;
const MOST_DEPTH = 400;

export class Tree {
  readonly text: string;
  readonly top: SyntaxNode;

  /** Throws ApiError invalid_parameter. */
  constructor(text: string) {
    if (text.length > MOST_CHARACTERS) throw wrongQuery(`has at most ${MOST_CHARACTERS} characters`);
    this.text = withoutComments(text);
    const tree = parser.parse(this.text);
    let depth = 0;
    const cursor = tree.cursor();
    cursor.iterate(
      (node) => {
        if (node.type.isError) throw this.misread(node.from);
        depth += 1;
        if (depth > MOST_DEPTH) throw wrongQuery(`is nested or chained more than ${MOST_DEPTH} deep`);
      },
      () => void (depth -= 1),
    );
    const top = tree.topNode.firstChild;
    if (!top) throw this.misread(0);
    this.top = top;
  }

  of(node: SyntaxNode): string {
    return this.text.slice(node.from, node.to);
  }

  misread(at: number): Error {
    const before = this.text.slice(0, at).split("\n");
    const [found = ""] = /^\s*(?:\w+|\S{1,10})?/.exec(this.text.slice(at)) ?? [];
    const place = `line ${before.length}, column ${(before.at(-1) ?? "").length + 1}`;
    return wrongQuery(
      `parse error at ${place}: unexpected ${found.trim() === "" ? "end" : JSON.stringify(found.trim())}${hintFor(this.text, at)}`,
    );
  }
}

/** Each alternative matches to the end of the text where its own end is missing, so that the whole takes one walk. */
const TEXT_OR_COMMENT = /"(?:[^"\\]|\\[^])*(?:"|\\?$)|`[^`]*(?:`|$)|(#.*|\/\/.*|\/\*[^]*?(?:\*\/|$))/g;

/** Comments are Go's and those after #. They become spaces, so that what is around them keeps its place. */
function withoutComments(text: string): string {
  return text.replaceAll(TEXT_OR_COMMENT, (whole, comment?: string) => {
    const isWhole = comment !== undefined && (!comment.startsWith("/*") || (comment.endsWith("*/") && comment.length > 3));
    return isWhole ? comment.replaceAll(/[^\n]/g, " ") : whole;
  });
}

/** What this grammar does not have and Loki's has, by what one writes instead. */
function hintFor(text: string, at: number): string {
  if (/\bunwrap\b[^[]*\[[^\]]*\]\s*offset\b/.test(text)) return "; write an offset before the stages: {…} [5m] offset 1h | … | unwrap …";
  if (/^\s*[A-Za-z_]\w*\s*[=!<>]/.test(text.slice(at)) && /\|\s*[\w(][^|]*["`\w)]\s+$/.test(text.slice(0, at)))
    return "; write and between two label filters";
  if (/\bunwrap\b[^()|[]*\)\s*\[/.test(text)) return "; write unwrap without parentheses around it: {…} | unwrap … [5m]";
  return "";
}

export function children(node: SyntaxNode): SyntaxNode[] {
  const found: SyntaxNode[] = [];
  for (let child = node.firstChild; child; child = child.nextSibling) found.push(child);
  return found;
}

/** The items of a list that the grammar nests to the left, in their order. */
export function itemsOf(node: SyntaxNode | null, list: string, item: string): SyntaxNode[] {
  if (!node) return [];
  const found: SyntaxNode[] = [];
  const open = [node];
  for (let next = open.pop(); next; next = open.pop()) {
    if (next.name === item) found.push(next);
    else if (next.name === list) open.push(...children(next).toReversed());
  }
  return found;
}
