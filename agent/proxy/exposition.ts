// OTLP/JSON metrics → Prometheus exposition text, the form that `/ingest` takes. Invariants: no line that the store would refuse; a sample
// keeps its point's own time; what cannot be kept is counted by reason and never becomes a wrong number. Source: OpenTelemetry
// specification, compatibility/prometheus_and_openmetrics.md, "OTLP Metric points to Prometheus". No HELP and TYPE lines: they would be
// half of the bytes of a small scrape, and the query API offers no metadata. No scope labels.
import { BodyError } from "./body.ts";
import { BoundsText, type Bucket, explicitBuckets, exponentialBuckets } from "./histogram-buckets.ts";
import {
  type ExponentialHistogramPoint,
  type HistogramPoint,
  type Int64,
  isCumulative,
  isDelta,
  type KeyValue,
  type Metric,
  type MetricsDocument,
  type NumberPoint,
  type Point,
  type ResourceMetrics,
  type SummaryPoint,
  toDigits,
  toDouble,
} from "./otlp-metrics.ts";
import { metricName, type NamedAs, plainDecimal, sampleValue } from "./prometheus-names.ts";
import { PointLabels, ResourceLabels } from "./series-labels.ts";

/** Why a point was left out. `delta`: the collector makes delta cumulative, so this is what it could not. */
export type DropReason = "delta" | "unspecified_temporality" | "unusable_name" | "malformed_point" | "bad_time" | "too_many_labels";

export type OnDrop = (reason: DropReason, points: number) => void;

const NO_ATTRIBUTES: readonly KeyValue[] = [];
/** Strings grow cheaply while they are small and young: lines are joined up to this length, then written into the post. */
const PIECE_LENGTH = 16 * 1024;
/** A resource's labels are repeated with each of its points: a small document can become any amount of text. */
const MOST_POSTS = 8;
/** After this many points of a metric, bodies that are full are given away, so that they need not all be held. */
const SLICE_POINTS = 500;
/** The store reads a smaller time as seconds. */
const FIRST_MILLISECOND = 2 ** 31;
const LONGEST_METRIC_NAME = 240;
/** A name is worked out once; forgotten all at once when applications make up names without end. */
const MOST_KEPT_NAMES = 20_000;

export class MetricsConverter {
  readonly #names: Record<NamedAs, Map<string, { unit: string; result: string }>> = {
    counter: new Map(),
    gauge: new Map(),
    other: new Map(),
  };
  readonly #drop: OnDrop;

  /** `onDrop` is told of points left out. */
  constructor(onDrop: OnDrop) {
    this.#drop = onDrop;
  }

  /**
   * `json`: an ExportMetricsServiceRequest. Gives bodies of at most `maxPostBytes` one after the other, none when there is nothing to
   * send; the same document always gives the same bodies. Throws BodyError "malformed" when it is not such a document, "too_large" when
   * it becomes more than MOST_POSTS full bodies.
   */
  *convert(json: string, maxPostBytes: number): Generator<Buffer, void> {
    const posts = new Posts(maxPostBytes, json.length);
    try {
      const { resourceMetrics = [] } = JSON.parse(json) as MetricsDocument;
      const targets = new Set<string>();
      for (const resource of resourceMetrics) yield* this.#resource(resource, targets, posts);
      yield* posts.finish();
    } catch (cause) {
      if (cause instanceof BodyError) throw cause;
      throw new BodyError("malformed", "metrics that are not an OTLP/JSON document", { cause });
    }
  }

  *#resource({ resource, scopeMetrics = [] }: ResourceMetrics, targets: Set<string>, posts: Posts): Generator<Buffer, void> {
    const labels = new ResourceLabels(resource?.attributes ?? NO_ATTRIBUTES);
    const writer = new SeriesWriter(labels, posts, this.#drop);
    for (const { metrics = [] } of scopeMetrics) {
      for (const metric of metrics) {
        const { points, write } = this.#writing(metric, writer) ?? NOTHING;
        for (let from = 0; from < points.length; from += SLICE_POINTS) {
          write(points.length <= SLICE_POINTS ? points : points.slice(from, from + SLICE_POINTS));
          if (posts.hasFull) yield* posts.takeFull();
        }
      }
    }
    const info = writer.lastTime === undefined || targets.has(labels.target) ? undefined : labels.infoText();
    if (info === undefined) return;
    targets.add(labels.target);
    posts.text += `target_info{${info}} 1${writer.lastTime}\n`;
  }

  /** The metric's points and what writes some of them; undefined when they cannot be kept. */
  #writing(metric: Metric, writer: SeriesWriter): Writing | undefined {
    const { gauge, sum, histogram, exponentialHistogram, summary } = metric;
    const points: readonly Point[] = (gauge ?? sum ?? histogram ?? exponentialHistogram ?? summary)?.dataPoints ?? [];
    if (points.length === 0) return undefined;
    const temporality = (sum ?? histogram ?? exponentialHistogram)?.aggregationTemporality;
    if (!gauge && !summary && !isCumulative(temporality)) {
      this.#drop(isDelta(temporality) ? "delta" : "unspecified_temporality", points.length);
      return undefined;
    }
    const name = this.#name(metric, gauge ? "gauge" : sum?.isMonotonic ? "counter" : "other");
    if (name === "" || name.length > LONGEST_METRIC_NAME) {
      this.#drop("unusable_name", points.length);
      return undefined;
    }
    if (gauge ?? sum) return { points, write: (some) => writer.numbers(name, some) };
    if (summary) return { points, write: (some) => writer.summaries(name, some) };
    if (exponentialHistogram) return { points, write: (some) => writer.exponentialHistograms(name, some) };
    const bounds = new BoundsText();
    return { points, write: (some) => writer.histograms(name, some, bounds) };
  }

  #name({ name = "", unit = "" }: Metric, namedAs: NamedAs): string {
    const names = this.#names[namedAs];
    const known = names.get(name);
    if (known?.unit === unit) return known.result;
    if (names.size >= MOST_KEPT_NAMES) names.clear();
    const result = metricName(name, unit, namedAs);
    names.set(name, { unit, result });
    return result;
  }
}

interface Writing {
  readonly points: readonly Point[];
  readonly write: (some: readonly Point[]) => void;
}

const NOTHING: Writing = { points: [], write: () => {} };

/** Writes the points of one resource's metrics. */
class SeriesWriter {
  readonly #resource: ResourceLabels;
  readonly #posts: Posts;
  readonly #drop: OnDrop;
  readonly #plain: PointLabels;
  #timeNano: Int64 | undefined;
  #time: string | undefined = "";
  /** Of the last point written: ` <ms>`, or "" for a point without time; undefined before the first. */
  lastTime: string | undefined;

  constructor(resource: ResourceLabels, posts: Posts, drop: OnDrop) {
    this.#resource = resource;
    this.#posts = posts;
    this.#drop = drop;
    this.#plain = new PointLabels(resource);
  }

  numbers(name: string, points: readonly NumberPoint[]): void {
    const open = `${name}{`;
    const posts = this.#posts;
    for (const point of points) {
      const place = this.#place(point, this.#plain);
      if (place === undefined) continue;
      const value = typeof point.asDouble === "number" ? sampleValue(point.asDouble) : otherNumber(point);
      if (value === undefined) this.#drop("malformed_point", 1);
      else posts.text += place === "" ? `${name} ${value}${this.#time}\n` : `${open}${place}} ${value}${this.#time}\n`;
    }
  }

  histograms(name: string, points: readonly HistogramPoint[], bounds: BoundsText): void {
    const labels = new PointLabels(this.#resource, "le");
    for (const point of points) this.#histogram(name, point, labels, () => explicitBuckets(point, bounds));
  }

  exponentialHistograms(name: string, points: readonly ExponentialHistogramPoint[]): void {
    const labels = new PointLabels(this.#resource, "le");
    for (const point of points) this.#histogram(name, point, labels, () => exponentialBuckets(point));
  }

  #histogram(
    name: string,
    point: HistogramPoint | ExponentialHistogramPoint,
    labels: PointLabels,
    buckets: () => readonly Bucket[] | undefined,
  ): void {
    const place = this.#place(point, labels);
    if (place === undefined) return;
    const found = buckets();
    const count = toDigits(point.count ?? 0);
    if (found === undefined || count === undefined) return this.#drop("malformed_point", 1);
    const open = flat(`${name}_bucket{${place}${place === "" ? "" : ","}`);
    const end = `${this.#time}\n`;
    for (const bucket of found) {
      this.#posts.text += open + bucket.le + bucket.count + end;
      this.#posts.writeIfLarge();
    }
    this.#posts.text += `${open}le="+Inf"} ${count}${end}${this.#sumAndCount(name, place, toDouble(point.sum), count)}`;
  }

  summaries(name: string, points: readonly SummaryPoint[]): void {
    const labels = new PointLabels(this.#resource, "quantile");
    for (const point of points) {
      const place = this.#place(point, labels);
      if (place === undefined) continue;
      const count = toDigits(point.count ?? 0);
      const quantiles = (point.quantileValues ?? []).map(({ quantile, value }) => [toDouble(quantile ?? 0), toDouble(value ?? 0)] as const);
      if (count === undefined || quantiles.some(([quantile]) => !(quantile !== undefined && quantile >= 0 && quantile <= 1))) {
        this.#drop("malformed_point", 1);
        continue;
      }
      const open = `${name}{${place}${place === "" ? "" : ","}quantile="`;
      for (const [quantile = 0, value = Number.NaN] of quantiles) {
        this.#posts.text += `${open}${plainDecimal(quantile)}"} ${sampleValue(value)}${this.#time}\n`;
        this.#posts.writeIfLarge();
      }
      this.#posts.text += this.#sumAndCount(name, place, toDouble(point.sum ?? 0), count);
    }
  }

  #sumAndCount(name: string, place: string, sum: number | undefined, count: string): string {
    const braced = place === "" ? "" : `{${place}}`;
    const sumLine = sum === undefined ? "" : `${name}_sum${braced} ${sampleValue(sum)}${this.#time}\n`;
    return `${sumLine}${name}_count${braced} ${count}${this.#time}\n`;
  }

  /** The point's labels, its time in #time; undefined when the point is not written. */
  #place(point: Point, labels: PointLabels): string | undefined {
    // NoRecordedValue: the series ended. The text format cannot say so, and a number would be wrong.
    if (((point.flags ?? 0) & 1) === 1) return undefined;
    if (point.timeUnixNano !== this.#timeNano) {
      this.#timeNano = point.timeUnixNano;
      this.#time = timeText(point.timeUnixNano);
    }
    const place = labels.text(point.attributes ?? NO_ATTRIBUTES);
    if (this.#time === undefined || place === undefined) {
      this.#drop(place === undefined ? "too_many_labels" : "bad_time", 1);
      return undefined;
    }
    this.lastTime = this.#time;
    this.#posts.writeIfLarge();
    return place;
  }
}

/** ` <milliseconds>`; "" for no time, which the store reads as now; undefined for a time that the store would misread. */
function timeText(nano: Int64 | undefined): string | undefined {
  if (nano === undefined) return "";
  const digits = toDigits(nano);
  if (digits === undefined) return undefined;
  if (Number(digits) === 0) return "";
  const milliseconds = digits.slice(0, -6);
  return Number(milliseconds) < FIRST_MILLISECOND ? undefined : ` ${milliseconds}`;
}

/**
 * The same text in one piece: one put together of many would be walked through again for each line that it begins. Reading a character
 * is what makes V8 join the pieces, and only where the character is used.
 */
function flat(text: string): string {
  return text.charCodeAt(0) === 0 ? "" : text;
}

/** An integer with all its digits, or a double that came as text. */
function otherNumber(point: NumberPoint): string | undefined {
  if (point.asInt !== undefined) return toDigits(point.asInt);
  const value = toDouble(point.asDouble);
  return value === undefined ? undefined : sampleValue(value);
}

/** Text cut into bodies at the ends of lines. */
class Posts {
  readonly #maxPostBytes: number;
  readonly #full: Buffer[] = [];
  #cutBytes = 0;
  #post: Buffer;
  #used = 0;
  /** Lines not yet written into #post. */
  text = "";

  constructor(maxPostBytes: number, expectedBytes: number) {
    this.#maxPostBytes = maxPostBytes;
    this.#post = Buffer.allocUnsafe(Math.min(Math.max(expectedBytes, 4 * PIECE_LENGTH), maxPostBytes));
  }

  /** To be called at least once a line. */
  writeIfLarge(): void {
    if (this.text.length >= PIECE_LENGTH) this.#write();
  }

  get hasFull(): boolean {
    return this.#full.length > 0;
  }

  takeFull(): Buffer[] {
    return this.#full.splice(0);
  }

  finish(): Buffer[] {
    this.#write();
    this.#cut();
    return this.takeFull();
  }

  #write(): void {
    const mostBytes = this.text.length * 3;
    if (this.#used + mostBytes > this.#maxPostBytes) this.#cut();
    if (this.#used + mostBytes > this.#post.length) {
      const larger = Buffer.allocUnsafe(Math.min(Math.max(2 * this.#post.length, this.#used + mostBytes), this.#maxPostBytes));
      this.#post.copy(larger, 0, 0, this.#used);
      this.#post = larger;
    }
    this.#used += this.#post.write(this.text, this.#used);
    this.text = "";
    if (this.#cutBytes + this.#used > MOST_POSTS * this.#maxPostBytes) {
      throw new BodyError("too_large", `metrics that become more than ${MOST_POSTS * this.#maxPostBytes} bytes of text`);
    }
  }

  #cut(): void {
    if (this.#used === 0) return;
    this.#full.push(this.#post.subarray(0, this.#used));
    this.#cutBytes += this.#used;
    this.#post = Buffer.allocUnsafe(Math.min(4 * PIECE_LENGTH, this.#maxPostBytes));
    this.#used = 0;
  }
}
