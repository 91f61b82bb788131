// Finds where the frames of a zstd body end (RFC 8878, section 3.1), because Node's decompressor stops at the end of the first frame and
// ignores what follows. It reads headers only and skips what is in between. Invariant: bytes that belong to no frame throw, and so do frames
// that would cost more than their bytes: too large a window, or too many frames for the size of the body.
import { BodyError } from "../otlp-metrics/document.ts";
import { FRAME_ALLOWANCE, FRAME_BYTES, MAX_ZSTD_WINDOW_BYTES } from "./content-coding-limits.ts";

const MAGIC = 0xfd2fb528;
const FIRST_SKIPPABLE_MAGIC = 0x184d2a50;
const MAGIC_BYTES = 4;
const BLOCK_HEADER_BYTES = 3;
const CHECKSUM_BYTES = 4;
const RESERVED_BLOCK = 3;
const RLE_BLOCK = 1;
const DICTIONARY_ID_BYTES = [0, 1, 2, 4];
const MIB = 1024 * 1024;

/** The part of a frame that is being read. */
type Part = "magic" | "skippable" | "descriptor" | "fields" | "block" | "end";

export class ZstdFrames {
  /** Bytes of the header that is being read, and how many of them there are. */
  readonly #header = Buffer.alloc(16);
  #length = 0;
  #needed = MAGIC_BYTES;
  #part: Part = "magic";
  /** Bytes to skip before the next header. */
  #skip = 0;
  #frames = 0;
  #bytes = 0;
  #hasChecksum = false;
  #isSingleSegment = false;
  /** Bytes of the field with the size of the content. */
  #sizeBytes = 0;
  #isFrameEnd = true;

  /** True at the start of the body and after a whole frame. */
  get isComplete(): boolean {
    return this.#isFrameEnd;
  }

  /** Returns where the current frame ends in `bytes`, or its length if the frame continues after it. Throws BodyError. */
  frameEnd(bytes: Uint8Array, from: number): number {
    let at = from;
    while (at < bytes.length) {
      this.#isFrameEnd = false;
      if (this.#skip > 0) {
        const skipped = Math.min(this.#skip, bytes.length - at);
        this.#skip -= skipped;
        at += skipped;
      } else {
        this.#header[this.#length++] = bytes[at++] as number;
        if (this.#length === this.#needed) this.#read();
      }
      if (this.#skip === 0 && this.#part === "end") {
        this.#expect("magic", MAGIC_BYTES);
        this.#isFrameEnd = true;
        break;
      }
    }
    this.#bytes += at - from;
    return at;
  }

  #expect(part: Part, bytes: number): void {
    this.#length = 0;
    this.#needed = bytes;
    this.#part = part;
  }

  /** Reads a whole header, and expects what follows it. */
  #read(): void {
    if (this.#part === "magic") this.#readMagic();
    else if (this.#part === "descriptor") this.#readDescriptor();
    else if (this.#part === "fields") this.#readFields();
    else if (this.#part === "block") this.#readBlock();
    else {
      this.#skip = this.#header.readUInt32LE();
      this.#expect("end", 0);
    }
  }

  #readMagic(): void {
    const magic = this.#header.readUInt32LE();
    const isSkippable = (magic & 0xfffffff0) >>> 0 === FIRST_SKIPPABLE_MAGIC;
    if (magic !== MAGIC && !isSkippable) {
      throw malformed(this.#frames === 0 ? "the body is not zstd" : `bytes that belong to no zstd frame follow frame ${this.#frames}`);
    }
    this.#frames += 1;
    if (this.#frames > FRAME_ALLOWANCE + this.#bytes / FRAME_BYTES) {
      throw malformed(`${this.#frames} zstd frames, which have fewer than ${FRAME_BYTES} bytes on average: compress the body as one frame`);
    }
    if (isSkippable) this.#expect("skippable", 4);
    else this.#expect("descriptor", 1);
  }

  #readDescriptor(): void {
    const descriptor = this.#header[0] as number;
    this.#hasChecksum = (descriptor & 4) !== 0;
    this.#isSingleSegment = (descriptor & 0x20) !== 0;
    this.#sizeBytes = descriptor >> 6 === 0 ? Number(this.#isSingleSegment) : 2 ** (descriptor >> 6);
    this.#expect("fields", Number(!this.#isSingleSegment) + (DICTIONARY_ID_BYTES[descriptor & 3] as number) + this.#sizeBytes);
  }

  #readFields(): void {
    const window = this.#isSingleSegment ? this.#contentSize(this.#sizeBytes) : windowSize(this.#header[0] as number);
    if (window > MAX_ZSTD_WINDOW_BYTES) {
      throw malformed(
        `a zstd window of ${Math.ceil(window / MIB)} MiB; at most ${MAX_ZSTD_WINDOW_BYTES / MIB} MiB are accepted: compress without --long and --ultra`,
      );
    }
    this.#expect("block", BLOCK_HEADER_BYTES);
  }

  /** The size in the last `size` bytes of the header. A single segment is its own window. */
  #contentSize(size: number): number {
    const at = this.#needed - size;
    if (size === 8) return Number(this.#header.readBigUInt64LE(at));
    return this.#header.readUIntLE(at, size) + (size === 2 ? 256 : 0);
  }

  #readBlock(): void {
    const header = this.#header.readUIntLE(0, BLOCK_HEADER_BYTES);
    const kind = (header >> 1) & 3;
    if (kind === RESERVED_BLOCK) throw malformed("a zstd block of an unknown type");
    const isLast = (header & 1) === 1;
    this.#skip = (kind === RLE_BLOCK ? 1 : header >> 3) + (isLast && this.#hasChecksum ? CHECKSUM_BYTES : 0);
    if (isLast) this.#expect("end", 0);
    else this.#expect("block", BLOCK_HEADER_BYTES);
  }
}

function windowSize(descriptor: number): number {
  const base = 2 ** (10 + (descriptor >> 3));
  return base + (base / 8) * (descriptor & 7);
}

export function malformed(problem: string, options?: ErrorOptions): BodyError {
  return new BodyError("malformed", `the body cannot be decompressed: ${problem}`, options);
}
