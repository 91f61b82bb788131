// Collects the exemplars of a request of remote write or of OTLP metrics, on the calling thread. Invariant: their number and size are
// limited; the others are counted by reason and never fail the request, because its samples are worth more.
import { MAX_EXEMPLAR_BYTES, MAX_EXEMPLAR_LABEL_BYTES, MAX_EXEMPLARS_OF_REQUEST } from "../ingest-limits.ts";
import type { WriteRequest } from "./write-request.ts";

export type LabelPairs = readonly (readonly [name: string, value: string])[];

export interface Exemplar {
  /** Includes `__name__`. */
  readonly series: LabelPairs;
  readonly labels: LabelPairs;
  /** In the format of Prometheus' API. */
  readonly value: string;
  readonly timeMs: number;
}

type OnDrop = (reason: string, count: number) => void;

export class ExemplarList {
  readonly exemplars: Exemplar[] = [];
  #bytes = 0;

  /**
   * Adds the exemplars of the current series, and overwrites its labels. `prefixes`: the prefix for the name of each label. Calls `drop`
   * for exemplars that are not kept.
   */
  add(request: WriteRequest, prefixes: readonly (Uint8Array | undefined)[], drop: OnDrop): void {
    const seriesBytes = request.labelTextBytes();
    if (!this.hasRoomFor(seriesBytes)) return drop("exemplar_limit", request.exemplars);
    const series = request
      .labelTexts()
      .map(([name, value], index) => [`${Buffer.from(prefixes[index] ?? []).toString()}${name}`, value] as const);
    for (let index = 0; index < request.exemplars; index += 1) {
      if (index === MAX_EXEMPLARS_OF_REQUEST || !this.hasRoomFor(seriesBytes)) return drop("exemplar_limit", request.exemplars - index);
      const exemplar = request.readExemplar(index);
      if (!exemplar) {
        drop("exemplar_malformed", 1);
        continue;
      }
      const { value, timeMs } = exemplar;
      const bytes = request.labelTextBytes();
      if (bytes > MAX_EXEMPLAR_LABEL_BYTES) {
        drop("exemplar_too_long", 1);
        continue;
      }
      const text = String(value).replace(/^(-?)Infinity$/, (_, sign: string) => `${sign || "+"}Inf`);
      this.push({ series, labels: request.labelTexts(), value: text, timeMs }, seriesBytes + bytes);
    }
  }

  hasRoomFor(bytes: number): boolean {
    return this.exemplars.length < MAX_EXEMPLARS_OF_REQUEST && this.#bytes + bytes <= MAX_EXEMPLAR_BYTES;
  }

  /** `bytes`: the size of its labels and of those of its series. */
  push(exemplar: Exemplar, bytes: number): void {
    this.#bytes += bytes;
    this.exemplars.push(exemplar);
  }
}
