// Defines the parsed form of a LogQL query with the terms of Loki's documentation: selectors, stages, range and vector aggregations.
// Invariant: it represents only queries that can be evaluated; the parsers reject all others by name.

export type MatchOperator = "=" | "!=" | "=~" | "!~";

export interface Matcher {
  readonly name: string;
  readonly operator: MatchOperator;
  readonly value: string;
}

export type CompareOperator = "==" | "!=" | ">" | ">=" | "<" | "<=";

/** How the text of a label is converted to a number; durations in seconds. */
export type Conversion = "number" | "duration" | "bytes";

export type LabelFilter =
  | { readonly kind: "match"; readonly matcher: Matcher }
  | {
      readonly kind: "compare";
      readonly name: string;
      readonly operator: CompareOperator;
      readonly value: number;
      readonly conversion: Conversion;
    }
  | { readonly kind: "and" | "or"; readonly left: LabelFilter; readonly right: LabelFilter };

export type LineOperator = "|=" | "!=" | "|~" | "!~" | "|>" | "!>";

/** A line passes if one of the texts occurs in it or, with an operator that begins with "!", if none does. */
export interface LineFilter {
  readonly kind: "line_filter";
  readonly operator: LineOperator;
  readonly texts: readonly string[];
}

/** A label name, or a label whose value matches. */
export type LabelChoice = string | Matcher;

/** `from`: the label whose value is moved to the new name; `template`: creates the value. */
export interface LabelFormat {
  readonly name: string;
  readonly from?: string;
  readonly template?: string;
}

export type Stage =
  | LineFilter
  | { readonly kind: "label_filter"; readonly filter: LabelFilter }
  | { readonly kind: "json"; readonly paths?: readonly (readonly [name: string, path: string])[] }
  | {
      readonly kind: "logfmt";
      readonly isStrict: boolean;
      readonly keepsEmpty: boolean;
      readonly keys?: readonly (readonly [name: string, key: string])[];
    }
  | { readonly kind: "regexp" | "pattern" | "line_format"; readonly text: string }
  | { readonly kind: "unpack" | "decolorize" }
  | { readonly kind: "label_format"; readonly formats: readonly LabelFormat[] }
  | { readonly kind: "drop" | "keep"; readonly labels: readonly LabelChoice[] };

/** Whether the stage reads or changes the line; the other stages only use labels. */
export function usesLine({ kind }: Stage): boolean {
  return !["label_filter", "label_format", "drop", "keep"].includes(kind);
}

export interface LogQuery {
  readonly kind: "log";
  readonly selector: readonly Matcher[];
  readonly stages: readonly Stage[];
}

export interface Unwrap {
  readonly label: string;
  readonly conversion: Conversion;
  readonly filters: readonly LabelFilter[];
}

export interface Grouping {
  readonly without: boolean;
  readonly labels: readonly string[];
}

export interface RangeAggregation {
  readonly kind: "range";
  /** The name of the operation, such as count_over_time. */
  readonly operation: string;
  readonly log: LogQuery;
  readonly rangeNs: bigint;
  readonly offsetNs: bigint;
  readonly unwrap: Unwrap | undefined;
  readonly grouping: Grouping | undefined;
  /** The quantile of quantile_over_time. */
  readonly parameter: number | undefined;
}

export interface VectorAggregation {
  readonly kind: "aggregate";
  /** The name of the operation, such as sum. */
  readonly operation: string;
  readonly of: MetricQuery;
  readonly grouping: Grouping | undefined;
  /** The number of series of topk and bottomk. */
  readonly parameter: number | undefined;
}

export interface VectorMatching {
  readonly on: boolean;
  readonly labels: readonly string[];
  readonly group: { readonly side: "left" | "right"; readonly include: readonly string[] } | undefined;
}

export interface BinaryOperation {
  readonly kind: "binary";
  /** The operator, such as + or unless. */
  readonly operator: string;
  readonly left: MetricQuery;
  readonly right: MetricQuery;
  readonly returnsBool: boolean;
  readonly matching: VectorMatching | undefined;
}

export type MetricQuery =
  | RangeAggregation
  | VectorAggregation
  | BinaryOperation
  | { readonly kind: "number"; readonly value: number }
  | { readonly kind: "vector"; readonly value: number }
  | {
      readonly kind: "label_replace";
      readonly of: MetricQuery;
      readonly target: string;
      readonly replacement: string;
      readonly source: string;
      readonly pattern: string;
    };

export type Query = LogQuery | MetricQuery;
