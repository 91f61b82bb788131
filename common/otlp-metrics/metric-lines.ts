// Converts one metric's points to lines: determines their kind and name, and the function that writes them. Invariant: data that cannot be
// represented is counted by reason.
import { BoundsText } from "./histogram-buckets.ts";
import { isCumulative, isDelta, listOf, type Metric, type Point, ShapeError } from "./document.ts";
import { MAX_CACHED_LENGTH, MAX_CACHED_NAMES, MAX_METRIC_NAME_LENGTH } from "./otlp-metrics-limits.ts";
import { metricName, type NamedAs } from "./prometheus-names.ts";
import type { OnDrop, SeriesWriter } from "./series-writer.ts";

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

  /** Undefined if the points cannot be represented, or if there are none. Throws ShapeError if points may be in another field. */
  writing(metric: Metric, writer: SeriesWriter): Writing | undefined {
    const { gauge, sum, histogram, exponentialHistogram, summary } = metric;
    const kinds = [gauge, sum, histogram, exponentialHistogram, summary].filter((kind) => kind !== undefined && kind !== null);
    if (kinds.length > 1) throw new ShapeError("a metric has one kind, but several are set");
    const points = listOf<Point>((gauge ?? sum ?? histogram ?? exponentialHistogram ?? summary)?.dataPoints, "dataPoints");
    if (points.length === 0) {
      refuseUnknownPoints(metric);
      return undefined;
    }
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

  #name(metric: Metric, namedAs: NamedAs): string {
    const [name, unit] = [metric.name ?? "", metric.unit ?? ""];
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

const KINDS: ReadonlySet<string> = new Set(["gauge", "sum", "histogram", "exponentialHistogram", "summary"] satisfies (keyof Metric)[]);

/**
 * Throws ShapeError if a metric without points has a list where points could be, such as `intGauge` of an early OTLP: a success must not mean
 * that nothing was understood.
 */
function refuseUnknownPoints(metric: object): void {
  for (const [kind, data] of Object.entries(metric) as [string, unknown][]) {
    if (data === null || data === undefined || kind === "metadata") continue;
    const isKnown = KINDS.has(kind);
    const isMessage = typeof data === "object" && !Array.isArray(data);
    if (isKnown && !isMessage) throw new ShapeError(`${kind} must be an object`);
    const lists = isMessage ? Object.entries(data).filter(([, value]) => Array.isArray(value) && value.length > 0) : [];
    const [list] = lists.filter(([name]) => !isKnown || name !== "dataPoints");
    if (list) throw new ShapeError(isKnown ? `${kind}.${list[0]} is not known: points are dataPoints` : `${kind} is not a kind of metric`);
  }
}

function isUsable(name: string): boolean {
  return name !== "" && name.length <= MAX_METRIC_NAME_LENGTH;
}
