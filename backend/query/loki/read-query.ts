// Parses LogQL into a Query. Invariant: operators have Loki's precedence; valid syntax that is not supported is rejected by name.
import type { SyntaxNode } from "@lezer/common";
import { children, itemsOf, readDuration, readNumber, Tree, unquote, wrongQuery } from "./grammar.ts";
import { type ParseState, readLabelFilter, readSelector, readStages } from "./read-stages.ts";
import { Patterns } from "./regex.ts";
import type {
  BinaryOperation,
  Conversion,
  Grouping,
  LogQuery,
  VectorMatching,
  MetricQuery,
  Query,
  RangeAggregation,
  Unwrap,
  VectorAggregation,
} from "./syntax.ts";
import { calculate, isCalculable, isComparison } from "./vector-operations.ts";

/** Throws ApiError invalid_parameter that names what is wrong. `patterns`: counted together with the query's own expressions. */
export function readQuery(text: string, patterns = new Patterns()): Query {
  const tree = new Tree(text);
  return readExpression({ tree, patterns }, tree.top);
}

/** The matchers of a selector without stages, as in requests for label values and series. */
export function readSelectorAlone(name: string, text: string, patterns = new Patterns()): LogQuery {
  const query = readQuery(text, patterns);
  if (query.kind !== "log" || query.stages.length > 0)
    throw wrongQuery(`${name}: must be a selector such as {service_name="shop"}, and no more`);
  return query;
}

function readExpression(state: ParseState, node: SyntaxNode): Query {
  const inner = node.name === "Expr" ? (node.firstChild as SyntaxNode) : node;
  return inner.name === "LogExpr" ? readLog(state, inner) : readMetric(state, inner);
}

function readLog(state: ParseState, node: SyntaxNode): LogQuery {
  const nested = node.getChild("LogExpr");
  if (nested) return readLog(state, nested);
  const selector = readSelector(state, node.getChild("Selector") as SyntaxNode);
  return { kind: "log", selector, stages: readStages(state, node.getChild("PipelineExpr")) };
}

function readMetric(state: ParseState, node: SyntaxNode): MetricQuery {
  const inner = node.firstChild as SyntaxNode;
  const { tree } = state;
  switch (inner.name) {
    case "MetricExpr":
      return readMetric(state, inner);
    case "RangeAggregationExpr":
      return readRange(state, inner);
    case "VectorAggregationExpr":
      return readVector(state, inner);
    case "BinOpExpr":
      return readChain(state, inner);
    case "LiteralExpr":
      return { kind: "number", value: readNumber(tree.of(inner).replaceAll(/\s/g, "")) };
    case "VectorExpr":
      return { kind: "vector", value: readNumber(tree.of(inner.getChild("Number") as SyntaxNode)) };
    case "LabelReplaceExpr": {
      const of = readMetric(state, inner.getChild("MetricExpr") as SyntaxNode);
      const [target, replacement, source, pattern] = inner.getChildren("String").map((literal) => unquote(tree.of(literal))) as [
        string,
        string,
        string,
        string,
      ];
      state.patterns.compile(`^(?:${pattern})$`);
      return { kind: "label_replace", of, target, replacement, source, pattern };
    }
    default:
      throw wrongQuery(`${tree.of(inner).slice(0, 50)}: this is not supported`);
  }
}

function readRange(state: ParseState, node: SyntaxNode): RangeAggregation {
  const { tree } = state;
  let inner = node.getChild("LogRangeExpr") as SyntaxNode;
  for (let nested: SyntaxNode | null = inner; nested; nested = nested.getChild("LogRangeExpr")) inner = nested;
  const offset = inner.getChild("OffsetExpr")?.getChild("Duration");
  const parameter = node.getChild("Number");
  const aggregation: RangeAggregation = {
    kind: "range",
    operation: tree.of(node.getChild("RangeOp") as SyntaxNode),
    log: {
      kind: "log",
      selector: readSelector(state, inner.getChild("Selector") as SyntaxNode),
      stages: readStages(state, inner.getChild("PipelineExpr")),
    },
    rangeNs: readDuration(tree.of(inner.getChild("Range")?.getChild("Duration") as SyntaxNode)),
    offsetNs: offset ? readDuration(tree.of(offset)) : 0n,
    unwrap: readUnwrap(state, inner.getChild("UnwrapExpr")),
    grouping: readGrouping(state, node.getChild("Grouping")),
    parameter: parameter ? readNumber(tree.of(parameter)) : undefined,
  };
  checkRange(aggregation);
  return aggregation;
}

const CONVERSIONS: Readonly<Record<string, Conversion>> = { bytes: "bytes", duration: "duration", duration_seconds: "duration" };

function readUnwrap(state: ParseState, node: SyntaxNode | null): Unwrap | undefined {
  if (!node) return undefined;
  const nested = readUnwrap(state, node.getChild("UnwrapExpr"));
  const filter = node.getChild("LabelFilter");
  if (nested && filter) return { ...nested, filters: [...nested.filters, readLabelFilter(state, filter)] };
  const conversion = node.getChild("ConvOp");
  return {
    label: state.tree.of(node.getChild("Identifier") as SyntaxNode),
    conversion: (conversion && CONVERSIONS[state.tree.of(conversion)]) ?? "number",
    filters: [],
  };
}

function readGrouping({ tree }: ParseState, node: SyntaxNode | null): Grouping | undefined {
  if (!node) return undefined;
  const labels = itemsOf(node.getChild("Labels"), "Labels", "Identifier").map((label) => tree.of(label));
  return { without: node.getChild("Without") !== null, labels };
}

function readVector(state: ParseState, node: SyntaxNode): MetricQuery {
  const operation = state.tree.of(node.getChild("VectorOp") as SyntaxNode);
  const parameter = node.getChild("Number");
  const aggregation = {
    kind: "aggregate" as const,
    operation,
    of: readMetric(state, node.getChild("MetricExpr") as SyntaxNode),
    grouping: readGrouping(state, node.getChild("Grouping")),
    parameter: parameter ? readNumber(state.tree.of(parameter)) : undefined,
  };
  checkVector(aggregation);
  return aggregation;
}

interface Operator extends Pick<BinaryOperation, "operator" | "returnsBool" | "matching"> {}

const BINDING: Readonly<Record<string, number>> = {
  or: 1,
  and: 2,
  unless: 2,
  "==": 3,
  "!=": 3,
  ">": 3,
  ">=": 3,
  "<": 3,
  "<=": 3,
  "+": 4,
  "-": 4,
  "*": 5,
  "/": 5,
  "%": 5,
  "^": 6,
};

/** Collects operands and operators in their order, then applies Loki's precedence; an expression in parentheses is one operand. */
function readChain(state: ParseState, node: SyntaxNode): MetricQuery {
  const operands: MetricQuery[] = [];
  const operators: Operator[] = [];
  const walk = (at: SyntaxNode): void => {
    const metric = at.name === "Expr" ? at.firstChild : at;
    const chain = metric?.name === "MetricExpr" && metric.firstChild?.name === "BinOpExpr" ? metric.firstChild : metric;
    if (chain?.name !== "BinOpExpr") return void operands.push(readOperand(state, at));
    const [left, operator, modifier, right] = children(chain) as [SyntaxNode, SyntaxNode, SyntaxNode, SyntaxNode];
    walk(left);
    const text = state.tree.of(operator);
    operators.push({ operator: text, ...readMatching(state.tree, modifier, text) });
    walk(right);
  };
  walk(node);
  return bind(operands, operators, 0);
}

function readOperand(state: ParseState, node: SyntaxNode): MetricQuery {
  const query = readExpression(state, node);
  if (query.kind === "log") throw wrongQuery("a log query cannot be an operand: aggregate it, such as count_over_time({…}[5m])");
  return query;
}

function bind(operands: MetricQuery[], operators: Operator[], minBinding: number): MetricQuery {
  let left = operands.shift() as MetricQuery;
  for (let next = operators[0]; next && (BINDING[next.operator] as number) >= minBinding; next = operators[0]) {
    operators.shift();
    const binding = BINDING[next.operator] as number;
    // A power is right-associative.
    left = combineOperands({
      kind: "binary",
      ...next,
      left,
      right: bind(operands, operators, next.operator === "^" ? binding : binding + 1),
    });
  }
  return left;
}

/** Two numbers are combined immediately. */
function combineOperands(operation: BinaryOperation): MetricQuery {
  const { operator, left, right } = operation;
  const isSet = !isCalculable(operator);
  if (isSet && (left.kind === "number" || right.kind === "number"))
    throw wrongQuery(`unexpected literal for a side of logical/set binary operation (${operator}): it takes series on both sides`);
  if (left.kind === "number" && right.kind === "number") return { kind: "number", value: calculate(operator, left.value, right.value) };
  return operation;
}

function readMatching(tree: Tree, modifier: SyntaxNode, operator: string): { returnsBool: boolean; matching: VectorMatching | undefined } {
  const returnsBool = modifier.getChild("Bool") !== null;
  if (returnsBool && !isComparison(operator)) throw wrongQuery(`bool is for comparisons, not for ${operator}`);
  const on = modifier.getChild("OnOrIgnoringModifier");
  if (!on) return { returnsBool, matching: undefined };
  const side = modifier.getChild("GroupLeft") ? "left" : modifier.getChild("GroupRight") ? "right" : undefined;
  if (side && !isCalculable(operator)) throw wrongQuery(`group_${side} is not for ${operator}`);
  const isOn = on.getChild("On") !== null;
  const labels = labelsOf(tree, on.getChild("GroupingLabels"));
  const include = labelsOf(tree, modifier.getChild("GroupingLabels"));
  const repeated = isOn && include.find((label) => labels.includes(label));
  if (repeated) throw wrongQuery(`the label ${repeated} must not occur in on() and group_${side}() at once`);
  return { returnsBool, matching: { on: isOn, labels, group: side && { side, include } } };
}

function labelsOf(tree: Tree, node: SyntaxNode | null): string[] {
  return itemsOf(node?.getChild("GroupingLabelList") ?? null, "GroupingLabelList", "GroupingLabel").map((label) => tree.of(label));
}

/** Range aggregations over lines, without unwrap. */
export const OF_LINES = new Set(["count_over_time", "rate", "bytes_over_time", "bytes_rate", "absent_over_time"]);
const GROUPED = ["avg", "stddev", "stdvar", "quantile", "max", "min", "first", "last"].map((name) => `${name}_over_time`);
const OF_VALUES = new Set([...GROUPED, "sum_over_time", "rate", "rate_counter", "absent_over_time"]);
const MAY_GROUP = new Set(GROUPED);

export function checkRange({ operation, unwrap, grouping, parameter, rangeNs }: RangeAggregation): void {
  if (!OF_LINES.has(operation) && !OF_VALUES.has(operation)) throw wrongQuery(`${operation} is not supported`);
  if (unwrap && !OF_VALUES.has(operation)) throw wrongQuery(`invalid aggregation ${operation} with unwrap`);
  if (!unwrap && !OF_LINES.has(operation)) throw wrongQuery(`invalid aggregation ${operation} without unwrap`);
  if (grouping && !MAY_GROUP.has(operation))
    throw wrongQuery(`grouping not allowed for ${operation} aggregation: write sum by (…) (${operation}(…))`);
  if (operation === "quantile_over_time" && parameter === undefined)
    throw wrongQuery("parameter required for operation quantile_over_time");
  if (operation !== "quantile_over_time" && parameter !== undefined)
    throw wrongQuery(`parameter ${parameter} not supported for operation ${operation}`);
  if (rangeNs <= 0n) throw wrongQuery("a range must be longer than nothing, such as [5m]");
}

const AGGREGATIONS = new Set(["sum", "avg", "count", "max", "min", "stddev", "stdvar", "topk", "bottomk", "sort", "sort_desc"]);

export function checkVector({ operation, grouping, parameter }: Omit<VectorAggregation, "of">): void {
  if (!AGGREGATIONS.has(operation)) throw wrongQuery(`${operation} is not supported${operation === "approx_topk" ? ": write topk" : ""}`);
  const needsParameter = operation === "topk" || operation === "bottomk";
  if (needsParameter && parameter === undefined) throw wrongQuery(`parameter required for operation ${operation}`);
  if (!needsParameter && parameter !== undefined) throw wrongQuery(`unsupported parameter for operation ${operation}(${parameter},`);
  if (needsParameter && !(Number.isInteger(parameter) && (parameter as number) > 0))
    throw wrongQuery(`invalid parameter (must be greater than 0) ${operation}(${parameter}`);
  if (grouping && operation.startsWith("sort")) throw wrongQuery(`sort and sort_desc doesn't allow grouping by`);
}
