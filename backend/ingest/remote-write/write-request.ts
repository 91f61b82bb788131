// Reads the two messages of Prometheus remote write, prometheus.WriteRequest (1.0) and io.prometheus.write.v2.Request (2.0), series by
// series. It has its own loop instead of WireReader, because a call for each field would cost more than reading the field. Invariants:
// reading a series creates no string or object, and the caller reads a limited number of exemplars, so the memory does not depend on the
// body; it never reads beyond the end of a message; malformed input throws `malformed_body` or `invalid_payload`, or, within a series, is a
// fault of this series.
import { ApiError } from "../../errors.ts";
import { MAX_MALFORMED_PARTS } from "../../../common/protobuf/protobuf-limits.ts";
import { MAX_EXEMPLARS_OF_REQUEST, MAX_SAMPLES_OF_SERIES, MAX_SYMBOLS } from "../ingest-limits.ts";
import { BYTES, FIXED32, FIXED64, VARINT } from "../../../common/protobuf/wire-reader.ts";

export type WriteVersion = 1 | 2;

/** More labels than any store accepts. The labels of a series beyond this are counted but not kept. */
const MAX_KEPT_LABELS = 128;

/** Tags of fields: number and wire type. */
const LABEL_NAME = (1 << 3) | BYTES;
const LABEL_VALUE = (2 << 3) | BYTES;
const SAMPLE_VALUE = (1 << 3) | FIXED64;
const SAMPLE_TIME = (2 << 3) | VARINT;
const EXEMPLAR_LABELS = (1 << 3) | BYTES;
const EXEMPLAR_VALUE = (2 << 3) | FIXED64;
const EXEMPLAR_TIME = (3 << 3) | VARINT;
const UNPACKED_REFERENCE = (1 << 3) | VARINT;
const SYMBOL = (4 << 3) | BYTES;
const TAGS = {
  1: {
    series: (1 << 3) | BYTES,
    labels: (1 << 3) | BYTES,
    samples: (2 << 3) | BYTES,
    exemplars: (3 << 3) | BYTES,
    histograms: (4 << 3) | BYTES,
    /** Metadata. */
    other: 3,
  },
  2: {
    series: (5 << 3) | BYTES,
    labels: (1 << 3) | BYTES,
    samples: (2 << 3) | BYTES,
    exemplars: (4 << 3) | BYTES,
    histograms: (3 << 3) | BYTES,
    /** Symbols. */
    other: 4,
  },
} as const;

export class WriteRequest {
  readonly bytes: Buffer;
  readonly #tags: (typeof TAGS)[WriteVersion];
  readonly #version: WriteVersion;
  /** Start and end of each symbol of 2.0. */
  readonly #symbols: Uint32Array;
  /** Labels of the current series that are stored: start and end of the name, start and end of the value. */
  readonly labels = new Uint32Array(4 * MAX_KEPT_LABELS);
  labelCount = 0;
  /** Samples of the current series: offset of the value, 0 for the value 0, and time in milliseconds. */
  valuePositions = new Uint32Array(64);
  times = new Float64Array(64);
  sampleCount = 0;
  /** Number of exemplars of the current series. */
  exemplars = 0;
  /** Start and end of each of the first MAX_EXEMPLARS_OF_REQUEST of these. */
  readonly #exemplarRanges: number[] = [];
  histograms = 0;
  /** Start of the length and end of each. */
  readonly #histogramRanges: number[] = [];
  /** Why the current series cannot be stored, as far as it was read. */
  fault: string | undefined;
  #malformedSeries = 0;
  /** Whether the request has fields other than labels and samples, metadata for example. */
  hasOther = false;
  #at = 0;

  constructor(body: Buffer, version: WriteVersion) {
    this.bytes = body;
    this.#version = version;
    this.#tags = TAGS[version];
    this.#symbols = version === 2 ? this.#readSymbols() : new Uint32Array(0);
  }

  /** Bytes of the current labels. */
  labelTextBytes(): number {
    let bytes = 0;
    for (let slot = 0; slot < this.#labelsEnd; slot += 2) bytes += (this.labels[slot + 1] as number) - (this.labels[slot] as number);
    return bytes;
  }

  /** Start and end of each native histogram of the current series. */
  histogramRanges(): [start: number, end: number][] {
    return Array.from({ length: this.histograms }, (_, at) => {
      const end = this.#histogramRanges[2 * at + 1] as number;
      let start = this.#histogramRanges[2 * at] as number;
      while ((this.bytes[start] as number) >= 0x80) start += 1;
      return [start + 1, end];
    });
  }

  labelTexts(): [name: string, value: string][] {
    const { bytes, labels } = this;
    const pairs: [string, string][] = [];
    for (let slot = 0; slot < this.#labelsEnd; slot += 4)
      pairs.push([bytes.toString("utf8", labels[slot], labels[slot + 1]), bytes.toString("utf8", labels[slot + 2], labels[slot + 3])]);
    return pairs;
  }

  get #labelsEnd(): number {
    return Math.min(4 * this.labelCount, this.labels.length);
  }

  get hasMoreLabels(): boolean {
    return this.labelCount > MAX_KEPT_LABELS;
  }

  /** Reads each series in turn and calls `visit`. */
  eachSeries(visit: () => void): void {
    const { bytes } = this;
    let isKnown = bytes.length === 0;
    for (this.#at = 0; this.#at < bytes.length;) {
      const tag = this.#varint(bytes.length);
      isKnown ||= tag === this.#tags.series || this.#tags.other === tag >>> 3;
      if (tag !== this.#tags.series) {
        this.#skip(tag, bytes.length);
        continue;
      }
      const end = this.#readEnd(bytes.length);
      this.#attempt(() => this.#readSeries(end));
      this.#at = end;
      visit();
    }
    // A success must not mean that nothing was understood; the two versions have no number of a field in common.
    if (!isKnown) throw this.#otherMessage();
  }

  #otherMessage(): ApiError {
    const [sent, type] =
      this.#version === 1 ? ["1.0", "application/x-protobuf;proto=io.prometheus.write.v2.Request"] : ["2.0", "application/x-protobuf"];
    return new ApiError(
      "invalid_payload",
      `the body is not a remote write ${sent} request, nothing was stored: for the other version, send \`Content-Type: ${type}\``,
    );
  }

  /** Turns malformed protobuf into a fault; above a number of these, the body is not what it is said to be. */
  #attempt(read: () => void): void {
    this.fault = undefined;
    try {
      read();
    } catch (error) {
      const isMalformed = error instanceof ApiError && error.code === "malformed_body";
      if (!isMalformed || ++this.#malformedSeries > MAX_MALFORMED_PARTS) throw error;
      this.fault = error.message.slice(MALFORMED.length);
    }
  }

  /** Replaces the labels of the series by those of its exemplar `index`, below MAX_EXEMPLARS_OF_REQUEST. Undefined if it is invalid. */
  readExemplar(index: number): { readonly value: number; readonly timeMs: number } | undefined {
    const nextAt = this.#at;
    let exemplar = { value: 0, timeMs: 0 };
    this.#attempt(() => (exemplar = this.#readExemplar(index)));
    this.#at = nextAt;
    return this.fault === undefined ? exemplar : undefined;
  }

  #readExemplar(index: number): { value: number; timeMs: number } {
    const end = this.#exemplarRanges[2 * index + 1] as number;
    this.labelCount = 0;
    let [value, time] = [0, 0];
    for (this.#at = this.#exemplarRanges[2 * index] as number; this.#at < end;) {
      const tag = this.#varint(end);
      if (tag === EXEMPLAR_LABELS) this.#readLabels(this.#readEnd(end));
      else if (tag === UNPACKED_REFERENCE && this.#version === 2) this.#addReference(this.#varint(end));
      else if (tag === EXEMPLAR_VALUE) {
        const position = this.#at;
        this.#advance(8, end);
        value = this.bytes.readDoubleLE(position);
      } else if (tag === EXEMPLAR_TIME) time = this.#varint(end);
      else this.#skip(tag, end);
    }
    this.#requireWholeLabels();
    return { value, timeMs: toSigned(time) };
  }

  #readSeries(end: number): void {
    const tags = this.#tags;
    this.labelCount = 0;
    this.sampleCount = 0;
    this.exemplars = 0;
    this.histograms = 0;
    while (this.#at < end) {
      const tag = this.#varint(end);
      if (tag === tags.labels) this.#readLabels(this.#readEnd(end));
      else if (tag === tags.samples) this.#readSample(this.#readEnd(end));
      else if (tag === UNPACKED_REFERENCE && this.#version === 2) this.#addReference(this.#varint(end));
      else if (tag === tags.exemplars) this.#skipExemplar(this.#readEnd(end));
      else {
        const before = this.#at;
        this.#skip(tag, end);
        if (tag === tags.histograms) this.#addHistogram(before);
      }
    }
    this.#requireWholeLabels();
  }

  #addHistogram(before: number): void {
    if (this.histograms >= MAX_SAMPLES_OF_SERIES)
      throw new ApiError("batch_too_large", `a series has more than ${MAX_SAMPLES_OF_SERIES} samples: send fewer`);
    this.#histogramRanges[2 * this.histograms] = before;
    this.#histogramRanges[2 * this.histograms + 1] = this.#at;
    this.histograms += 1;
  }

  #requireWholeLabels(): void {
    if (this.labelCount % 1 !== 0) this.fault ??= "a label has no value";
  }

  /** Skips an exemplar, for `readExemplar`. The engine ignores exemplars, so a request that has some can be passed on unchanged. */
  #skipExemplar(end: number): void {
    if (this.exemplars < MAX_EXEMPLARS_OF_REQUEST) {
      this.#exemplarRanges[2 * this.exemplars] = this.#at;
      this.#exemplarRanges[2 * this.exemplars + 1] = end;
    }
    this.exemplars += 1;
    this.#at = end;
  }

  /** Reads one label of 1.0, or the packed references of 2.0. */
  #readLabels(end: number): void {
    if (this.#version === 2) {
      while (this.#at < end) this.#addReference(this.#varint(end));
      return;
    }
    let [nameStart, nameEnd, valueStart, valueEnd] = [0, 0, 0, 0];
    while (this.#at < end) {
      const tag = this.#varint(end);
      if (tag === LABEL_NAME) {
        nameEnd = this.#readEnd(end);
        nameStart = this.#at;
        this.#at = nameEnd;
      } else if (tag === LABEL_VALUE) {
        valueEnd = this.#readEnd(end);
        valueStart = this.#at;
        this.#at = valueEnd;
      } else this.#skip(tag, end);
    }
    if (this.labelCount < MAX_KEPT_LABELS) {
      const { labels } = this;
      const slot = 4 * this.labelCount;
      labels[slot] = nameStart;
      labels[slot + 1] = nameEnd;
      labels[slot + 2] = valueStart;
      labels[slot + 3] = valueEnd;
    }
    this.labelCount += 1;
  }

  /** Names and values alternate: each reference is half a label. */
  #addReference(reference: number): void {
    const symbols = this.#symbols;
    if (2 * reference >= symbols.length) this.fault ??= `the symbol ${reference} is missing`;
    else if (this.labelCount < MAX_KEPT_LABELS) {
      const slot = 4 * this.labelCount;
      this.labels[slot] = symbols[2 * reference] as number;
      this.labels[slot + 1] = symbols[2 * reference + 1] as number;
    }
    this.labelCount += 0.5;
  }

  #readSample(end: number): void {
    let [position, time] = [0, 0];
    while (this.#at < end) {
      const tag = this.#varint(end);
      if (tag === SAMPLE_VALUE) {
        position = this.#at;
        this.#advance(8, end);
      } else if (tag === SAMPLE_TIME) time = this.#varint(end);
      else this.#skip(tag, end);
    }
    if (this.sampleCount === this.times.length) this.#growSamples();
    this.valuePositions[this.sampleCount] = position;
    this.times[this.sampleCount] = toSigned(time);
    this.sampleCount += 1;
  }

  #growSamples(): void {
    if (this.sampleCount >= MAX_SAMPLES_OF_SERIES)
      throw new ApiError("batch_too_large", `a series has more than ${MAX_SAMPLES_OF_SERIES} samples: send fewer`);
    const [positions, times] = [this.valuePositions, this.times];
    this.valuePositions = new Uint32Array(2 * positions.length);
    this.valuePositions.set(positions);
    this.times = new Float64Array(2 * times.length);
    this.times.set(times);
  }

  /** The symbols may follow the series. */
  #readSymbols(): Uint32Array {
    const { bytes } = this;
    let symbols = new Uint32Array(1024);
    let count = 0;
    for (this.#at = 0; this.#at < bytes.length;) {
      const tag = this.#varint(bytes.length);
      if (tag !== SYMBOL) {
        this.#skip(tag, bytes.length);
        continue;
      }
      const end = this.#readEnd(bytes.length);
      if (count === 0 && end > this.#at) throw new ApiError("invalid_payload", "the first symbol must be empty");
      if (count === MAX_SYMBOLS) throw new ApiError("batch_too_large", `the body has more than ${MAX_SYMBOLS} symbols: send fewer series`);
      if (2 * count === symbols.length) {
        const larger = new Uint32Array(2 * symbols.length);
        larger.set(symbols);
        symbols = larger;
      }
      symbols[2 * count] = this.#at;
      symbols[2 * count + 1] = end;
      count += 1;
      this.#at = end;
    }
    return symbols.subarray(0, 2 * count);
  }

  /** Reads a length; returns the end of the value that follows it. */
  #readEnd(limit: number): number {
    const end = this.#varint(limit) + this.#at;
    if (end > limit) throw malformed("it ends within a value");
    return end;
  }

  #skip(tag: number, limit: number): void {
    this.hasOther = true;
    const wireType = tag & 7;
    if (wireType === BYTES) this.#at = this.#readEnd(limit);
    else if (wireType === VARINT) this.#varint(limit);
    else if (wireType === FIXED64) this.#advance(8, limit);
    else if (wireType === FIXED32) this.#advance(4, limit);
    else throw malformed(`the wire type ${wireType} is not supported`);
  }

  #advance(bytes: number, limit: number): void {
    this.#at += bytes;
    if (this.#at > limit) throw malformed("it ends within a value");
  }

  /** Exact up to 2^53. */
  #varint(limit: number): number {
    const { bytes } = this;
    let value = 0;
    let factor = 1;
    for (let count = 0; count < 10 && this.#at < limit; count += 1) {
      const byte = bytes[this.#at++] as number;
      if (byte < 0x80) return value + byte * factor;
      value += (byte & 0x7f) * factor;
      factor *= 128;
    }
    throw malformed(this.#at < limit ? "a number has more than 10 bytes" : "it ends within a number");
  }
}

/** Negative numbers have 64 bits. */
function toSigned(value: number): number {
  return value >= 2 ** 63 ? value - 2 ** 64 : value;
}

const MALFORMED = "the body is not a remote write request: ";

function malformed(why: string): ApiError {
  return new ApiError("malformed_body", MALFORMED + why);
}
