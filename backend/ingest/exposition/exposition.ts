// Validates Prometheus exposition text in one pass over its bytes, without allocating strings. A label name occurs once in a line, and is not
// __name__, because the engine would keep one of the values. Invariant: VictoriaMetrics stores every line
// of a valid body, except the samples counted in `dropped`, which the engine would drop silently or which this file turns into comments.
//
// The grammar is the text format (names without quotes are ASCII, quoted names any UTF-8), plus OpenMetrics' exemplars, `# EOF` and times in
// seconds. Three spellings that the format allows and the engine misreads are corrected in place, without moving a byte: a `+` before a
// number, a comment or exemplar after the value (which the engine would search for labels), and a time of 0. Series with too long labels
// become comments, too. Labels that the server sets get a prefix, as in the other formats: the engine would replace their values, and series
// that differ only in them would become one.
//
// A WebAssembly kernel validates lines in their usual spelling, many per call (plain-lines.ts); every other line is parsed here. The parser
// is one file because its functions share the offset in the body.
import { isUtf8 } from "node:buffer";
import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { MAX_LINE_BYTES } from "../ingest-limits.ts";
import { PLAIN_LINES, type PlainLines, type SeriesLimits } from "./plain-lines.ts";

export type DropReason =
  | "too_many_labels"
  | "too_long_label_name"
  | "too_long_label_value"
  | "too_long_labels"
  | "not_a_number"
  | "before_retention"
  | "time_zero"
  | "too_far_ahead";

export interface ExpositionCounts {
  /** Samples that will be stored. */
  readonly accepted: number;
  readonly dropped: Readonly<Partial<Record<DropReason, number>>>;
  /** Where a label name needs a prefix, and how often; in pairs, ascending. Unset: nowhere. */
  readonly renames?: readonly number[];
}

/** The first line that is not exposition text. */
export class ExpositionError extends Error {
  readonly line: number;
  constructor(line: number, reason: string) {
    super(`line ${line}: ${reason}`);
    this.name = "ExpositionError";
    this.line = line;
  }
}

/** After this many bytes the event loop serves other requests. */
const SLICE_BYTES = 512 * 1024;

const [NEWLINE, RETURN, SPACE, TAB] = [10, 13, 32, 9];
const [QUOTE, HASH, PLUS, COMMA] = [34, 35, 43, 44];
const [MINUS, DOT, ZERO, EQUALS] = [45, 46, 48, 61];
const [BACKSLASH, OPEN, CLOSE] = [92, 123, 125];
/** The last line of OpenMetrics text. */
const END_OF_TEXT = Buffer.from("# EOF");
/** What `\\\\`, `\\"` and `\\n` stand for. */
const ESCAPES: Readonly<Record<number, number>> = { 92: 92, 34: 34, 110: 10 };
/** Names of a line that are compared; lines with more are dropped. */
const MAX_NAMES = 64;
/** Names of labels that the server sets. */
const RESERVED = ["org_id", "host_id", "node"];
const PREFIX = "exported_";
const [HASH_OF_NAME, ...HASHES_OF_RESERVED] = ["__name__", ...RESERVED].map((name) =>
  Buffer.from(name).reduce((hash, byte) => (Math.imul(hash, 31) + byte) | 0, 0),
);

/** 1 for bytes that an unquoted name may start with, 2 for those it may continue with. */
const NAME = Uint8Array.from({ length: 256 }, (_, byte) => {
  const character = String.fromCharCode(byte);
  return /[a-zA-Z_:]/.test(character) ? 1 : Number(/\d/.test(character)) * 2;
});

/**
 * Throws ExpositionError for the first bad line; lines before it may have been corrected in place. Without `kernel`, every line is parsed
 * here, with the same result.
 */
export async function validateExposition(
  body: Buffer,
  limits: SeriesLimits,
  kernel: PlainLines | "none" | undefined = PLAIN_LINES.get(),
): Promise<ExpositionCounts> {
  const validation = new Validation(body, limits, kernel === "none" ? undefined : kernel);
  while (!validation.advance(SLICE_BYTES)) await yieldToEventLoop();
  return validation.counts();
}

/** The text with the prefixes that `renames` names. */
export function withPrefixes(text: Buffer, renames: readonly number[]): Buffer {
  const total = renames.reduce((sum, times, at) => sum + (at % 2 === 1 ? times * PREFIX.length : 0), 0);
  const result = Buffer.allocUnsafeSlow(text.length + total);
  let [from, to] = [0, 0];
  for (let index = 0; index < renames.length; index += 2) {
    const at = renames[index] as number;
    to += text.copy(result, to, from, at);
    to += result.write(PREFIX.repeat(renames[index + 1] as number), to, "latin1");
    from = at;
  }
  text.copy(result, to, from);
  return result;
}

class Validation {
  readonly #bytes: Buffer;
  readonly #limits: SeriesLimits;
  readonly #dropped: Partial<Record<DropReason, number>> = {};
  #at = 0;
  #line = 0;
  #samples = 0;
  #droppedSamples = 0;
  /** End of the current line, without its line break. */
  #end = 0;
  #labels = 0;
  #labelBytes = 0;
  /** Hash and position of each name of the line that is read so far. */
  readonly #names = new Int32Array(3 * MAX_NAMES);
  readonly #renames: number[] = [];
  /** The line may have a label that the server sets. */
  #isReserved = false;
  #nameCount = 0;
  #hasName = false;
  #tooLong: DropReason | undefined;
  #isNaN = false;
  #hasEnded = false;
  readonly #isUtf8: boolean;
  readonly #kernel: PlainLines | undefined;

  constructor(bytes: Buffer, limits: SeriesLimits, kernel: PlainLines | undefined) {
    this.#bytes = bytes;
    this.#limits = limits;
    this.#isUtf8 = isUtf8(bytes);
    this.#kernel = this.#isUtf8 ? kernel : undefined;
  }

  counts(): ExpositionCounts {
    const counts = { accepted: this.#samples - this.#droppedSamples, dropped: this.#dropped };
    return this.#renames.length > 0 ? { ...counts, renames: this.#renames } : counts;
  }

  /** Validates lines until `budget` bytes are used. True at the end of the body. */
  advance(budget: number): boolean {
    const { length } = this.#bytes;
    const from = this.#at;
    const stop = from + budget;
    const end = this.#kernel ? this.#openInKernel(stop) : from;
    while (this.#at < length) {
      if (this.#at >= stop) return false;
      if (this.#at < end && !this.#hasEnded) this.#skipPlainLines(from);
      if (this.#at < Math.min(length, stop)) this.#validateNextLine();
    }
    return true;
  }

  /** Copies whole lines from here to `stop` into the kernel; returns where they end. */
  #openInKernel(stop: number): number {
    const end = this.#bytes.lastIndexOf(NEWLINE, stop - 1) + 1;
    if (end <= this.#at) return this.#at;
    return this.#kernel?.open(this.#bytes.subarray(this.#at, end), this.#limits) ? end : this.#at;
  }

  /** `from`: where the lines of the kernel begin. */
  #skipPlainLines(from: number): void {
    const kernel = this.#kernel as PlainLines;
    this.#at = from + kernel.skip(this.#at - from);
    this.#line += kernel.lines;
    this.#samples += kernel.samples;
  }

  #validateNextLine(): void {
    const bytes = this.#bytes;
    this.#line += 1;
    const newline = bytes.indexOf(NEWLINE, this.#at);
    const lineEnd = newline < 0 ? bytes.length : newline;
    if (lineEnd - this.#at > MAX_LINE_BYTES) this.#fail(`longer than ${MAX_LINE_BYTES} bytes`);
    if (!this.#isUtf8 && !isUtf8(bytes.subarray(this.#at, lineEnd))) this.#fail("not UTF-8");
    this.#end = lineEnd > this.#at && bytes[lineEnd - 1] === RETURN ? lineEnd - 1 : lineEnd;
    this.#validateLine();
    this.#at = lineEnd + 1;
  }

  #validateLine(): void {
    const bytes = this.#bytes;
    const end = this.#end;
    const start = this.#skipBlanks(this.#at);
    if (start === end) return;
    if (this.#hasEnded) this.#fail("text after # EOF, which ends the text");
    if (bytes[start] === HASH) return void (this.#hasEnded = this.#isEndOfText(start));
    this.#labels = 0;
    this.#labelBytes = 0;
    this.#nameCount = 0;
    this.#hasName = false;
    this.#isReserved = false;
    this.#tooLong = undefined;
    this.#isNaN = false;
    let at = start;
    if (bytes[at] !== OPEN) {
      at = this.#skipName(at);
      if (at === start) this.#fail("a metric name must start with a letter, _ or :, or be quoted within braces");
      this.#countLabel(0, at - start);
      this.#hasName = true;
      const afterName = at;
      at = this.#skipBlanks(at);
      if (at === afterName && at < end && bytes[at] !== OPEN) this.#fail("a character that a metric name cannot hold without quotes");
    }
    if (at < end && bytes[at] === OPEN) at = this.#skipLabels(at + 1);
    if (!this.#hasName) this.#fail("the metric name is missing");
    this.#validateSample(at);
    if (this.#isReserved) this.#rename();
  }

  /** Notes the reserved names of the line. The prefix is repeated while another label has that name, as in Prometheus. */
  #rename(): void {
    const at = this.#names;
    const names = Array.from({ length: this.#nameCount }, (_, slot) =>
      this.#nameOf(at[3 * slot + 1] as number, at[3 * slot + 2] as number),
    );
    for (const [slot, name] of names.entries()) {
      let times = 1;
      while (names.includes(PREFIX.repeat(times) + name)) times += 1;
      if (RESERVED.includes(name)) this.#renames.push(at[3 * slot + 1] as number, times);
    }
  }

  #isEndOfText(start: number): boolean {
    const end = start + END_OF_TEXT.length;
    return this.#skipBlanks(end) === this.#end && END_OF_TEXT.equals(this.#bytes.subarray(start, end));
  }

  /** Value, optional time, optional comment. */
  #validateSample(from: number): void {
    const bytes = this.#bytes;
    let at = this.#skipBlanks(from);
    if (at === this.#end || bytes[at] === HASH) this.#fail("the value is missing");
    const valueEnd = this.#skipNumber(at, true);
    if (valueEnd < 0) this.#fail("the value is not a number");
    at = this.#skipBlanks(valueEnd);
    let timeMs: number | undefined;
    if (at < this.#end && bytes[at] !== HASH) {
      const timeEnd = this.#skipNumber(at, false);
      if (timeEnd < 0) this.#fail("the timestamp is not a number");
      timeMs = this.#timeOf(at, timeEnd);
      at = this.#skipBlanks(timeEnd);
    }
    if (at < this.#end) {
      if (bytes[at] !== HASH) this.#fail("something follows the timestamp");
      bytes.fill(SPACE, at, this.#end);
    }
    this.#count(timeMs);
  }

  #count(timeMs: number | undefined): void {
    this.#samples += 1;
    const limits = this.#limits;
    if (timeMs === 0) this.#dropLine("time_zero");
    else if (this.#labels > limits.maxLabels) this.#drop("too_many_labels");
    else if (this.#tooLong) this.#drop(this.#tooLong);
    else if (this.#labelBytes > limits.maxLabelBytes) this.#dropLine("too_long_labels");
    else if (this.#isNaN) this.#drop("not_a_number");
    else if (timeMs === undefined) return;
    else if (timeMs < limits.oldestMs) this.#drop("before_retention");
    else if (timeMs > limits.newestMs) this.#drop("too_far_ahead");
  }

  /** Turns the line into a comment: the engine would replace a time of 0 by the current time, and store long labels. */
  #dropLine(reason: DropReason): void {
    this.#bytes.fill(SPACE, this.#at, this.#end);
    this.#bytes[this.#at] = HASH;
    this.#drop(reason);
  }

  #drop(reason: DropReason): void {
    this.#droppedSamples += 1;
    this.#dropped[reason] = (this.#dropped[reason] ?? 0) + 1;
  }

  /** Reads labels from after `{`; returns the offset after `}`. */
  #skipLabels(from: number): number {
    const bytes = this.#bytes;
    const end = this.#end;
    let at = this.#skipBlanks(from);
    while (at < end && bytes[at] !== CLOSE) {
      const quoted = bytes[at] === QUOTE;
      const nameStart = at;
      at = quoted ? this.#skipQuoted(at) : this.#skipName(at);
      const nameEnd = at;
      const nameBytes = quoted ? this.#unquotedBytes(nameStart, at) : at - nameStart;
      if (nameBytes === 0) this.#fail(quoted ? "an empty name" : "a label name must start with a letter or _, or be quoted");
      at = this.#skipBlanks(at);
      if (bytes[at] === EQUALS && at < end) {
        this.#checkName(quoted ? nameStart + 1 : nameStart, quoted ? nameEnd - 1 : nameEnd);
        const valueStart = this.#skipBlanks(at + 1);
        if (valueStart >= end || bytes[valueStart] !== QUOTE) this.#fail("a label value must be quoted");
        at = this.#skipQuoted(valueStart);
        const valueBytes = this.#unquotedBytes(valueStart, at);
        if (valueBytes > 0) this.#countLabel(nameBytes, valueBytes);
        at = this.#skipBlanks(at);
      } else {
        if (!quoted) this.#fail("a label without a value");
        if (this.#hasName) this.#fail("a second metric name");
        this.#hasName = true;
        this.#countLabel(0, nameBytes);
      }
      if (at < end && bytes[at] === COMMA) at = this.#skipBlanks(at + 1);
      else if (at >= end || bytes[at] !== CLOSE) this.#fail("a comma or } must follow a label");
    }
    if (at >= end) this.#fail("the labels are not closed with }");
    return at + 1;
  }

  /** Fails if the name is already used in this line. Lines with more names have more labels than are stored. */
  #checkName(from: number, to: number): void {
    const names = this.#names;
    const hash = this.#hashOf(from, to);
    const isSame = (start: number, end: number): boolean => this.#nameOf(start, end) === this.#nameOf(from, to);
    if (HASHES_OF_RESERVED.includes(hash)) this.#isReserved = true;
    if (hash === HASH_OF_NAME && this.#nameOf(from, to) === "__name__") this.#fail("the label __name__, which is the metric name");
    for (let slot = 0; slot < 3 * this.#nameCount; slot += 3)
      if (names[slot] === hash && isSame(names[slot + 1] as number, names[slot + 2] as number))
        this.#fail(`the label ${JSON.stringify(this.#nameOf(from, to))} is given twice`);
    if (this.#nameCount === MAX_NAMES) return;
    names.set([hash, from, to], 3 * this.#nameCount);
    this.#nameCount += 1;
  }

  /** A hash of the name without escapes. */
  #hashOf(from: number, to: number): number {
    const bytes = this.#bytes;
    let hash = 0;
    for (let at = from; at < to; at += 1) {
      let byte = bytes[at] as number;
      const escaped = byte === BACKSLASH && at + 1 < to ? ESCAPES[bytes[at + 1] as number] : undefined;
      if (escaped !== undefined) {
        byte = escaped;
        at += 1;
      }
      hash = (Math.imul(hash, 31) + byte) | 0;
    }
    return hash;
  }

  #nameOf(from: number, to: number): string {
    return this.#bytes.toString("utf8", from, to).replaceAll(/\\([\\"n])/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));
  }

  #countLabel(nameBytes: number, valueBytes: number): void {
    this.#labels += 1;
    this.#labelBytes += nameBytes + valueBytes;
    if (this.#tooLong) return;
    if (nameBytes > this.#limits.maxNameBytes) this.#tooLong = "too_long_label_name";
    else if (valueBytes > this.#limits.maxValueBytes) this.#tooLong = "too_long_label_value";
  }

  #skipBlanks(from: number): number {
    const bytes = this.#bytes;
    const end = this.#end;
    let at = from;
    while (at < end && (bytes[at] === SPACE || bytes[at] === TAB)) at += 1;
    return at;
  }

  #skipName(from: number): number {
    const bytes = this.#bytes;
    const end = this.#end;
    let at = from;
    if (at >= end || NAME[bytes[at] as number] !== 1) return at;
    at += 1;
    while (at < end && NAME[bytes[at] as number] !== 0) at += 1;
    return at;
  }

  /** Reads a quoted string from its opening quote; returns the offset after the closing one. */
  #skipQuoted(from: number): number {
    const bytes = this.#bytes;
    const end = this.#end;
    let at = from + 1;
    for (; at < end; at += 1) {
      const byte = bytes[at];
      if (byte === QUOTE) return at + 1;
      if (byte === BACKSLASH) at += 1;
    }
    return this.#fail("a quote is not closed");
  }

  /** The length of the text in quotes once escapes are resolved. */
  #unquotedBytes(from: number, to: number): number {
    const bytes = to - from - 2;
    return bytes > this.#limits.maxNameBytes ? bytes - this.#countEscapes(from + 1, to - 1) : bytes;
  }

  /** The number of bytes that `\\`, `\"` and `\n` lose when unescaped; any other backslash is part of the text. */
  #countEscapes(from: number, to: number): number {
    const bytes = this.#bytes;
    let lost = 0;
    for (let at = from; at < to; at += 1) {
      if (bytes[at] !== BACKSLASH) continue;
      at += 1;
      if (bytes[at] === BACKSLASH || bytes[at] === QUOTE || bytes[at] === 0x6e) lost += 1;
    }
    return lost;
  }

  /** The end of the number at `from`; -1 if there is no number, or if it is not followed by a blank, a comment or the end of the line. */
  #skipNumber(from: number, special: boolean): number {
    const bytes = this.#bytes;
    const end = this.#end;
    let at = from;
    const sign = bytes[at];
    if (sign === MINUS || sign === PLUS) at += 1;
    const mantissa = at;
    at = this.#skipDigits(at);
    let digits = at - mantissa;
    if (at < end && bytes[at] === DOT) {
      const fraction = at + 1;
      at = this.#skipDigits(fraction);
      digits += at - fraction;
    }
    if (digits === 0) at = special ? this.#skipSpecial(mantissa) : -1;
    else if (at < end && ((bytes[at] as number) | 0x20) === 0x65) at = this.#skipExponent(at + 1);
    if (at < 0 || (at < end && bytes[at] !== SPACE && bytes[at] !== TAB && bytes[at] !== HASH)) return -1;
    if (sign === PLUS) bytes[from] = SPACE;
    return at;
  }

  #skipDigits(from: number): number {
    const bytes = this.#bytes;
    const end = this.#end;
    let at = from;
    while (at < end && isDigit(bytes[at] as number)) at += 1;
    return at;
  }

  #skipExponent(from: number): number {
    const sign = this.#bytes[from];
    const digits = sign === PLUS || sign === MINUS ? from + 1 : from;
    let at = digits;
    while (isDigit(this.#bytes[at] as number)) at += 1;
    return at > digits ? at : -1;
  }

  /** NaN, Inf, Infinity in any case. */
  #skipSpecial(from: number): number {
    let at = from;
    while (at < this.#end && NAME[this.#bytes[at] as number] !== 0) at += 1;
    const word = at - from > 8 ? "" : this.#bytes.toString("latin1", from, at).toLowerCase();
    this.#isNaN = word === "nan";
    return this.#isNaN || word === "inf" || word === "infinity" ? at : -1;
  }

  /**
   * The time in milliseconds as the engine interprets it: a number within ± 2^31 is in seconds, as in OpenMetrics; as milliseconds it would
   * be before 26 January 1970, older than any retention.
   */
  #timeOf(from: number, to: number): number {
    const bytes = this.#bytes;
    let time = 0;
    for (let at = from; at < to; at += 1) {
      const digit = (bytes[at] as number) - ZERO;
      if (digit < 0 || digit > 9) {
        time = Number(bytes.toString("latin1", from, to));
        break;
      }
      time = time * 10 + digit;
    }
    return Math.trunc(time >= -(2 ** 31) && time < 2 ** 31 ? time * 1000 : time);
  }

  #fail(reason: string): never {
    throw new ExpositionError(this.#line, reason);
  }
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= ZERO + 9;
}
