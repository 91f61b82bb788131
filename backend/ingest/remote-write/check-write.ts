// Checks a remote write request and builds the request bodies for the metrics engine, on the calling thread: with the kernel
// (fast-check.ts) if it accepts the request, otherwise in TypeScript. Invariants: samples that the engine would drop silently are counted
// by reason; the engine gets the request unchanged only if it would store every sample under its own name; labels that identify the sender
// are renamed as Prometheus does (`exported_node`), so a request cannot claim the identity of another sender.
import { WRITE_KERNEL } from "./fast-check.ts";
import { ownBytes } from "../../engines/pieces.ts";
import { isUtf8 } from "node:buffer";
import { countParts, type HashKey, hashOf } from "../../storage/metrics/series-hash.ts";
import { MAX_REWRITTEN_BYTES } from "../ingest-limits.ts";
import type { SeriesLimits } from "../exposition/plain-lines.ts";
import { addCounts, leaveOut, noFaults, type RecordFaults, withFaults } from "../record-faults.ts";
import { decompressSnappy, snappyLength } from "../snappy.ts";
import { type Exemplar, ExemplarList } from "./exemplar-list.ts";
import { NativeHistograms } from "./native-histograms.ts";
import { SeriesOutput, tooManyLabels } from "./series-output.ts";
import { WriteRequest, type WriteVersion } from "./write-request.ts";

export interface WriteTask {
  /** The body as it was received. */
  readonly body: Uint8Array;
  readonly version: WriteVersion;
  /** The kernel did not accept it. */
  readonly isTried?: boolean;
  readonly limits: SeriesLimits;
  /** Unset if series are not counted. */
  readonly hashKey?: HashKey | undefined;
}

export interface CheckedWrite {
  /** Requests of version 1.0 for the engine, compressed, each in its own buffer; empty if there is nothing to store. */
  readonly bodies: readonly Uint8Array<ArrayBuffer>[];
  readonly accepted: number;
  readonly dropped: Readonly<Record<string, number>>;
  readonly faults?: RecordFaults;
  readonly exemplars: readonly Exemplar[];
  /** Native histograms that are stored as classic series; unset: none. Part of `accepted`. */
  readonly histograms?: number;
  /** Hash of each series that has samples to store; empty unless series are counted. */
  readonly seriesHashes: Int32Array<ArrayBuffer>;
  /** Size of the decompressed request and of the bodies built from it. */
  readonly storedBytes: number;
}

const RESERVED = ["org_id", "host_id", "node"].map((name) => Buffer.from(name));
const EXPORTED = Buffer.from("exported_");
const NAME = Buffer.from("__name__");
/** Prometheus marks the end of a series with this value, which the engine stores; it drops any other NaN. */
const STALE_MARKER = 0x7ff0_0000_0000_0002n;

/** Throws `malformed_body`, `invalid_payload`, `body_too_large` and `batch_too_large`. */
export function checkWrite(task: WriteTask): CheckedWrite {
  return checkFast(task) ?? checkSlowPath(task);
}

/** Undefined if the kernel does not accept the request. Throws `malformed_body` and `body_too_large`, depending on the declared length. */
export function checkFast({ body, version, limits, hashKey }: WriteTask): CheckedWrite | undefined {
  const fast = version === 1 ? WRITE_KERNEL.get()?.check(body, limits, hashKey) : undefined;
  return fast && { ...fast, dropped: {}, exemplars: [], bodies: [ownBytes(body)], storedBytes: snappyLength(body) };
}

/** Checks a request in TypeScript if it is large, has version 2.0 or exemplars, or has samples that are rejected, dropped or renamed. */
export function checkSlowPath(task: WriteTask): CheckedWrite {
  const { body, version } = task;
  const bytes = decompressSnappy(body);
  const histograms = new NativeHistograms(task.limits);
  const check = new WriteCheck(new WriteRequest(bytes, version), task, { histograms });
  const ofRequest = check.run();
  const classic = histograms.finish();
  // The classic series of native histograms are checked like any others: their labels may be reserved, or too many.
  const ofClassic = classic.length > 0 ? new WriteCheck(new WriteRequest(classic, 1), task, {}).run() : undefined;
  const checked = ofClassic ? merge(ofRequest, ofClassic, histograms.converted) : ofRequest;
  if (checked.accepted === 0) return { ...checked, bodies: [], storedBytes: bytes.length };
  if (version === 1 && check.isClean) return { ...checked, bodies: [ownBytes(body)], storedBytes: bytes.length };
  const output = new SeriesOutput();
  const rewritten = { ...task, hashKey: undefined };
  new WriteCheck(new WriteRequest(bytes, version), rewritten, { output }).run();
  if (classic.length > 0) new WriteCheck(new WriteRequest(classic, 1), rewritten, { output }).run();
  const bodies = output.finish();
  return {
    ...checked,
    bodies,
    storedBytes: Math.max(
      bytes.length,
      bodies.reduce((sum, { length }) => sum + length, 0),
    ),
  };
}

type Checked = Pick<CheckedWrite, "accepted" | "dropped" | "faults" | "exemplars" | "seriesHashes" | "histograms">;

/** A native histogram counts as one sample, however many series it becomes. */
function merge(ofRequest: Checked, ofClassic: Checked, histograms: number): Checked {
  const dropped = addCounts(ofRequest.dropped, ofClassic.dropped);
  const seriesHashes = new Int32Array([...ofRequest.seriesHashes, ...ofClassic.seriesHashes]);
  const stored = ofClassic.accepted > 0 ? histograms : 0;
  return { ...ofRequest, dropped, seriesHashes, accepted: ofRequest.accepted + stored, histograms: stored };
}

interface WriteParts {
  readonly output?: SeriesOutput;
  readonly histograms?: NativeHistograms;
}

class WriteCheck {
  readonly #request: WriteRequest;
  readonly #view: DataView;
  readonly #task: WriteTask;
  readonly #output: SeriesOutput | undefined;
  readonly #histograms: NativeHistograms | undefined;
  #scratch: SeriesOutput | undefined;
  readonly #exemplars = new ExemplarList();
  readonly #dropped: Record<string, number> = {};
  #hashes = new Int32Array(64);
  #hashCount = 0;
  #accepted = 0;
  /** The prefix for the name of each label of the current series. */
  #prefixes: (Uint8Array | undefined)[] = [];
  /** Size of all labels so far. References of version 2.0 repeat symbols, so without a limit a small request could take days. */
  #labelBytes = 0;
  #tooLong: string | undefined;
  #isClean = true;
  readonly #faults = noFaults();
  #index = 0;

  constructor(request: WriteRequest, task: WriteTask, { output, histograms }: WriteParts) {
    this.#histograms = histograms;
    this.#request = request;
    this.#view = new DataView(request.bytes.buffer, request.bytes.byteOffset, request.bytes.byteLength);
    this.#task = task;
    this.#output = output;
  }

  /** Whether the engine would store the whole request under unchanged names. */
  get isClean(): boolean {
    return this.#isClean && !this.#request.hasOther;
  }

  run(): Checked {
    this.#request.eachSeries(() => {
      this.#checkSeries();
      this.#index += 1;
    });
    const { exemplars } = this.#exemplars;
    const seriesHashes = this.#hashes.slice(0, this.#hashCount);
    return { accepted: this.#accepted, ...withFaults(this.#dropped, this.#faults), exemplars, seriesHashes };
  }

  #checkSeries(): void {
    const request = this.#request;
    const labels = request.fault === undefined ? this.#checkLabels() : 0;
    const { fault } = request;
    if (fault !== undefined) {
      this.#isClean = false;
      return leaveOut(this.#faults, Math.max(1, request.sampleCount), () => `timeseries[${this.#index}]: ${fault}`);
    }
    const isTooMany = request.hasMoreLabels || labels > this.#task.limits.maxLabels;
    const reason = isTooMany ? "too_many_labels" : this.#tooLong;
    if (reason !== undefined) return this.#drop(reason, request.sampleCount + request.exemplars + request.histograms);
    if (request.histograms > 0) {
      this.#isClean = false;
      this.#histograms?.add(request, (why) => this.#count(why, 1));
    }
    const kept = this.#keepSamples();
    if (kept > 0) this.#addSamples(kept);
    if (request.exemplars > 0 && !this.#output) this.#exemplars.add(request, this.#prefixes, (why, count) => this.#count(why, count));
  }

  #addSamples(count: number): void {
    this.#accepted += count;
    this.#output?.add(this.#request, count, this.#prefixes);
    const { hashKey } = this.#task;
    if (hashKey) this.#addHash(hashKey);
  }

  /** The number of labels that have a value. Sets the fault of the series. Throws `batch_too_large`. */
  #checkLabels(): number {
    const { bytes, labels, labelCount } = this.#request;
    const { maxNameBytes, maxValueBytes, maxLabelBytes } = this.#task.limits;
    const before = this.#labelBytes;
    let count = 0;
    let isNamed = false;
    this.#tooLong = undefined;
    if (this.#prefixes.length > 0) this.#prefixes = [];
    for (let slot = 0; slot < 4 * labelCount && slot < labels.length; slot += 4) {
      const [nameStart, nameEnd] = [labels[slot] as number, labels[slot + 1] as number];
      const [valueStart, valueEnd] = [labels[slot + 2] as number, labels[slot + 3] as number];
      if (nameEnd === nameStart) return this.#fault(slot, "has no name");
      this.#labelBytes += nameEnd - nameStart + valueEnd - valueStart;
      if (this.#labelBytes > MAX_REWRITTEN_BYTES) throw tooManyLabels();
      if (!isText(bytes, nameStart, nameEnd) || !isText(bytes, valueStart, valueEnd)) return this.#fault(slot, "is not UTF-8");
      if (nameEnd - nameStart > maxNameBytes) this.#tooLong ??= "too_long_label_name";
      if (valueEnd - valueStart > maxValueBytes) this.#tooLong ??= "too_long_label_value";
      if (valueEnd === valueStart) continue;
      count += 1;
      if (equals(bytes, nameStart, nameEnd, NAME)) isNamed = true;
      else if (isReserved(bytes, nameStart, nameEnd)) {
        this.#isClean = false;
        this.#prefixes[slot / 4] = EXPORTED;
      }
    }
    if (this.#labelBytes - before > maxLabelBytes) this.#tooLong ??= "too_long_labels";
    if (!isNamed) this.#request.fault = "it has no metric name (`__name__`)";
    const repeated = this.#repeatedName();
    if (repeated !== undefined) this.#request.fault = `the label ${JSON.stringify(repeated)} is given twice`;
    return count;
  }

  /**
   * A name that two labels have: the engine would keep one of their values. A renamed label gets further prefixes while its name is taken, as
   * Prometheus does, because kube-state-metrics and others send both `node` and `exported_node`.
   */
  #repeatedName(): string | undefined {
    const { bytes, labels, labelCount } = this.#request;
    const slots = Math.min(4 * labelCount, labels.length);
    if (this.#prefixes.length === 0 && isSorted(bytes, labels, slots)) return undefined;
    const names = new Set<string>();
    const renamed: number[] = [];
    for (let slot = 0; slot < slots; slot += 4) {
      const sent = bytes.toString("utf8", labels[slot], labels[slot + 1]);
      if (names.has(sent)) return sent;
      names.add(sent);
      if (this.#prefixes[slot / 4]) renamed.push(slot);
    }
    for (const slot of renamed) {
      const sent = bytes.toString("utf8", labels[slot], labels[slot + 1]);
      let prefix = EXPORTED.toString();
      while (names.has(prefix + sent)) prefix += EXPORTED.toString();
      names.add(prefix + sent);
      this.#prefixes[slot / 4] = Buffer.from(prefix);
    }
    return undefined;
  }

  #fault(slot: number, problem: string): number {
    this.#request.fault = `label ${slot / 4 + 1} ${problem}`;
    return 0;
  }

  /** Moves the samples that can be stored to the front; returns their number. */
  #keepSamples(): number {
    const { valuePositions, times, sampleCount } = this.#request;
    const { oldestMs, newestMs } = this.#task.limits;
    let kept = 0;
    for (let index = 0; index < sampleCount; index += 1) {
      const [time, position] = [times[index] as number, valuePositions[index] as number];
      if (time < oldestMs) this.#drop("before_retention", 1);
      else if (time > newestMs) this.#drop("too_far_ahead", 1);
      else if (position > 0 && this.#isPlainNaN(position)) this.#drop("not_a_number", 1);
      else {
        times[kept] = time;
        valuePositions[kept] = position;
        kept += 1;
      }
    }
    return kept;
  }

  #isPlainNaN(position: number): boolean {
    const high = this.#view.getUint32(position + 4, true) & 0x7fff_ffff;
    if (high < 0x7ff0_0000) return false;
    return Number.isNaN(this.#view.getFloat64(position, true)) && this.#view.getBigUint64(position, true) !== STALE_MARKER;
  }

  /**
   * Adds the hashes of the series, which are the same in both versions. The specification requires sorted labels; a series with labels in
   * another order counts as another one. In version 1.0 the labels are one range of bytes, which is hashed in a third of the time that
   * separate labels would take.
   */
  #addHash(key: HashKey): void {
    const { bytes, labels, labelCount } = this.#request;
    const last = 4 * labelCount - 4;
    // If a value precedes its name, part of a label would be outside of the range.
    const isRange = this.#task.version === 1 && isNameFirst(labels, 0) && isNameFirst(labels, last);
    if (isRange) {
      const [from, to] = [labels[0] as number, labels[last + 3] as number];
      return countParts(hashOf(bytes, from, to, key), to - from, this.#addPart);
    }
    this.#scratch ??= new SeriesOutput();
    this.#scratch.withLabels(this.#request, (text) => countParts(hashOf(text, 0, text.length, key), text.length, this.#addPart));
  }

  readonly #addPart = (hash: number): void => {
    if (this.#hashCount === this.#hashes.length) {
      const larger = new Int32Array(2 * this.#hashes.length);
      larger.set(this.#hashes);
      this.#hashes = larger;
    }
    this.#hashes[this.#hashCount] = hash;
    this.#hashCount += 1;
  };

  #drop(reason: string, count: number): void {
    if (count === 0) return;
    this.#isClean = false;
    this.#count(reason, count);
  }

  #count(reason: string, count: number): void {
    this.#dropped[reason] = (this.#dropped[reason] ?? 0) + count;
  }
}

/** Whether each name is sorted before the next one, and is another. */
function isSorted(bytes: Buffer, labels: Uint32Array, slots: number): boolean {
  for (let slot = 4; slot < slots; slot += 4)
    if (bytes.compare(bytes, labels[slot], labels[slot + 1], labels[slot - 4], labels[slot - 3]) >= 0) return false;
  return true;
}

function isText(bytes: Buffer, start: number, end: number): boolean {
  let bits = 0;
  for (let at = start; at < end; at += 1) bits |= bytes[at] as number;
  return bits < 0x80 || isUtf8(bytes.subarray(start, end));
}

function equals(bytes: Uint8Array, start: number, end: number, text: Uint8Array): boolean {
  if (end - start !== text.length) return false;
  for (let index = 0; index < text.length; index += 1) if (bytes[start + index] !== text[index]) return false;
  return true;
}

function isReserved(bytes: Uint8Array, start: number, end: number): boolean {
  const length = end - start;
  return length >= 4 && length <= 7 && RESERVED.some((name) => equals(bytes, start, end, name));
}

function isNameFirst(labels: Uint32Array, slot: number): boolean {
  return (labels[slot + 2] as number) >= (labels[slot + 1] as number);
}
