// Matchers and label filters of a query. Invariant: and binds closer than or, whatever the grammar nests first; a comma is an and.
import type { SyntaxNode } from "@lezer/common";
import { parseBytes, readDuration, readNumber, unquote, wrongQuery } from "./literals.ts";
import { anchored, type Patterns, plainValues } from "./regex.ts";
import type { CompareOperator, Conversion, LabelChoice, LabelFilter, Matcher, MatchOperator } from "./syntax.ts";
import { children, itemsOf, type Tree } from "./tree.ts";

/** What readers of a query share. */
export interface Reading {
  readonly tree: Tree;
  readonly patterns: Patterns;
}

export function readSelector(reading: Reading, node: SyntaxNode): Matcher[] {
  const matchers = itemsOf(node.getChild("Matchers"), "Matchers", "Matcher").map((matcher) => readMatcher(reading, matcher));
  if (!matchers.some((matcher) => refusesEmpty(reading, matcher)))
    throw wrongQuery('a selector needs a matcher that takes no empty value, such as {service_name=~".+"}');
  return matchers;
}

function refusesEmpty({ patterns }: Reading, { operator, value }: Matcher): boolean {
  if (operator === "=") return value !== "";
  if (operator !== "=~") return false;
  return !(plainValues(value)?.includes("") ?? patterns.compile(anchored(value)).test(""));
}

/** Its expression is read, so that one that is none is refused where nothing is found, too. */
export function readMatcher({ tree, patterns }: Reading, node: SyntaxNode): Matcher {
  const [name, operator, value] = children(node).map((child) => tree.of(child)) as [string, MatchOperator, string];
  const matcher = { name, operator, value: unquote(value) };
  if ((operator === "=~" || operator === "!~") && !plainValues(matcher.value)) patterns.compile(anchored(matcher.value));
  return matcher;
}

/** Of drop and keep. */
export function readChoices(reading: Reading, list: SyntaxNode | null, name: "DropLabel" | "KeepLabel"): LabelChoice[] {
  return itemsOf(list, `${name}s`, name).map((item) => {
    const matcher = item.getChild("Matcher");
    return matcher ? readMatcher(reading, matcher) : reading.tree.of(item);
  });
}

type Token = { readonly operator: "and" | "or" } | { readonly filter: LabelFilter };

export function readLabelFilter(reading: Reading, node: SyntaxNode): LabelFilter {
  const tokens = tokensOf(reading, node);
  const alternatives: LabelFilter[] = [];
  let all: LabelFilter | undefined;
  for (const token of tokens) {
    if ("filter" in token) all = all ? { kind: "and", left: all, right: token.filter } : token.filter;
    else if (token.operator === "or" && all) {
      alternatives.push(all);
      all = undefined;
    }
  }
  return [...alternatives, all as LabelFilter].reduce((left, right) => ({ kind: "or", left, right }));
}

/** Filters and operators in the order of the text; what stands in parentheses is one filter. */
function tokensOf(reading: Reading, node: SyntaxNode): Token[] {
  const parts = children(node);
  const [only] = parts;
  if (parts.length === 1 && only) {
    if (only.name === "LabelFilter") return [{ filter: readLabelFilter(reading, only) }];
    return [{ filter: readOneFilter(reading, only) }];
  }
  // A comma is no node.
  return parts.flatMap((part, index): Token[] => {
    if (part.name === "Or") return [{ operator: "or" }];
    if (part.name === "And") return [];
    const filters = tokensOf(reading, part);
    return index > 0 && parts[index - 1]?.name === "LabelFilter" ? [{ operator: "and" }, ...filters] : filters;
  });
}

function readOneFilter(reading: Reading, node: SyntaxNode): LabelFilter {
  const { tree } = reading;
  if (node.name === "Matcher") return { kind: "match", matcher: readMatcher(reading, node) };
  if (node.name === "UnitFilter") return readOneFilter(reading, node.firstChild as SyntaxNode);
  if (node.name === "IpLabelFilter")
    throw wrongQuery('ip() is not supported: write a regular expression instead, such as | addr=~"10\\\\..*"');
  const [name, operator, value] = children(node).map((child) => tree.of(child)) as [string, string, string];
  const { number, conversion } = readCompared(node.name, value);
  return { kind: "compare", name, operator: (operator === "=" ? "==" : operator) as CompareOperator, value: number, conversion };
}

function readCompared(kind: string, text: string): { number: number; conversion: Conversion } {
  if (kind === "DurationFilter") return { number: Number(readDuration(text)) / 1e9, conversion: "duration" };
  if (kind === "BytesFilter") return { number: parseBytes(text) ?? Number.NaN, conversion: "bytes" };
  return { number: readNumber(text.replaceAll(/\s/g, "")), conversion: "number" };
}
