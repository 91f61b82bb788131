// Parses the matchers, label filters and stages of a query. Invariant: "and" binds tighter than "or", a comma is an "and"; an unsupported
// stage is rejected by name, with a suggestion what to write instead.
import type { SyntaxNode } from "@lezer/common";
import { children, itemsOf, parseBytes, readDuration, readNumber, type Tree, unquote, wrongQuery } from "./grammar.ts";
import { parsePath } from "./json.ts";
import { captureNames, linePattern, parsePattern } from "./parsers.ts";
import { anchored, compilePattern, type Patterns, plainValues } from "./regex.ts";
import type {
  CompareOperator,
  Conversion,
  LabelChoice,
  LabelFilter,
  LabelFormat,
  LineFilter,
  LineOperator,
  Matcher,
  MatchOperator,
  Stage,
} from "./syntax.ts";
import { parseLineFormat } from "./template.ts";

/** State that the parsers of a query share. */
export interface ParseState {
  readonly tree: Tree;
  readonly patterns: Patterns;
}

export function readSelector(state: ParseState, node: SyntaxNode): Matcher[] {
  const matchers = itemsOf(node.getChild("Matchers"), "Matchers", "Matcher").map((matcher) => readMatcher(state, matcher));
  if (!matchers.some(refusesEmpty)) throw wrongQuery('a selector needs a matcher that takes no empty value, such as {service_name=~".+"}');
  return matchers;
}

/** `readMatcher` has already counted the expression in the limits of the query. */
function refusesEmpty({ operator, value }: Matcher): boolean {
  if (operator === "=") return value !== "";
  if (operator !== "=~") return false;
  return !(plainValues(value)?.includes("") ?? compilePattern(anchored(value)).test(""));
}

/** Compiles the expression, so that an invalid one is rejected even if no record is found. */
export function readMatcher({ tree, patterns }: ParseState, node: SyntaxNode): Matcher {
  const [name, operator, value] = children(node).map((child) => tree.of(child)) as [string, MatchOperator, string];
  const matcher = { name, operator, value: unquote(value) };
  if ((operator === "=~" || operator === "!~") && !plainValues(matcher.value)) patterns.compile(anchored(matcher.value));
  return matcher;
}

/** Parses the labels of drop and keep. */
function readChoices(state: ParseState, list: SyntaxNode | null, name: "DropLabel" | "KeepLabel"): LabelChoice[] {
  return itemsOf(list, `${name}s`, name).map((item) => {
    const matcher = item.getChild("Matcher");
    return matcher ? readMatcher(state, matcher) : state.tree.of(item);
  });
}

type Token = { readonly operator: "and" | "or" } | { readonly filter: LabelFilter };

export function readLabelFilter(state: ParseState, node: SyntaxNode): LabelFilter {
  const alternatives: LabelFilter[] = [];
  let conjunction: LabelFilter | undefined;
  for (const token of tokensOf(state, node)) {
    if ("filter" in token) conjunction = conjunction ? { kind: "and", left: conjunction, right: token.filter } : token.filter;
    else if (token.operator === "or" && conjunction) {
      alternatives.push(conjunction);
      conjunction = undefined;
    }
  }
  return [...alternatives, conjunction as LabelFilter].reduce((left, right) => ({ kind: "or", left, right }));
}

/** Filters and operators in the order of the text; an expression in parentheses is one filter. */
function tokensOf(state: ParseState, node: SyntaxNode): Token[] {
  const parts = children(node);
  const [only] = parts;
  if (parts.length === 1 && only)
    return [{ filter: only.name === "LabelFilter" ? readLabelFilter(state, only) : readSingleFilter(state, only) }];
  // A comma is not a node of the syntax tree.
  return parts.flatMap((part, index): Token[] => {
    if (part.name === "Or") return [{ operator: "or" }];
    if (part.name === "And") return [];
    const filters = tokensOf(state, part);
    return index > 0 && parts[index - 1]?.name === "LabelFilter" ? [{ operator: "and" }, ...filters] : filters;
  });
}

function readSingleFilter(state: ParseState, node: SyntaxNode): LabelFilter {
  const { tree } = state;
  if (node.name === "Matcher") return { kind: "match", matcher: readMatcher(state, node) };
  if (node.name === "UnitFilter") return readSingleFilter(state, node.firstChild as SyntaxNode);
  if (node.name === "IpLabelFilter")
    throw wrongQuery('ip() is not supported: write a regular expression instead, such as | addr=~"10\\\\..*"');
  const [name, operator, value] = children(node).map((child) => tree.of(child)) as [string, string, string];
  const { number, conversion } = readComparedValue(node.name, value);
  return { kind: "compare", name, operator: (operator === "=" ? "==" : operator) as CompareOperator, value: number, conversion };
}

function readComparedValue(kind: string, text: string): { number: number; conversion: Conversion } {
  if (kind === "DurationFilter") return { number: Number(readDuration(text)) / 1e9, conversion: "duration" };
  if (kind === "BytesFilter") return { number: parseBytes(text) ?? Number.NaN, conversion: "bytes" };
  return { number: readNumber(text.replaceAll(/\s/g, "")), conversion: "number" };
}

export function readStages(state: ParseState, pipeline: SyntaxNode | null): Stage[] {
  return itemsOf(pipeline, "PipelineExpr", "PipelineStage").flatMap((stage) => readStage(state, stage.lastChild as SyntaxNode));
}

function readStage(state: ParseState, node: SyntaxNode): Stage[] {
  switch (node.name) {
    case "LineFilters":
      return itemsOf(node, "LineFilters", "LineFilter").map((filter) => readLineFilter(state, filter));
    case "LabelFilter":
      return [{ kind: "label_filter", filter: readLabelFilter(state, node) }];
    case "LabelParser":
      return [readParser(state, node)];
    case "JsonExpressionParser":
      return [{ kind: "json", paths: extractions(state, node).map(([name, path]) => (parsePath(path), [name, path] as const)) }];
    case "LogfmtParser":
      return [{ kind: "logfmt", ...flagsOf(state, node) }];
    case "LogfmtExpressionParser":
      return [{ kind: "logfmt", ...flagsOf(state, node), keys: extractions(state, node) }];
    case "LineFormatExpr": {
      const text = textOf(state, node);
      parseLineFormat(text, state.patterns);
      return [{ kind: "line_format", text }];
    }
    case "LabelFormatExpr":
      return [{ kind: "label_format", formats: readFormats(state, node) }];
    case "DecolorizeExpr":
      return [{ kind: "decolorize" }];
    case "DropLabelsExpr":
      return [{ kind: "drop", labels: readChoices(state, node.getChild("DropLabels"), "DropLabel") }];
    case "KeepLabelsExpr":
      return [{ kind: "keep", labels: readChoices(state, node.getChild("KeepLabels"), "KeepLabel") }];
    default:
      throw wrongQuery(`${state.tree.of(node).slice(0, 50)}: this stage is not supported`);
  }
}

function readLineFilter(state: ParseState, node: SyntaxNode): LineFilter {
  const { tree, patterns } = state;
  const operator = tree.of(node.getChild("Filter") as SyntaxNode) as LineOperator;
  const texts: string[] = [];
  for (let part: SyntaxNode | null = node; part; part = part.getChild("OrFilter")) {
    if (part.getChild("FilterOp")) {
      throw wrongQuery('ip() is not supported: write regular expressions instead, such as |~ "192\\\\.168\\\\.4\\\\."');
    }
    texts.push(unquote(tree.of(part.getChild("String") as SyntaxNode)));
  }
  if (operator === "|~" || operator === "!~") for (const text of texts) patterns.compile(text);
  if (operator === "|>" || operator === "!>") for (const text of texts) linePattern(text);
  return { kind: "line_filter", operator, texts };
}

function readParser(state: ParseState, node: SyntaxNode): Stage {
  const [parser] = children(node) as [SyntaxNode];
  const kind = state.tree.of(parser);
  if (kind === "json") return { kind: "json" };
  if (kind === "unpack") return { kind: "unpack" };
  const text = textOf(state, node);
  if (kind === "pattern") {
    parsePattern(text);
    return { kind: "pattern", text };
  }
  captureNames(state.patterns.compile(text), text);
  return { kind: "regexp", text };
}

function flagsOf({ tree }: ParseState, node: SyntaxNode): { isStrict: boolean; keepsEmpty: boolean } {
  const flags = itemsOf(node.getChild("LogfmtParserFlags"), "LogfmtParserFlags", "ParserFlag").map((flag) => tree.of(flag));
  return { isStrict: flags.includes("--strict"), keepsEmpty: flags.includes("--keep-empty") };
}

function extractions({ tree }: ParseState, node: SyntaxNode): [name: string, from: string][] {
  const list = "LabelExtractionExpressionList";
  return itemsOf(node.getChild(list), list, "LabelExtractionExpression").map((item) => {
    const [name = "", , from] = children(item).map((child) => tree.of(child));
    return [name, from === undefined ? name : unquote(from)];
  });
}

function readFormats(state: ParseState, node: SyntaxNode): LabelFormat[] {
  const items = itemsOf(node.getChild("LabelsFormat"), "LabelsFormat", "LabelFormatMatcher");
  const formats = items.map((item): LabelFormat => {
    const [name = "", , value = ""] = children(item).map((child) => state.tree.of(child));
    if (item.lastChild?.name !== "String") return { name, from: value };
    const template = unquote(value);
    parseLineFormat(template, state.patterns);
    return { name, template };
  });
  const names = formats.map(({ name }) => name);
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  if (repeated !== undefined) throw wrongQuery(`label_format: multiple label name '${repeated}' not allowed in a single format operation`);
  if (names.includes("__error__")) throw wrongQuery("label_format: __error__ cannot be formatted");
  return formats;
}

function textOf({ tree }: ParseState, node: SyntaxNode): string {
  return unquote(tree.of(node.getChild("String") as SyntaxNode));
}
