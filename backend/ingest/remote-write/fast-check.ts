// The fast way to check a remote write 1.0 request: a WebAssembly kernel (backend/ingest/remote-write/kernel) decompresses it and checks and hashes
// its series, and gives up on whatever check-write.ts would not pass on as it came. Invariants: it accepts nothing that check-write.ts refuses,
// drops or renames, and makes the same hashes; its memory is bounded. There is one kernel per thread, for one body at a time.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { GaveUp, KernelMemory, LazyKernel, startKernel, webAssembly } from "../../../common/web-assembly.ts";
import type { HashKey } from "../../storage/metrics/series-hash.ts";
import { snappyLength } from "../snappy.ts";

/** Made by hack/kernel.mjs; not there in a checkout that was never started. */
export const WRITE_KERNEL_FILE = fileURLToPath(new URL("./kernel.wasm", import.meta.url));

/** Prometheus sends requests of 0.4 MB. */
const MAX_BYTES = 4 * 1024 * 1024;
const MAX_PAGES = 160;
/** More than any one step of the kernel reads or writes behind its place. */
const GUARD_BYTES = 64;
/** A series takes more than six times as much as its hash. */
const HASHES_OF_OUTPUT = 1 / 4;

/** What the engine stores of a series; its defaults, without the labels that the server adds. */
export interface SeriesLimits {
  /** The name counts as one. */
  readonly maxLabels: number;
  readonly maxNameBytes: number;
  readonly maxValueBytes: number;
  readonly oldestMs: number;
  readonly newestMs: number;
}

export interface FastCheck {
  readonly accepted: number;
  readonly seriesHashes: Int32Array<ArrayBuffer>;
}

interface Exports {
  inputAt(): number;
  setKey(k0: number, k1: number): void;
  setLimits(labels: number, nameBytes: number, valueBytes: number, oldestMs: number, newestMs: number): void;
  check(length: number, outputAt: number, outputLength: number, hashesAt: number, hashesEnd: number): number;
  hashesTo(): number;
}

const EXPORTS = ["check", "hashesTo", "inputAt", "setKey", "setLimits"] as const satisfies readonly (keyof Exports)[];

export class WriteKernel {
  readonly #memory = new KernelMemory({ initial: 2, maximum: MAX_PAGES });
  readonly #exports: Exports;
  #traps = 0;

  constructor(bytes: Uint8Array) {
    const host = {
      giveUp: () => {
        throw GaveUp.instance;
      },
    };
    this.#exports = startKernel<Exports>(bytes, EXPORTS, { env: { memory: this.#memory.memory }, host });
  }

  /** How often it came to an end that it did not choose. None is known. */
  get traps(): number {
    return this.#traps;
  }

  /** What it holds, and keeps. */
  get memoryBytes(): number {
    return this.#memory.byteLength;
  }

  /** Undefined for a request that is left to check-write.ts. Throws `malformed_body` and `body_too_large` of the declared length. */
  check(body: Uint8Array, limits: SeriesLimits, key: HashKey | undefined): FastCheck | undefined {
    const outputLength = snappyLength(body);
    if (body.length > MAX_BYTES || outputLength > MAX_BYTES) return undefined;
    try {
      return this.#check(body, outputLength, { limits, key });
    } catch (error) {
      if (error instanceof GaveUp || error instanceof RangeError) return undefined;
      if (!(error instanceof webAssembly.RuntimeError)) throw error;
      // A trap ends nothing: the kernel begins anew with each body.
      this.#traps += 1;
      return undefined;
    }
  }

  #check(
    body: Uint8Array,
    outputLength: number,
    { limits, key }: { limits: SeriesLimits; key: HashKey | undefined },
  ): FastCheck | undefined {
    const exports = this.#exports;
    const inputAt = exports.inputAt();
    const outputAt = inputAt + body.length + GUARD_BYTES;
    const hashesAt = (outputAt + outputLength + GUARD_BYTES + 3) & ~3;
    const hashesEnd = hashesAt + (key ? Math.ceil(outputLength * HASHES_OF_OUTPUT) : 0);
    this.#memory.growTo(hashesEnd + GUARD_BYTES);
    this.#memory.bytes().set(body, inputAt);
    exports.setLimits(limits.maxLabels, limits.maxNameBytes, limits.maxValueBytes, limits.oldestMs, limits.newestMs);
    if (key) exports.setKey(key.k0, key.k1);
    const accepted = exports.check(body.length, outputAt, outputLength, hashesAt, hashesEnd);
    if (accepted === 0) return undefined;
    const count = key ? (exports.hashesTo() - hashesAt) / 4 : 0;
    return { accepted, seriesHashes: new Int32Array(this.#memory.memory.buffer, hashesAt, count).slice() };
  }
}

const ofThread = new LazyKernel(() => new WriteKernel(readFileSync(WRITE_KERNEL_FILE)));

/** This thread's kernel; undefined where it cannot be had. */
export function writeKernel(): WriteKernel | undefined {
  return ofThread.get();
}

/** Why this thread has none. */
export function writeKernelProblem(): unknown {
  return ofThread.problem;
}
