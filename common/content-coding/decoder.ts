// Decompresses request bodies as their Content-Encoding says, for agent and backend. Invariant: a body is decompressed to its last byte, or
// it is an error: Node's decompressors stop at the end of the first zstd frame, and at the first zero byte after a gzip member.
import { Transform, type TransformCallback } from "node:stream";
import { callbackify } from "node:util";
import { constants, createGunzip, createZstdDecompress, gunzipSync, type ZlibOptions, zstdDecompressSync } from "node:zlib";
import { freeBuffer } from "../http.ts";
import { BodyError } from "../otlp-metrics/document.ts";
import { COLLECTED_BYTES, MAX_FRAMES_AT_ONCE } from "./content-coding-limits.ts";
import { malformed, ZstdFrames } from "./zstd-frames.ts";

export type Coding = "gzip" | "zstd";

const CODINGS: Readonly<Record<string, Coding>> = { gzip: "gzip", "x-gzip": "gzip", zstd: "zstd" };
/** The codings by their own names, without aliases. */
export const CODING_NAMES: readonly string[] = [...new Set(Object.values(CODINGS))];
const ZSTD_OPTIONS = { params: { [constants.ZSTD_d_windowLogMax]: 23 } };
const STREAM_CHUNK_BYTES = 128 * 1024;
const SMALL_CHUNK_BYTES = 64 * 1024;

/**
 * Returns undefined if the body is not compressed. "identity" and empty elements are no codings; Node joins repeated headers with commas.
 * Throws BodyError "unsupported_encoding".
 */
export function parseCoding(header: string | undefined): Coding | undefined {
  if (header === undefined) return undefined;
  const names = header.toLowerCase().split(",", 9);
  const [name, ...more] = names.map((each) => each.trim()).filter((each) => each !== "" && each !== "identity");
  if (name === undefined && names.length < 9) return undefined;
  const coding = name !== undefined && more.length === 0 && Object.hasOwn(CODINGS, name) ? CODINGS[name] : undefined;
  if (coding) return coding;
  throw new BodyError("unsupported_encoding", "Content-Encoding must be gzip, zstd or absent, and name one of them only");
}

/**
 * Decompresses a body synchronously, which costs a quarter of a millisecond for 256 KiB; streams and a thread of libuv's pool would cost
 * several times that. Returns undefined if the result exceeds `maxBytes` or the body has many frames. The result has its own buffer. Throws
 * BodyError "malformed".
 */
export function decodeSmall(bytes: Uint8Array, coding: Coding, maxBytes: number): Buffer | undefined {
  const frames = coding === "zstd" ? splitFrames(bytes) : bytes.length === 0 ? [] : [bytes];
  if (!frames) return undefined;
  try {
    let left = maxBytes;
    const decoded = frames.map((frame) => {
      const part = decodeFrame(frame, coding, Math.max(1, left));
      left -= part.length;
      return part;
    });
    if (left < 0) return undefined;
    const [only] = decoded;
    return decoded.length === 1 && only ? ownBuffer(only) : Buffer.from(new Uint8Array(Buffer.concat(decoded)).buffer);
  } catch (cause) {
    if (cause instanceof BodyError) throw cause;
    if ((cause as { code?: string }).code === "ERR_BUFFER_TOO_LARGE") return undefined;
    throw malformed((cause as Error).message, { cause });
  }
}

/** Undefined if there are many. */
function splitFrames(bytes: Uint8Array): Uint8Array[] | undefined {
  const reader = new ZstdFrames();
  const frames: Uint8Array[] = [];
  for (let at = 0; at < bytes.length;) {
    if (frames.length === MAX_FRAMES_AT_ONCE) return undefined;
    const end = reader.frameEnd(bytes, at);
    frames.push(bytes.subarray(at, end));
    at = end;
  }
  if (!reader.isComplete) throw cutOff();
  return frames;
}

function decodeFrame(frame: Uint8Array, coding: Coding, maxOutputLength: number): Buffer {
  const options = { maxOutputLength, chunkSize: SMALL_CHUNK_BYTES };
  if (coding === "zstd") return zstdDecompressSync(frame, { ...ZSTD_OPTIONS, ...options });
  const withInfo: ZlibOptions = { ...options, info: true };
  const { buffer, engine } = gunzipSync(frame, withInfo) as unknown as { buffer: Buffer; engine: { bytesWritten: number } };
  checkPadding(frame.subarray(engine.bytesWritten));
  return buffer;
}

/** Copies a result that does not fill its buffer. */
function ownBuffer(bytes: Buffer): Buffer {
  if (bytes.length === bytes.buffer.byteLength) return bytes;
  const copy = Buffer.from(new Uint8Array(bytes).buffer);
  if (bytes.buffer.byteLength === SMALL_CHUNK_BYTES) freeBuffer(new Uint8Array(bytes.buffer));
  return copy;
}

/** Decompresses a body of any size within `maxBytes`. Throws BodyError "malformed" or "too_large". */
export async function decode(bytes: Uint8Array, coding: Coding, maxBytes: number): Promise<Buffer> {
  const decoder = new Decoder(coding);
  decoder.end(bytes);
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of decoder as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > maxBytes) throw new BodyError("too_large", `the decompressed body exceeds ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, length);
}

/** Decompresses the body that is written to it, at most one write at a time. Errors are BodyError "malformed". */
export class Decoder extends Transform {
  readonly #inner: ReturnType<typeof createGunzip>;
  readonly #frames: ZstdFrames | undefined;
  /** Not freed explicitly: a thread may still read it after an error. */
  readonly #collected = Buffer.allocUnsafeSlow(COLLECTED_BYTES);
  #length = 0;
  #isEmpty = true;
  /** True once zeros follow the last gzip member. */
  #isPadded = false;
  #ended: () => void = () => undefined;

  constructor(coding: Coding) {
    super({ writableHighWaterMark: COLLECTED_BYTES });
    const options = { chunkSize: STREAM_CHUNK_BYTES };
    this.#frames = coding === "zstd" ? new ZstdFrames() : undefined;
    this.#inner = coding === "zstd" ? createZstdDecompress({ ...ZSTD_OPTIONS, ...options }) : createGunzip(options);
    this.#inner.on("data", (chunk: Buffer) => this.push(chunk));
    this.#inner.on("error", (cause) => this.destroy(malformed(cause.message, { cause })));
    this.#inner.on("end", () => this.#ended());
  }

  override _transform(chunk: Buffer, _: BufferEncoding, done: TransformCallback): void {
    if (this.#length + chunk.length > COLLECTED_BYTES) return callbackify(() => this.#decodeWith(chunk))(done);
    this.#length += chunk.copy(this.#collected, this.#length);
    done();
  }

  override _flush(done: TransformCallback): void {
    callbackify(async () => {
      await this.#decodeWith(Buffer.alloc(0));
      if (this.#frames && !this.#frames.isComplete) throw cutOff();
      if (this.#isEmpty || this.#isPadded) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#ended = resolve;
      this.#inner.end();
      await promise;
    })(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#inner.destroy();
    done(error);
  }

  /** Decompresses what was collected, and then `chunk`. */
  async #decodeWith(chunk: Buffer): Promise<void> {
    const collected = this.#collected.subarray(0, this.#length);
    this.#length = 0;
    for (const bytes of [collected, chunk]) {
      for (let at = 0; at < bytes.length && !this.destroyed;) {
        const end = this.#frames?.frameEnd(bytes, at) ?? bytes.length;
        await this.#decodeFrame(bytes.subarray(at, end));
        at = end;
      }
    }
  }

  async #decodeFrame(bytes: Buffer): Promise<void> {
    this.#isEmpty = false;
    if (this.#isPadded) return checkPadding(bytes);
    const before = this.#inner.bytesWritten;
    const { promise, resolve } = Promise.withResolvers<void>();
    // When zeros follow a gzip member, Node ends the stream and does not call back for the write.
    this.#ended = resolve;
    this.#inner.write(bytes, (error) => error ?? resolve());
    await promise;
    const rest = bytes.subarray(this.#inner.bytesWritten - before);
    this.#isPadded = rest.length > 0;
    checkPadding(rest);
  }
}

/** Removes the UTF-8 byte order mark, which RFC 8259 allows parsers to ignore. The result has its own buffer if `text` has one. */
export function withoutByteOrderMark(text: Buffer): Buffer {
  const hasMark = text[0] === 0xef && text[1] === 0xbb && text[2] === 0xbf;
  return hasMark ? Buffer.from(new Uint8Array(text.subarray(3)).buffer) : text;
}

/** Zeros may follow the last gzip member, as gzip itself accepts them. */
function checkPadding(bytes: Uint8Array): void {
  if (bytes.some((byte) => byte !== 0)) throw malformed("bytes that belong to no gzip member follow zeros after the last one");
}

function cutOff(): BodyError {
  return malformed("it was cut off within a zstd frame");
}
