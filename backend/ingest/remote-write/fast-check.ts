// The fast path for remote write 1.0: a WebAssembly kernel (backend/ingest/remote-write/kernel) decompresses a request, validates its series and
// hashes them. It falls back if check-write.ts would reject, drop or rename anything, because only that slow path counts reasons and rewrites
// requests. Invariants: both paths compute the same hashes; the memory has a limit. There is one kernel per thread, for one body at a time.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { KernelHost, LazyKernel } from "../kernel-host.ts";
import type { HashKey } from "../../storage/metrics/series-hash.ts";
import type { SeriesLimits } from "../exposition/plain-lines.ts";
import { snappyLength } from "../snappy.ts";

export const WRITE_KERNEL_FILE = fileURLToPath(new URL("./kernel.wasm", import.meta.url));

/** Prometheus sends requests of 0.4 MB. */
const MAX_BYTES = 4 * 1024 * 1024;
const MAX_PAGES = 160;
/** A single step of the kernel reads or writes fewer bytes beyond its position. */
const GUARD_BYTES = 64;
/** Bytes of hashes per byte of the request: the shortest series is more than six times as long as its hash. */
const HASHES_OF_OUTPUT = 1 / 4;

export interface FastCheck {
  readonly accepted: number;
  readonly seriesHashes: Int32Array<ArrayBuffer>;
}

interface Exports {
  inputAt(): number;
  setKey(k0: number, k1: number): void;
  setLimits(labels: number, nameBytes: number, valueBytes: number, labelBytes: number, oldestMs: number, newestMs: number): void;
  check(length: number, outputAt: number, outputLength: number, hashesAt: number, hashesEnd: number): number;
  hashesTo(): number;
}

const EXPORTS = ["check", "hashesTo", "inputAt", "setKey", "setLimits"] as const satisfies readonly (keyof Exports)[];

export class WriteKernel extends KernelHost<Exports> {
  constructor(bytes: Uint8Array) {
    super(bytes, { names: EXPORTS, pages: { initial: 2, maximum: MAX_PAGES } });
  }

  /** Undefined if the kernel fell back. Throws `malformed_body` and `body_too_large`, depending on the declared length. */
  check(body: Uint8Array, limits: SeriesLimits, key: HashKey | undefined): FastCheck | undefined {
    const outputLength = snappyLength(body);
    if (body.length > MAX_BYTES || outputLength > MAX_BYTES) return undefined;
    try {
      return this.#check(body, outputLength, { limits, key });
    } catch (error) {
      return this.fallBack(error);
    }
  }

  #check(
    body: Uint8Array,
    outputLength: number,
    { limits, key }: { limits: SeriesLimits; key: HashKey | undefined },
  ): FastCheck | undefined {
    const exports = this.exports;
    const inputAt = exports.inputAt();
    const outputAt = inputAt + body.length + GUARD_BYTES;
    const hashesAt = (outputAt + outputLength + GUARD_BYTES + 3) & ~3;
    const hashesEnd = hashesAt + (key ? Math.ceil(outputLength * HASHES_OF_OUTPUT) : 0);
    this.growTo(hashesEnd + GUARD_BYTES);
    this.bytes().set(body, inputAt);
    const { maxLabels, maxNameBytes, maxValueBytes, maxLabelBytes, oldestMs, newestMs } = limits;
    exports.setLimits(maxLabels, maxNameBytes, maxValueBytes, maxLabelBytes, oldestMs, newestMs);
    if (key) exports.setKey(key.k0, key.k1);
    const accepted = exports.check(body.length, outputAt, outputLength, hashesAt, hashesEnd);
    if (accepted === 0) return undefined;
    const count = key ? (exports.hashesTo() - hashesAt) / 4 : 0;
    return { accepted, seriesHashes: new Int32Array(this.memory.buffer, hashesAt, count).slice() };
  }
}

export const WRITE_KERNEL = new LazyKernel(() => new WriteKernel(readFileSync(WRITE_KERNEL_FILE)));
