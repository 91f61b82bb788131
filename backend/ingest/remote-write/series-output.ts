// Writes series as remote write 1.0 requests in Snappy's format, without compression. The metrics engine gets them instead of requests that
// cannot be passed on unchanged. Invariant: bodies are split between series and samples, at about 4 MiB, and their total size has a limit.
import { ApiError } from "../../errors.ts";
import { MAX_REWRITTEN_BYTES } from "../ingest-limits.ts";
import type { WriteRequest } from "./write-request.ts";

const CUT_BYTES = 4 * 1024 * 1024;
const FIRST_BYTES = 64 * 1024;
/** Space at the start for the length of the body and the head of its only literal. */
const HEAD_BYTES = 10;
const LITERAL_OF_4_LENGTH_BYTES = 63 << 2;
/** Labels are repeated after this many samples of a series. */
const SAMPLES_AT_ONCE = 10_000;
/** Tag, length, tag and value, tag and time of ten bytes. */
const MAX_SAMPLE_BYTES = 22;
const [SERIES, LABEL, NAME, VALUE, SAMPLE] = [0x0a, 0x0a, 0x0a, 0x12, 0x12] as const;
const [SAMPLE_VALUE, SAMPLE_TIME] = [0x09, 0x10] as const;

export class SeriesOutput {
  readonly #bodies: Uint8Array<ArrayBuffer>[] = [];
  #bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #length = HEAD_BYTES;
  #cutBytes = 0;

  /** Adds the current series with its first `sampleCount` samples. `prefixes`: the prefix for the name of each label. */
  add(request: WriteRequest, sampleCount: number, prefixes: readonly (Uint8Array | undefined)[]): void {
    const labelBytes = this.#labelBytes(request, prefixes);
    for (let from = 0; from < sampleCount; from += SAMPLES_AT_ONCE) {
      const to = Math.min(sampleCount, from + SAMPLES_AT_ONCE);
      let sampleBytes = 0;
      for (let index = from; index < to; index += 1) sampleBytes += 2 + sizeOfSample(request.times[index] as number);
      this.#reserve(labelBytes + (to - from) * MAX_SAMPLE_BYTES + HEAD_BYTES);
      this.#byte(SERIES);
      this.#varint(labelBytes + sampleBytes);
      this.#labels(request, prefixes);
      for (let index = from; index < to; index += 1) this.#sample(request, index);
      if (this.#length >= CUT_BYTES) this.#cut();
    }
  }

  /** Calls `use` with the labels of the current series in the format of 1.0, from the first name to the last value. Writes nothing. */
  withLabels<T>(request: WriteRequest, use: (bytes: Uint8Array) => T): T {
    const size = this.#labelBytes(request, []);
    this.#reserve(size);
    const start = this.#length;
    this.#labels(request, []);
    const end = this.#length;
    this.#length = start;
    return use(this.#bytes.subarray(start + firstNameAt(request.labels), end));
  }

  /** The bodies so far, each in its own buffer. */
  finish(): Uint8Array<ArrayBuffer>[] {
    if (this.#length > HEAD_BYTES) this.#cut();
    return this.#bodies;
  }

  #labelBytes({ labels, labelCount }: WriteRequest, prefixes: readonly (Uint8Array | undefined)[]): number {
    let bytes = 0;
    for (let index = 0; index < labelCount; index += 1) {
      const size = sizeOfLabel(labels, index, prefixes[index]);
      bytes += 1 + sizeOfVarint(size) + size;
    }
    return bytes;
  }

  #labels({ bytes, labels, labelCount }: WriteRequest, prefixes: readonly (Uint8Array | undefined)[]): void {
    for (let index = 0; index < labelCount; index += 1) {
      const slot = 4 * index;
      const [nameStart, nameEnd, valueStart, valueEnd] = [labels[slot], labels[slot + 1], labels[slot + 2], labels[slot + 3]] as [
        number,
        number,
        number,
        number,
      ];
      const prefix = prefixes[index];
      this.#byte(LABEL);
      this.#varint(sizeOfLabel(labels, index, prefix));
      this.#byte(NAME);
      this.#varint(nameEnd - nameStart + (prefix?.length ?? 0));
      if (prefix) this.#copy(prefix, 0, prefix.length);
      this.#copy(bytes, nameStart, nameEnd);
      this.#byte(VALUE);
      this.#varint(valueEnd - valueStart);
      this.#copy(bytes, valueStart, valueEnd);
    }
  }

  #sample({ bytes, valuePositions, times }: WriteRequest, index: number): void {
    const [position, time] = [valuePositions[index] as number, times[index] as number];
    this.#byte(SAMPLE);
    this.#varint(sizeOfSample(time));
    this.#byte(SAMPLE_VALUE);
    if (position > 0) this.#copy(bytes, position, position + 8);
    else for (let count = 0; count < 8; count += 1) this.#byte(0);
    this.#byte(SAMPLE_TIME);
    this.#varint(time);
  }

  #cut(): void {
    const size = this.#length - HEAD_BYTES;
    this.#cutBytes += size;
    if (this.#cutBytes > MAX_REWRITTEN_BYTES) throw tooManyLabels();
    // Uses varints of a fixed length: five bytes, of which the last ones may be 0.
    for (let index = 0; index < 5; index += 1) this.#bytes[index] = (Math.floor(size / 128 ** index) & 0x7f) | (index < 4 ? 0x80 : 0);
    this.#bytes[5] = LITERAL_OF_4_LENGTH_BYTES;
    this.#bytes.writeUInt32LE(size - 1, 6);
    this.#bodies.push(new Uint8Array(this.#bytes.subarray(0, this.#length)));
    this.#length = HEAD_BYTES;
  }

  #reserve(more: number): void {
    const needed = this.#length + more;
    if (needed <= this.#bytes.length) return;
    if (needed > 2 * MAX_REWRITTEN_BYTES) throw new ApiError("batch_too_large", "a series has more than 32 MiB: send smaller batches");
    const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.#bytes.length, needed));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }

  #byte(value: number): void {
    this.#bytes[this.#length++] = value;
  }

  #varint(value: number): void {
    let rest = value;
    for (; rest >= 0x80; rest = Math.floor(rest / 128)) this.#bytes[this.#length++] = (rest % 128) | 0x80;
    this.#bytes[this.#length++] = rest;
  }

  #copy(source: Uint8Array, start: number, end: number): void {
    const bytes = this.#bytes;
    let to = this.#length;
    for (let at = start; at < end; at += 1) bytes[to++] = source[at] as number;
    this.#length = to;
  }
}

export function tooManyLabels(): ApiError {
  return new ApiError("batch_too_large", "the series have more than 32 MiB with all their labels: send smaller batches");
}

/** Bytes before the first label: tag and length of the label, then of its name. */
function firstNameAt(labels: Uint32Array): number {
  return 2 + sizeOfVarint(sizeOfLabel(labels, 0, undefined)) + sizeOfVarint((labels[1] as number) - (labels[0] as number));
}

function sizeOfLabel(labels: Uint32Array, index: number, prefix: Uint8Array | undefined): number {
  const slot = 4 * index;
  const name = (labels[slot + 1] as number) - (labels[slot] as number) + (prefix?.length ?? 0);
  const value = (labels[slot + 3] as number) - (labels[slot + 2] as number);
  return 2 + sizeOfVarint(name) + name + sizeOfVarint(value) + value;
}

/** Tag and value, tag and time. */
function sizeOfSample(time: number): number {
  return 10 + sizeOfVarint(time);
}

function sizeOfVarint(value: number): number {
  let size = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 128)) size += 1;
  return size;
}
