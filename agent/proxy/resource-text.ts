// What the kernel leaves to TypeScript within one resource: a metric, a point's labels, the resource's target_info. Invariant: it is done
// by what exposition.ts does it with.
import type { MetricLines } from "./metric-lines.ts";
import type { KeyValue, Metric } from "./otlp-metrics.ts";
import { PointLabels, type ResourceLabels } from "./series-labels.ts";
import { type Lines, type OnDrop, SeriesWriter } from "./series-writer.ts";

export class ResourceText {
  /** Which of the document's resources. */
  readonly number: number;
  readonly #labels: ResourceLabels;
  readonly #metrics: MetricLines;
  readonly #writer: SeriesWriter;
  readonly #lines = new BoundedLines();
  #plain: PointLabels | undefined;
  #ofHistogram: PointLabels | undefined;
  /** Of the last point of a metric that was written here. */
  #lastTime: string | undefined;

  constructor(number: number, labels: ResourceLabels, metrics: MetricLines, onDrop: OnDrop) {
    this.number = number;
    this.#labels = labels;
    this.#metrics = metrics;
    this.#writer = new SeriesWriter(labels, this.#lines, onDrop);
  }

  /** Throws as SeriesWriter does on what is no metric, and RangeError when it becomes more than `mostLength` characters. */
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

  /** Undefined when the point has more labels than the store takes. */
  pointLabels(attributes: readonly KeyValue[], isHistogram: boolean): string | undefined {
    const labels = isHistogram
      ? (this.#ofHistogram ??= new PointLabels(this.#labels, "le"))
      : (this.#plain ??= new PointLabels(this.#labels));
    return labels.text(attributes);
  }

  /** The line, "" when there is none to write. `time`: of a later point than those written here. */
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
