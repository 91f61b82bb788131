// Converts OTLP/JSON metrics to Prometheus exposition text, the format that `/ingest` accepts. Invariants: it writes no line that the store
// would refuse; a sample keeps its point's own time; data that cannot be represented is counted by reason and never becomes a wrong number.
// Source: OpenTelemetry specification, compatibility/prometheus_and_openmetrics.md, "OTLP Metric points to Prometheus". HELP and TYPE lines
// are omitted, because they would be half of the bytes of a small scrape and the backend does not store metadata. Scope labels are omitted
// too.
import {
  BodyError,
  countPoints,
  listOf,
  type Metric,
  type MetricsDocument,
  parseDocument,
  requireMessage,
  type ResourceMetrics,
  ShapeError,
} from "./document.ts";
import { MAX_REQUESTS_PER_BODY } from "./otlp-metrics-limits.ts";
import { MetricLines, type Writing } from "./metric-lines.ts";
import { ResourceLabels } from "./series-labels.ts";
import { type KeptTimes, type OnDrop, type OnExemplars, SeriesWriter } from "./series-writer.ts";

/** After this many points of a metric, complete request bodies are passed to the caller, so that they need not all be in memory at once. */
const SLICE_POINTS = 500;

/** Called for a part of the document that cannot be read, with what is wrong with it and the number of its points. */
export type OnFault = (problem: string, points: number) => void;

export class MetricsConverter {
  readonly #onFault: OnFault | undefined;
  #place: readonly [resource: number, scope?: number, metric?: number] = [0];
  #writer: SeriesWriter | undefined;
  /** See SeriesWriter. */
  keptTimes: KeptTimes | undefined;
  readonly #lines: MetricLines;
  readonly #drop: OnDrop;
  readonly #onExemplars: OnExemplars | undefined;

  /**
   * `onDrop` gets the number of omitted points per reason, `onExemplars` the exemplars of points. Without `onFault`, a document with a part
   * that cannot be read is malformed.
   */
  constructor(onDrop: OnDrop, onExemplars?: OnExemplars, onFault?: OnFault) {
    this.#onFault = onFault;
    this.#drop = onDrop;
    this.#lines = new MetricLines(onDrop);
    this.#onExemplars = onExemplars;
  }

  /** The path of what is converted now: during `onDrop` and `onFault`, of what they are called for. */
  get path(): string {
    const [resource, scope, metric] = this.#place;
    const path = `resourceMetrics[${resource}]`;
    if (scope === undefined) return path;
    if (metric === undefined) return `${path}.scopeMetrics[${scope}]`;
    return `${path}.scopeMetrics[${scope}].metrics[${metric}]${this.#writer ? `.dataPoints[${this.#writer.point}]` : ""}`;
  }

  /**
   * `json`: an ExportMetricsServiceRequest. Yields bodies of at most `maxPostBytes` one after the other, none if there is nothing to send;
   * the same document always yields the same bodies. Throws BodyError "malformed" if it is not such a document, "too_large" if it exceeds
   * MAX_REQUESTS_PER_BODY full bodies, `maxTextBytes` or the number of values (document.ts).
   */
  *convert(json: Buffer, maxPostBytes: number, maxTextBytes?: number): Generator<Buffer, void> {
    yield* this.convertDocument(() => parseDocument(json) as MetricsDocument, json.length, maxPostBytes, maxTextBytes);
  }

  /** The same for a document of `bytes`, which `read` returns. */
  *convertDocument(
    read: () => MetricsDocument,
    bytes: number,
    maxPostBytes: number,
    maxTextBytes = MAX_REQUESTS_PER_BODY * maxPostBytes,
  ): Generator<Buffer, void> {
    const posts = new Posts(maxPostBytes, maxTextBytes, bytes);
    try {
      const { resourceMetrics } = read();
      const targets = new Set<string>();
      for (const [index, resource] of listOf(resourceMetrics, "resourceMetrics").entries()) {
        this.#place = [index];
        this.#writer = undefined;
        yield* this.#resource(resource, targets, posts);
      }
      yield* posts.finish();
    } catch (cause) {
      if (cause instanceof BodyError) throw cause;
      throw new BodyError("malformed", "metrics that are not an OTLP/JSON document", { cause });
    }
  }

  *#resource(part: ResourceMetrics, targets: Set<string>, posts: Posts): Generator<Buffer, void> {
    const [resource] = this.#place;
    const read = this.#read(part, countOfResource, (whole) => {
      if (this.#onFault && whole.resource) requireMessage(whole.resource);
      const scopes = listOf(whole.scopeMetrics, "scopeMetrics");
      return { scopes, labels: new ResourceLabels(listOf(whole.resource?.attributes, "resource.attributes")) };
    });
    if (!read) return;
    const { scopes, labels } = read;
    const onBadPoint = this.#onFault && ((error: unknown): void => this.#fault(error, 1));
    const writer = new SeriesWriter(labels, posts, this.#drop, this.#onExemplars, onBadPoint);
    writer.keptTimes = this.keptTimes;
    const repeated = repeatedNames(scopes);
    for (const [scope, item] of scopes.entries()) {
      this.#place = [resource, scope];
      const metrics = this.#read(item, countOfScope, (whole) => listOf(whole.metrics, "metrics")) ?? [];
      for (const [index, metric] of metrics.entries()) {
        this.#place = [resource, scope, index];
        writer.point = 0;
        writer.written = repeated.size > 0 ? repeated.get(nameOf(metric ?? {})) : undefined;
        const { points, write } = this.#read(metric, countPoints, (whole) => this.#lines.writing(whole, writer)) ?? NOTHING;
        this.#writer = writer;
        for (let from = 0; from < points.length; from += SLICE_POINTS) {
          write(points.length <= SLICE_POINTS ? points : points.slice(from, from + SLICE_POINTS));
          if (posts.hasFull) yield* posts.takeFull();
        }
        this.#writer = undefined;
      }
    }
    const info = writer.lastTime === undefined || targets.has(labels.target) ? undefined : labels.infoText();
    if (info === undefined) return;
    targets.add(labels.target);
    posts.text += `target_info{${info}} 1${writer.lastTime}\n`;
  }

  /** Undefined if the message cannot be read, which costs its points. */
  #read<M, T>(message: M, points: (message: M) => number, read: (message: M) => T): T | undefined {
    try {
      if (this.#onFault) requireMessage(message);
      return read(message);
    } catch (error) {
      this.#fault(error, Math.max(1, points(message)));
      return undefined;
    }
  }

  /** Throws the error if nothing takes faults. */
  #fault(error: unknown, points: number): void {
    if (!this.#onFault || error instanceof BodyError) throw error;
    const problem = error instanceof RangeError ? "is nested too deeply" : "has an attribute or another field of a wrong type";
    this.#onFault(error instanceof ShapeError ? error.message : problem, points);
  }
}

/** Metrics with equal ones have the same series. Other values than texts are left to the reader of the metric. */
function nameOf({ name, unit, gauge, sum, summary }: Metric): string {
  const kind = gauge ? "gauge" : summary ? "summary" : sum ? sum.isMonotonic === true : "histogram";
  return typeof name === "string" && (unit === undefined || typeof unit === "string") ? `${unit} ${kind} ${name}` : "";
}

/** The names that several metrics have, mostly of different scopes. */
function repeatedNames(scopes: readonly { readonly metrics?: (Metric | null)[] }[]): Map<string, Set<string>> {
  const seen = new Set<string>();
  const names = scopes.flatMap((scope) => (Array.isArray(scope?.metrics) ? scope.metrics : [])).map((metric) => nameOf(metric ?? {}));
  return new Map(names.filter((name) => seen.size === seen.add(name).size).map((name) => [name, new Set()]));
}

function countOfScope(scope: unknown): number {
  const metrics: unknown = (scope as { metrics?: unknown } | null)?.metrics;
  return Array.isArray(metrics) ? metrics.reduce<number>((sum, metric) => sum + countPoints(metric), 0) : 0;
}

function countOfResource(resource: unknown): number {
  const scopes: unknown = (resource as { scopeMetrics?: unknown } | null)?.scopeMetrics;
  return Array.isArray(scopes) ? scopes.reduce<number>((sum, scope) => sum + countOfScope(scope), 0) : 0;
}

const NOTHING: Writing = { points: [], write: () => {} };

/** Appending to small, young strings is cheap: lines are joined up to this length, then written into the body. */
const PIECE_LENGTH = 16 * 1024;

/** Splits text into bodies at line ends. */
export class Posts {
  readonly #maxPostBytes: number;
  readonly #maxTextBytes: number;
  readonly #full: Buffer[] = [];
  #cutBytes = 0;
  #post: Buffer;
  #used = 0;
  /** Lines not yet written into #post. */
  text = "";

  constructor(maxPostBytes: number, maxTextBytes: number, expectedBytes: number) {
    this.#maxPostBytes = maxPostBytes;
    this.#maxTextBytes = maxTextBytes;
    this.#post = Buffer.allocUnsafe(Math.min(Math.max(expectedBytes, 4 * PIECE_LENGTH), maxPostBytes));
  }

  /** Call at least once per line. */
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
    const maxBytes = this.text.length * 3;
    if (this.#used + maxBytes > this.#maxPostBytes) this.#cut();
    if (this.#used + maxBytes > this.#post.length) {
      const larger = Buffer.allocUnsafe(Math.min(Math.max(2 * this.#post.length, this.#used + maxBytes), this.#maxPostBytes));
      this.#post.copy(larger, 0, 0, this.#used);
      this.#post = larger;
    }
    this.#used += this.#post.write(this.text, this.#used);
    this.text = "";
    if (this.#cutBytes + this.#used > this.#maxTextBytes) {
      throw new BodyError("too_large", `metrics that become more than ${this.#maxTextBytes} bytes of text`);
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
