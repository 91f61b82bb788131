// The OTLP/JSON metrics document as it arrives: every field may be missing, 64-bit integers are decimal strings or numbers, and NaN and
// infinities are strings. Invariant: nothing is assumed that protobuf's JSON form does not promise. Source: opentelemetry-proto,
// metrics/v1/metrics.proto; OTLP specification, "JSON Protobuf Encoding".

export type Int64 = string | number;
export type Double = number | string;

export interface AnyValue {
  stringValue?: string;
  boolValue?: boolean;
  intValue?: Int64;
  doubleValue?: Double;
  arrayValue?: { values?: AnyValue[] };
  kvlistValue?: { values?: KeyValue[] };
  bytesValue?: string;
}
export interface KeyValue {
  key?: string;
  value?: AnyValue;
}
export interface Point {
  attributes?: KeyValue[];
  timeUnixNano?: Int64;
  flags?: number;
}
export interface NumberPoint extends Point {
  asDouble?: Double;
  asInt?: Int64;
}
export interface HistogramPoint extends Point {
  count?: Int64;
  sum?: Double;
  bucketCounts?: Int64[];
  explicitBounds?: Double[];
}
export interface Buckets {
  offset?: number;
  bucketCounts?: Int64[];
}
export interface ExponentialHistogramPoint extends Point {
  count?: Int64;
  sum?: Double;
  scale?: number;
  zeroCount?: Int64;
  zeroThreshold?: Double;
  positive?: Buckets;
  negative?: Buckets;
}
export interface SummaryPoint extends Point {
  count?: Int64;
  sum?: Double;
  quantileValues?: { quantile?: Double; value?: Double }[];
}
export interface Metric {
  name?: string;
  unit?: string;
  gauge?: { dataPoints?: NumberPoint[] };
  sum?: { dataPoints?: NumberPoint[]; aggregationTemporality?: number | string; isMonotonic?: boolean };
  histogram?: { dataPoints?: HistogramPoint[]; aggregationTemporality?: number | string };
  exponentialHistogram?: { dataPoints?: ExponentialHistogramPoint[]; aggregationTemporality?: number | string };
  summary?: { dataPoints?: SummaryPoint[] };
}
export interface ResourceMetrics {
  resource?: { attributes?: KeyValue[] };
  scopeMetrics?: { metrics?: Metric[] }[];
}
export interface MetricsDocument {
  resourceMetrics?: ResourceMetrics[];
}

/** Enum names are accepted next to numbers, as protobuf's JSON form allows. */
export function isCumulative(temporality: number | string | undefined): boolean {
  return temporality === 2 || temporality === "AGGREGATION_TEMPORALITY_CUMULATIVE";
}

export function isDelta(temporality: number | string | undefined): boolean {
  return temporality === 1 || temporality === "AGGREGATION_TEMPORALITY_DELTA";
}

/** The number, or undefined when it is not one. NaN is a number here. */
export function toDouble(value: Double | undefined): number | undefined {
  if (typeof value === "number") return value;
  if (value === "NaN") return Number.NaN;
  if (typeof value !== "string" || value.trim() === "") return undefined;
  const number = Number(value);
  return Number.isNaN(number) ? undefined : number;
}

/** Decimal digits of a 64-bit integer, exactly as sent; undefined when it is not one. */
export function toDigits(value: Int64 | undefined): string | undefined {
  if (typeof value === "number") return Number.isInteger(value) ? BigInt(value).toString() : undefined;
  return typeof value === "string" && /^-?\d{1,20}$/.test(value) ? value : undefined;
}

/** An attribute's value as text: scalars plain, bytes as base64, lists and maps as JSON. "" for an empty value. */
export function attributeText(value: AnyValue | undefined): string {
  if (value === undefined || value === null) return "";
  if (typeof value.stringValue === "string") return value.stringValue;
  const plain = plainValue(value);
  return typeof plain === "object" && plain !== null ? JSON.stringify(plain) : String(plain ?? "");
}

type Plain = string | number | boolean | null | Plain[] | { [key: string]: Plain };

function plainValue(value: AnyValue | undefined): Plain {
  if (value === undefined || value === null) return null;
  if (value.stringValue !== undefined) return value.stringValue;
  if (value.boolValue !== undefined) return value.boolValue;
  if (value.intValue !== undefined) return Number.isSafeInteger(Number(value.intValue)) ? Number(value.intValue) : String(value.intValue);
  if (value.doubleValue !== undefined) return value.doubleValue;
  if (value.bytesValue !== undefined) return value.bytesValue;
  if (value.arrayValue !== undefined) return (value.arrayValue.values ?? []).map(plainValue);
  if (value.kvlistValue === undefined) return null;
  return Object.fromEntries((value.kvlistValue.values ?? []).map(({ key = "", value }) => [key, plainValue(value)]));
}
