// OTLP/JSON metrics → Prometheus exposition text, the form that `/ingest` takes. Invariants: no line that the store would refuse; a sample
// keeps its point's own time; what cannot be kept is counted by reason and never becomes a wrong number. Source: OpenTelemetry
// specification, compatibility/prometheus_and_openmetrics.md, "OTLP Metric points to Prometheus". No HELP and TYPE lines: they would be
// half of the bytes of a small scrape, and the query API offers no metadata. No scope labels.
import { BodyError } from "./body.ts";
import { BoundsText } from "./histogram-buckets.ts";
import { isCumulative, isDelta, type Metric, type MetricsDocument, type Point, type ResourceMetrics } from "./otlp-metrics.ts";
import { Posts } from "./posts.ts";
import { metricName, type NamedAs } from "./prometheus-names.ts";
import { ResourceLabels } from "./series-labels.ts";
import { NO_ATTRIBUTES, type OnDrop, SeriesWriter } from "./series-writer.ts";

/** After this many points of a metric, bodies that are full are given away, so that they need not all be held. */
const SLICE_POINTS = 500;
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
   * it becomes more than MOST_POSTS full bodies (posts.ts).
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
