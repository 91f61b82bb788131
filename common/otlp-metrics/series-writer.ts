// Writes the points of one resource's metrics as lines of exposition text. Invariants: a line has its point's own time; data that cannot be
// represented is counted by reason and never becomes a wrong number.
import { type BoundsText, type Bucket, explicitBuckets, exponentialBuckets } from "./histogram-buckets.ts";
import {
  BodyError,
  type ExponentialHistogramPoint,
  type HistogramPoint,
  type Int64,
  listOf,
  type NumberPoint,
  type OtlpExemplar,
  type Point,
  requireMessage,
  type SummaryPoint,
  toCount,
  toDigits,
  toDouble,
} from "./document.ts";
import { plainDecimal, sampleValue } from "./prometheus-names.ts";
import { PointLabels, type ResourceLabels } from "./series-labels.ts";

/** Why a point was omitted. `delta`: the collector normally converts delta to cumulative, and could not convert this point. */
export type DropReason = "delta" | "unspecified_temporality" | "unusable_name" | TimeProblem | PointProblem;
type TimeProblem = "bad_time" | "before_retention" | "too_far_ahead";
type PointProblem = "malformed_point" | "too_many_labels" | "duplicate_series";

/** The times that the store keeps, in milliseconds since 1970. */
export type KeptTimes = Readonly<Record<"oldestMs" | "newestMs", number>>;

export type OnDrop = (reason: DropReason, points: number) => void;

/** Called with the exemplars of a point; the last function returns the labels of the series to which one of them belongs. */
export type OnExemplars = (name: string, exemplars: readonly OtlpExemplar[], labelTextOf: (exemplar: OtlpExemplar) => string) => void;

/** Called with the error of a point that cannot be read, instead of throwing it. */
export type OnBadPoint = (error: unknown) => void;

/** Buffer to which lines are written (converter.ts). */
export interface Lines {
  /** Lines that are not yet anywhere else. */
  text: string;
  /** Call at least once per line. */
  writeIfLarge(): void;
}

/** The store interprets smaller times as seconds. */
const FIRST_MILLISECOND = 2 ** 31;

/** Writes the points of one resource's metrics. */
export class SeriesWriter {
  readonly #resource: ResourceLabels;
  readonly #lines: Lines;
  readonly #drop: OnDrop;
  readonly #onExemplars: OnExemplars | undefined;
  readonly #onBadPoint: OnBadPoint | undefined;
  readonly #plain: PointLabels;
  /** Index of the current point of the metric; set it to 0 before each metric. */
  point = 0;
  /** Labels and times of the points so far of metrics with the name of this one; unset if the resource has only one such metric. */
  written: Set<string> | undefined;
  /** Points of other times are dropped. Unset: the backend checks the times when it stores the lines. */
  keptTimes: KeptTimes | undefined;
  #timeNano: Int64 | undefined;
  #time: string | undefined = "";
  #timeProblem: DropReason | undefined;
  /** Time of the last written point: ` <ms>`, or "" for a point without time; undefined before the first. */
  lastTime: string | undefined;

  /** Without `onExemplars`, exemplars are ignored; the lines never contain them. */
  constructor(resource: ResourceLabels, lines: Lines, drop: OnDrop, onExemplars?: OnExemplars, onBadPoint?: OnBadPoint) {
    this.#resource = resource;
    this.#lines = lines;
    this.#drop = drop;
    this.#onExemplars = onExemplars;
    this.#onBadPoint = onBadPoint;
    this.#plain = new PointLabels(resource);
  }

  numbers(name: string, points: readonly NumberPoint[]): void {
    const open = `${name}{`;
    const lines = this.#lines;
    this.#each(points, (point) => {
      const labelText = this.#labelText(point, this.#plain);
      if (labelText === undefined) return;
      const value = numberText(point);
      if (value === undefined) return this.#drop("malformed_point", 1);
      lines.text += labelText === "" ? `${name} ${value}${this.#time}\n` : `${open}${labelText}} ${value}${this.#time}\n`;
      if (point.exemplars) this.#onExemplars?.(name, exemplarsOf(point), () => labelText);
    });
  }

  /** Every line of a point is written after all of it was read, so a point that cannot be read has no lines. */
  #each<P extends Point>(points: readonly P[], write: (point: P) => void): void {
    const onBadPoint = this.#onBadPoint;
    for (const point of points) {
      try {
        if (onBadPoint) requireMessage(point);
        write(point);
      } catch (error) {
        if (!onBadPoint || error instanceof BodyError) throw error;
        onBadPoint(error);
      }
      this.point += 1;
    }
  }

  histograms(name: string, points: readonly HistogramPoint[], bounds: BoundsText): void {
    const labels = new PointLabels(this.#resource, "le");
    this.#each(points, (point) => this.#histogram(name, point, labels, () => explicitBuckets(point, bounds)));
  }

  exponentialHistograms(name: string, points: readonly ExponentialHistogramPoint[]): void {
    const labels = new PointLabels(this.#resource, "le");
    this.#each(points, (point) => this.#histogram(name, point, labels, () => exponentialBuckets(point)));
  }

  #histogram(
    name: string,
    point: HistogramPoint | ExponentialHistogramPoint,
    labels: PointLabels,
    buckets: () => readonly Bucket[] | undefined,
  ): void {
    const labelText = this.#labelText(point, labels);
    if (labelText === undefined) return;
    const found = buckets();
    const count = toCount(point.count);
    if (found === undefined || count === undefined) return this.#drop("malformed_point", 1);
    const open = flat(`${name}_bucket{${labelText}${labelText === "" ? "" : ","}`);
    const end = `${this.#time}\n`;
    for (const bucket of found) {
      this.#lines.text += open + bucket.le + bucket.count + end;
      this.#lines.writeIfLarge();
    }
    this.#lines.text += `${open}le="+Inf"} ${count}${end}${this.#sumAndCount(name, labelText, toDouble(point.sum), count)}`;
    if (!point.exemplars) return;
    const bucketOf = (exemplar: OtlpExemplar): string => `${labelText}${labelText === "" ? "" : ","}${leOf(exemplar, found)}`;
    this.#onExemplars?.(`${name}_bucket`, exemplarsOf(point), bucketOf);
  }

  summaries(name: string, points: readonly SummaryPoint[]): void {
    const labels = new PointLabels(this.#resource, "quantile");
    this.#each(points, (point) => {
      const labelText = this.#labelText(point, labels);
      if (labelText === undefined) return;
      const count = toCount(point.count);
      const quantiles = listOf(point.quantileValues).map(({ quantile, value }) => [toDouble(quantile ?? 0), toDouble(value ?? 0)] as const);
      if (count === undefined || quantiles.some(([quantile]) => !(quantile !== undefined && quantile >= 0 && quantile <= 1))) {
        return this.#drop("malformed_point", 1);
      }
      const open = `${name}{${labelText}${labelText === "" ? "" : ","}quantile="`;
      for (const [quantile = 0, value = Number.NaN] of quantiles) {
        // As clients of Prometheus have it while nothing is observed.
        if (Number.isNaN(value)) continue;
        this.#lines.text += `${open}${plainDecimal(quantile)}"} ${sampleValue(value)}${this.#time}\n`;
        this.#lines.writeIfLarge();
      }
      this.#lines.text += this.#sumAndCount(name, labelText, toDouble(point.sum ?? 0), count);
    });
  }

  #sumAndCount(name: string, labelText: string, sum: number | undefined, count: string): string {
    const braced = labelText === "" ? "" : `{${labelText}}`;
    const sumLine = sum === undefined ? "" : `${name}_sum${braced} ${sampleValue(sum)}${this.#time}\n`;
    return `${sumLine}${name}_count${braced} ${count}${this.#time}\n`;
  }

  /** The point's labels, and its time in #time; undefined if the point is not written. */
  #labelText(point: Point, labels: PointLabels): string | undefined {
    // NoRecordedValue: the series has ended. The text format cannot express that, and a number would be wrong.
    if (((point.flags ?? 0) & 1) === 1) return undefined;
    if (point.timeUnixNano !== this.#timeNano) {
      this.#timeNano = point.timeUnixNano;
      this.#time = timeText(point.timeUnixNano);
      this.#timeProblem = problemOf(this.#time, this.keptTimes);
    }
    const labelText = labels.text(listOf(point.attributes, "attributes"));
    const problem = labelText === undefined ? "too_many_labels" : this.#timeProblem;
    if (problem !== undefined) {
      this.#drop(problem, 1);
      return undefined;
    }
    this.lastTime = this.#time;
    // Scopes are not stored. The store keeps the larger of the two values, which is the steadier one of two counters.
    if (this.written && this.written.size === this.written.add(`${labelText}${this.#time}`).size) this.#drop("duplicate_series", 1);
    this.#lines.writeIfLarge();
    return labelText;
  }
}

/** Exemplars of any shape: a fault of one must not cost its point. */
function exemplarsOf({ exemplars }: Point): readonly OtlpExemplar[] {
  return Array.isArray(exemplars) ? exemplars : [exemplars as unknown as OtlpExemplar];
}

/** ` <milliseconds>`; "" for no time, which the store treats as now; undefined for a time that the store would misinterpret. */
function timeText(nano: Int64 | undefined): string | undefined {
  const digits = toDigits(nano ?? 0);
  if (digits === undefined) return undefined;
  if (Number(digits) === 0) return "";
  const milliseconds = digits.slice(0, -6);
  return Number(milliseconds) < FIRST_MILLISECOND ? undefined : ` ${milliseconds}`;
}

function problemOf(time: string | undefined, kept: KeptTimes | undefined): DropReason | undefined {
  if (time === undefined) return "bad_time";
  if (time === "" || !kept) return undefined;
  return Number(time) < kept.oldestMs ? "before_retention" : Number(time) > kept.newestMs ? "too_far_ahead" : undefined;
}

/** Makes V8 flatten a concatenated string, which it would otherwise traverse for each line. Reading a character triggers that. */
function flat(text: string): string {
  return text.charCodeAt(0) === 0 ? "" : text;
}

/** An integer with all its digits, or a double; undefined if it is neither. */
export function numberText({ asDouble, asInt }: NumberPoint): string | undefined {
  if (asDouble !== undefined && asDouble !== null && asInt !== undefined && asInt !== null) return undefined;
  const value = toDouble(asDouble);
  return value === undefined ? toDigits(asInt) : sampleValue(value);
}

/** The label of the first bucket that contains the value; `+Inf` contains every value. */
function leOf({ asDouble, asInt }: OtlpExemplar, buckets: readonly Bucket[]): string {
  const value = toDouble(asDouble ?? asInt) ?? Number.NaN;
  let [low, high] = [0, buckets.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (Number(buckets[middle]?.le.slice('le="'.length, -'"} '.length)) >= value) high = middle;
    else low = middle + 1;
  }
  return buckets[low]?.le.slice(0, -"} ".length) ?? 'le="+Inf"';
}
