// The stages of a query of logs. Invariant: a stage that is not answered here is refused by its name, with what to write instead.
import type { SyntaxNode } from "@lezer/common";
import { parseLineFormat } from "./template.ts";
import { unquote, wrongQuery } from "./literals.ts";
import { captureNames, linePattern, parsePattern } from "./line-pattern.ts";
import { parsePath } from "./json-path.ts";
import { type Reading, readChoices, readLabelFilter } from "./read-labels.ts";
import type { LabelFormat, LineFilter, LineOperator, Stage } from "./syntax.ts";
import { children, itemsOf } from "./tree.ts";

export function readStages(reading: Reading, pipeline: SyntaxNode | null): Stage[] {
  return itemsOf(pipeline, "PipelineExpr", "PipelineStage").flatMap((stage) => readStage(reading, stage.lastChild as SyntaxNode));
}

function readStage(reading: Reading, node: SyntaxNode): Stage[] {
  switch (node.name) {
    case "LineFilters":
      return itemsOf(node, "LineFilters", "LineFilter").map((filter) => readLineFilter(reading, filter));
    case "LabelFilter":
      return [{ kind: "label_filter", filter: readLabelFilter(reading, node) }];
    case "LabelParser":
      return [readParser(reading, node)];
    case "JsonExpressionParser":
      return [{ kind: "json", paths: extractions(reading, node).map(([name, path]) => (parsePath(path), [name, path] as const)) }];
    case "LogfmtParser":
      return [{ kind: "logfmt", ...flagsOf(reading, node) }];
    case "LogfmtExpressionParser":
      return [{ kind: "logfmt", ...flagsOf(reading, node), keys: extractions(reading, node) }];
    case "LineFormatExpr": {
      const text = textOf(reading, node);
      parseLineFormat(text, reading.patterns);
      return [{ kind: "line_format", text }];
    }
    case "LabelFormatExpr":
      return [{ kind: "label_format", formats: readFormats(reading, node) }];
    case "DecolorizeExpr":
      return [{ kind: "decolorize" }];
    case "DropLabelsExpr":
      return [{ kind: "drop", labels: readChoices(reading, node.getChild("DropLabels"), "DropLabel") }];
    case "KeepLabelsExpr":
      return [{ kind: "keep", labels: readChoices(reading, node.getChild("KeepLabels"), "KeepLabel") }];
    default:
      throw wrongQuery(`${reading.tree.of(node).slice(0, 50)}: this stage is not supported`);
  }
}

function readLineFilter(reading: Reading, node: SyntaxNode): LineFilter {
  const { tree, patterns } = reading;
  const operator = tree.of(node.getChild("Filter") as SyntaxNode) as LineOperator;
  const texts: string[] = [];
  for (let part: SyntaxNode | null = node; part; part = part.getChild("OrFilter")) {
    if (part.getChild("FilterOp")) {
      const instead = 'write regular expressions instead, such as |~ "192\\\\.168\\\\.4\\\\."';
      throw wrongQuery(`ip() is not supported: ${instead}`);
    }
    texts.push(unquote(tree.of(part.getChild("String") as SyntaxNode)));
  }
  if (operator === "|~" || operator === "!~") for (const text of texts) patterns.compile(text);
  if (operator === "|>" || operator === "!>") for (const text of texts) linePattern(text);
  return { kind: "line_filter", operator, texts };
}

function readParser(reading: Reading, node: SyntaxNode): Stage {
  const [parser] = children(node) as [SyntaxNode];
  const kind = reading.tree.of(parser);
  if (kind === "json") return { kind: "json" };
  if (kind === "unpack") return { kind: "unpack" };
  const text = textOf(reading, node);
  if (kind === "pattern") {
    parsePattern(text);
    return { kind: "pattern", text };
  }
  captureNames(reading.patterns.compile(text), text);
  return { kind: "regexp", text };
}

function flagsOf({ tree }: Reading, node: SyntaxNode): { isStrict: boolean; keepsEmpty: boolean } {
  const flags = itemsOf(node.getChild("LogfmtParserFlags"), "LogfmtParserFlags", "ParserFlag").map((flag) => tree.of(flag));
  return { isStrict: flags.includes("--strict"), keepsEmpty: flags.includes("--keep-empty") };
}

function extractions({ tree }: Reading, node: SyntaxNode): [name: string, from: string][] {
  const list = "LabelExtractionExpressionList";
  return itemsOf(node.getChild(list), list, "LabelExtractionExpression").map((item) => {
    const [name = "", , from] = children(item).map((child) => tree.of(child));
    return [name, from === undefined ? name : unquote(from)];
  });
}

function readFormats(reading: Reading, node: SyntaxNode): LabelFormat[] {
  const items = itemsOf(node.getChild("LabelsFormat"), "LabelsFormat", "LabelFormatMatcher");
  const formats = items.map((item): LabelFormat => {
    const [name = "", , value = ""] = children(item).map((child) => reading.tree.of(child));
    if (item.lastChild?.name !== "String") return { name, from: value };
    const template = unquote(value);
    parseLineFormat(template, reading.patterns);
    return { name, template };
  });
  const names = formats.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw wrongQuery(`label_format: multiple label name '${twice}' not allowed in a single format operation`);
  if (names.includes("__error__")) throw wrongQuery("label_format: __error__ cannot be formatted");
  return formats;
}

function textOf({ tree }: Reading, node: SyntaxNode): string {
  return unquote(tree.of(node.getChild("String") as SyntaxNode));
}
