// The fast path for exposition text: a WebAssembly kernel (backend/ingest/exposition/kernel) skips lines in their usual spelling, many per
// call, and stops at the first other line, which exposition.ts validates. Invariants: it skips no line that exposition.ts would reject,
// drop or correct; its memory is bounded. There is one kernel per thread, for one text at a time.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { KernelHost, LazyKernel } from "../kernel-host.ts";

export const PLAIN_LINES_FILE = fileURLToPath(new URL("./kernel.wasm", import.meta.url));

/** Larger than a slice of exposition.ts. */
const MAX_TEXT_BYTES = 768 * 1024;
const MAX_PAGES = 16;
/** Zeros after the text. */
const GUARD_BYTES = 64;

/** Limits of a series that the engine stores: its defaults (`-maxLabelsPerTimeseries` and others), minus the labels that this server adds. */
export interface SeriesLimits {
  /** The name counts as one label. */
  readonly maxLabels: number;
  readonly maxNameBytes: number;
  readonly maxValueBytes: number;
  /** Names and values of all labels together. */
  readonly maxLabelBytes: number;
  /** Older samples are dropped. */
  readonly oldestMs: number;
  /** Newer samples are dropped. */
  readonly newestMs: number;
}

interface Exports {
  textAt(): number;
  start(
    length: number,
    labels: number,
    nameBytes: number,
    valueBytes: number,
    labelBytes: number,
    oldestMs: number,
    newestMs: number,
  ): void;
  skipLines(from: number, length: number): number;
  lines(): number;
  samples(): number;
}

const EXPORTS = ["lines", "samples", "skipLines", "start", "textAt"] as const satisfies readonly (keyof Exports)[];

export class PlainLines extends KernelHost<Exports> {
  #length = 0;

  constructor(bytes: Uint8Array) {
    super(bytes, { names: EXPORTS, pages: { initial: 2, maximum: MAX_PAGES } });
  }

  /** Lines that the last `skip` read. */
  get lines(): number {
    return this.exports.lines();
  }

  /** Samples to store in these lines. */
  get samples(): number {
    return this.exports.samples();
  }

  /** Copies whole lines of UTF-8 into the kernel's memory. False if they do not fit. */
  open(text: Uint8Array, limits: SeriesLimits): boolean {
    const { length } = text;
    if (length > MAX_TEXT_BYTES) return false;
    const at = this.exports.textAt();
    this.growTo(at + length + GUARD_BYTES);
    this.bytes().set(text, at);
    const { maxLabels, maxNameBytes, maxValueBytes, maxLabelBytes, oldestMs, newestMs } = limits;
    this.exports.start(length, maxLabels, maxNameBytes, maxValueBytes, maxLabelBytes, oldestMs, newestMs);
    this.#length = length;
    return true;
  }

  /** The offset of the first line from `from` on that the kernel does not accept, or the end of the text. */
  skip(from: number): number {
    return this.exports.skipLines(from, this.#length);
  }
}

export const PLAIN_LINES = new LazyKernel(() => new PlainLines(readFileSync(PLAIN_LINES_FILE)));
