// Converts one metric's points to lines: determines their kind and name, and the function that writes them. Invariant: data that cannot be
// represented is counted by reason.
import { BoundsText } from "./histogram-buckets.ts";
import { isCumulative, isDelta, listOf, type Metric, type Point, type KeyValue } from "./document.ts";
import { MAX_CACHED_LENGTH, MAX_CACHED_NAMES, MAX_METRIC_NAME_LENGTH } from "./otlp-metrics-limits.ts";
import { metricName, type NamedAs } from "./prometheus-names.ts";
import { type OnDrop, type Lines, SeriesWriter } from "./series-writer.ts";
import { PointLabels, type ResourceLabels } from "./series-labels.ts";

/** Points of a metric, and the function that writes a range of them. */
export interface Writing {
  readonly points: readonly Point[];
  readonly write: (some: readonly Point[]) => void;
}

export class MetricLines {
  readonly #names: Record<NamedAs, Map<string, { unit: string; result: string }>> = {
    counter: new Map(),
    gauge: new Map(),
    other: new Map(),
  };
  readonly #drop: OnDrop;

  /** `onDrop` is called with the number of omitted points per reason. */
  constructor(onDrop: OnDrop) {
    this.#drop = onDrop;
  }

  /** Undefined if the points cannot be represented, or if there are none. */
  writing(metric: Metric, writer: SeriesWriter): Writing | undefined {
    const { gauge, sum, histogram, exponentialHistogram, summary } = metric;
    const points = listOf<Point>((gauge ?? sum ?? histogram ?? exponentialHistogram ?? summary)?.dataPoints, "dataPoints");
    if (points.length === 0) return undefined;
    const temporality = (sum ?? histogram ?? exponentialHistogram)?.aggregationTemporality;
    if (!gauge && !summary && !isCumulative(temporality)) {
      this.#drop(isDelta(temporality) ? "delta" : "unspecified_temporality", points.length);
      return undefined;
    }
    const name = this.#name(metric, gauge ? "gauge" : sum?.isMonotonic ? "counter" : "other");
    if (!isUsable(name)) {
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
    const result = metricName(name, unit, namedAs);
    if (name.length + unit.length > MAX_CACHED_LENGTH) return result;
    if (names.size >= MAX_CACHED_NAMES) names.clear();
    names.set(name, { unit, result });
    return result;
  }
}

/** The metric's name as text; "" if the store would not accept it. */
export function usableName(name: string, unit: string, namedAs: NamedAs): string {
  const result = metricName(name, unit, namedAs);
  return isUsable(result) ? result : "";
}

function isUsable(name: string): boolean {
  return name !== "" && name.length <= MAX_METRIC_NAME_LENGTH;
}

export class ResourceText {
  /** Index of the resource in the document. */
  readonly number: number;
  readonly #labels: ResourceLabels;
  readonly #metrics: MetricLines;
  readonly #writer: SeriesWriter;
  readonly #lines = new BoundedLines();
  #plain: PointLabels | undefined;
  #ofHistogram: PointLabels | undefined;
  /** Time of the last point that was written. */
  #lastTime: string | undefined;

  constructor(number: number, labels: ResourceLabels, metrics: MetricLines, onDrop: OnDrop) {
    this.number = number;
    this.#labels = labels;
    this.#metrics = metrics;
    this.#writer = new SeriesWriter(labels, this.#lines, onDrop);
  }

  /** Throws like SeriesWriter if it is not a metric, and RangeError if the text exceeds `mostLength` characters. */
  metric(metric: Metric, mostLength: number): { text: string; hadPoints: boolean } {
    const writer = this.#writer;
    writer.lastTime = undefined;
    this.#lines.text = "";
    this.#lines.mostLength = mostLength;
    const writing = this.#metrics.writing(metric, writer);
    writing?.write(writing.points);
    const hadPoints = writer.lastTime !== undefined;
    if (hadPoints) this.#lastTime = writer.lastTime;
    return { text: this.#lines.text, hadPoints };
  }

  /** Undefined if the point has more labels than the store accepts. */
  pointLabels(attributes: readonly KeyValue[], isHistogram: boolean): string | undefined {
    const labels = isHistogram
      ? (this.#ofHistogram ??= new PointLabels(this.#labels, "le"))
      : (this.#plain ??= new PointLabels(this.#labels));
    return labels.text(attributes);
  }

  /** The line, or "" if there is none to write. `time`: time of a point that is later than those written here. */
  targetInfo(time: string | undefined, targets: Set<string>): string {
    const last = time ?? this.#lastTime;
    const { target } = this.#labels;
    const info = last === undefined || targets.has(target) ? undefined : this.#labels.infoText();
    if (info === undefined) return "";
    targets.add(target);
    return `target_info{${info}} 1${last}\n`;
  }
}

class BoundedLines implements Lines {
  text = "";
  mostLength = 0;

  writeIfLarge(): void {
    if (this.text.length > this.mostLength) throw new RangeError("more text than fits into a post");
  }
}
