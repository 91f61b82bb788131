// The fast path for exposition text: a WebAssembly kernel (backend/ingest/exposition/kernel) skips lines in their usual spelling, many per call,
// and stops at the first other one, which exposition.ts validates. Invariants: it skips no line that exposition.ts would reject, drop or correct;
// its memory is bounded. There is one kernel per thread, for one text at a time.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { KernelMemory, LazyKernel, startKernel } from "../../../common/web-assembly.ts";

/** Made by hack/kernel.mjs; not there in a checkout that was never started. */
export const PLAIN_LINES_FILE = fileURLToPath(new URL("./kernel.wasm", import.meta.url));

/** More than a slice of exposition.ts. */
const MOST_TEXT_BYTES = 768 * 1024;
const MOST_PAGES = 16;
/** Zeros behind the text. */
const GUARD_BYTES = 64;

/** Limits of a series that the engine stores: its defaults (`-maxLabelsPerTimeseries` and others), minus the labels that this server adds. */
export interface SeriesLimits {
  /** The name counts as one. */
  readonly maxLabels: number;
  readonly maxNameBytes: number;
  readonly maxValueBytes: number;
  /** Samples before are dropped. */
  readonly oldestMs: number;
  /** Samples after are dropped. */
  readonly newestMs: number;
}

interface Exports {
  textAt(): number;
  start(length: number, maxLabels: number, maxNameBytes: number, maxValueBytes: number, oldestMs: number, newestMs: number): void;
  skipLines(from: number, length: number): number;
  lines(): number;
  samples(): number;
}

const EXPORTS = ["lines", "samples", "skipLines", "start", "textAt"] as const satisfies readonly (keyof Exports)[];

export class PlainLines {
  readonly #memory = new KernelMemory({ initial: 2, maximum: MOST_PAGES });
  readonly #exports: Exports;
  #length = 0;

  constructor(bytes: Uint8Array) {
    this.#exports = startKernel<Exports>(bytes, EXPORTS, { env: { memory: this.#memory.memory } });
  }

  /** What it holds, and keeps. */
  get memoryBytes(): number {
    return this.#memory.byteLength;
  }

  /** Lines that the last `skip` read. */
  get lines(): number {
    return this.#exports.lines();
  }

  /** Samples to store in these lines. */
  get samples(): number {
    return this.#exports.samples();
  }

  /** Takes whole lines of UTF-8. False when they are more than it holds. */
  open(text: Uint8Array, { maxLabels, maxNameBytes, maxValueBytes, oldestMs, newestMs }: SeriesLimits): boolean {
    const { length } = text;
    if (length > MOST_TEXT_BYTES) return false;
    const at = this.#exports.textAt();
    this.#memory.growTo(at + length + GUARD_BYTES);
    this.#memory.bytes().set(text, at);
    this.#exports.start(length, maxLabels, maxNameBytes, maxValueBytes, oldestMs, newestMs);
    this.#length = length;
    return true;
  }

  /** The place of the first line from `from` on that it does not pass, or the end of the text. */
  skip(from: number): number {
    return this.#exports.skipLines(from, this.#length);
  }
}

const ofThread = new LazyKernel(() => new PlainLines(readFileSync(PLAIN_LINES_FILE)));

export function plainLines(): PlainLines | undefined {
  return ofThread.get();
}

/** Why this thread has none. */
export function plainLinesProblem(): unknown {
  ofThread.get();
  return ofThread.problem;
}
