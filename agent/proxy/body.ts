// Holds request bodies of the collector in memory, because a body may be sent twice. Invariant: all requests together never hold more bytes
// than the budget, except that a single body is always accepted.
import type { IncomingMessage } from "node:http";
import { promisify } from "node:util";
import { constants, gzip, gzipSync, zstdCompress, zstdCompressSync } from "node:zlib";
import { type Coding, decode, decodeSmall, parseCoding } from "../../common/content-coding/decoder.ts";
import { freeBuffer } from "../../common/http.ts";
import { BodyError } from "../../common/otlp-metrics/document.ts";
import { MAX_SMALL_PIECES_BYTES } from "../agent-limits.ts";

export class MemoryBudget {
  readonly maxBytes: number;
  #usedBytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Returns false if the budget is exhausted, unless the request is the only one. */
  tryReserve(bytes: number, isOnlyRequest: boolean): boolean {
    if (this.#usedBytes + bytes > this.maxBytes && !isOnlyRequest) return false;
    this.#usedBytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#usedBytes -= bytes;
  }
}

/** A share of the budget, held by one request until it is answered. */
export class Reservation implements Disposable {
  readonly #budget: MemoryBudget;
  #bytes = 0;
  #copiedBytes = 0;

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
  }

  /** The size of the body. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Grows the reservation for the body to at least `bytes`. Throws BodyError "no_room". */
  growTo(bytes: number): void {
    const more = bytes - this.#bytes;
    if (more <= 0) return;
    this.#reserve(more);
    this.#bytes = bytes;
  }

  /** Reserves memory for copies of the body. Throws BodyError "no_room". */
  addCopies(bytes: number): void {
    this.#reserve(bytes);
    this.#copiedBytes += bytes;
  }

  #reserve(bytes: number): void {
    if (!this.#budget.tryReserve(bytes, this.#budget.usedBytes === this.#bytes + this.#copiedBytes))
      throw new BodyError("no_room", `more than ${this.#budget.maxBytes} bytes of telemetry are waiting for the backend`);
  }

  [Symbol.dispose](): void {
    this.#budget.release(this.#bytes + this.#copiedBytes);
    this.#bytes = 0;
    this.#copiedBytes = 0;
  }
}

/**
 * Smaller chunks are joined: each costs a hundred bytes more than its content and keeps the buffer that it was read into alive, and a
 * client may send a body byte by byte.
 */
const SMALL_CHUNK_BYTES = 4096;

/**
 * A body that is being received. Each reader gets it from the first byte, even while it is still arriving, so that it can be forwarded at
 * once and sent again. Receiving never waits for a reader, because the memory is reserved.
 */
export class ReceivedBody implements AsyncIterable<Buffer> {
  /** Value of Content-Length; undefined if the header is missing. */
  readonly length: number | undefined;
  readonly #maxBytes: number;
  readonly #reservation: Reservation;
  readonly #chunks: Buffer[] = [];
  #small: Buffer[] = [];
  #smallBytes = 0;
  #bytes = 0;
  #end: "complete" | Error | undefined;
  #change = Promise.withResolvers<void>();

  /** Throws BodyError if the announced length is too large or does not fit in the budget. */
  constructor(request: IncomingMessage, maxBytes: number, reservation: Reservation) {
    const announced = request.headers["content-length"];
    this.length = announced === undefined ? undefined : Number(announced);
    this.#maxBytes = maxBytes;
    this.#reservation = reservation;
    this.#admit(this.length ?? 0);
    request.on("data", (chunk: Buffer) => this.#receive(chunk));
    request.once("end", () => this.#finish("complete"));
    // The error is created only if needed, because its stack trace is expensive.
    request.once("close", () => this.#end ?? this.#finish(new Error("the collector disconnected")));
  }

  /** Throws BodyError, or an Error if the sender disconnected. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    for (let index = 0; ; index++) {
      while (index === this.#chunks.length && this.#end === undefined) await this.#change.promise;
      const chunk = this.#chunks[index];
      if (chunk !== undefined) yield chunk;
      else if (this.#end === "complete") return;
      else throw this.#end;
    }
  }

  /** Returns the whole body in one buffer. */
  async whole(): Promise<Buffer> {
    while (this.#end === undefined) await this.#change.promise;
    if (this.#end !== "complete") throw this.#end;
    return this.#chunks.length === 1 && this.#chunks[0] ? this.#chunks[0] : Buffer.concat(this.#chunks, this.#bytes);
  }

  /** Like `whole`, but callable only once: the received chunks are freed. */
  async takeWhole(): Promise<Buffer> {
    const whole = await this.whole();
    for (const chunk of this.#chunks.splice(0)) if (chunk !== whole) freeBuffer(chunk);
    return whole;
  }

  #receive(chunk: Buffer): void {
    if (this.#end !== undefined) return;
    try {
      this.#admit(this.#bytes + chunk.length);
      this.#bytes += chunk.length;
      this.#store(chunk);
      this.#wake();
    } catch (error) {
      this.#finish(error as Error);
    }
  }

  #store(chunk: Buffer): void {
    if (chunk.length < SMALL_CHUNK_BYTES) {
      this.#small.push(chunk);
      this.#smallBytes += chunk.length;
      if (this.#smallBytes < MAX_SMALL_PIECES_BYTES) return;
    }
    this.#joinSmall();
    if (chunk.length >= SMALL_CHUNK_BYTES) this.#chunks.push(chunk);
  }

  #joinSmall(): void {
    const [first, ...rest] = this.#small;
    if (first) this.#chunks.push(rest.length === 0 ? first : Buffer.concat(this.#small, this.#smallBytes));
    this.#small = [];
    this.#smallBytes = 0;
  }

  #admit(bytes: number): void {
    if (bytes > this.#maxBytes) throw new BodyError("too_large", `the body exceeds ${this.#maxBytes} bytes, the backend's limit`);
    this.#reservation.growTo(bytes);
  }

  #finish(end: "complete" | Error): void {
    this.#joinSmall();
    this.#end ??= end;
    this.#wake();
  }

  #wake(): void {
    this.#change.resolve();
    this.#change = Promise.withResolvers();
  }
}

export type Encoding = "identity" | Coding;

/** Throws BodyError "unsupported_encoding". */
export function contentEncoding(request: IncomingMessage): Encoding {
  return parseCoding(request.headers["content-encoding"]) ?? "identity";
}

/**
 * Bodies up to these sizes are compressed and decompressed synchronously, in at most two milliseconds: a thread of libuv's pool and a stream
 * would cost several times as much.
 */
const SMALL_BYTES: Readonly<Record<Coding, number>> = { gzip: 160 * 1024, zstd: 512 * 1024 };
const SMALL_COMPRESSED_BYTES = 32 * 1024;
/** Limit for the decompressed size; a larger body is decompressed again on a thread. */
const SMALL_INFLATED_BYTES = 512 * 1024;

/** Level 1 already shrinks telemetry tenfold, and the node's CPU belongs to its workloads. Of log lines, zstd makes less at level 1 than at 3. */
const GZIP_LEVEL = { level: 1 };
const ZSTD_LEVEL = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

const compressors = { gzip: promisify(gzip), zstd: promisify(zstdCompress) };

/** Throws BodyError "malformed" or "too_large". */
export async function decompress(body: Buffer, encoding: Encoding, maxBytes: number): Promise<Buffer> {
  if (encoding === "identity") return body;
  const smallBytes = Math.min(maxBytes, SMALL_INFLATED_BYTES);
  const small = body.length > SMALL_COMPRESSED_BYTES ? undefined : decodeSmall(body, encoding, smallBytes);
  return small ?? (await decode(body, encoding, maxBytes));
}

export async function compress(body: Uint8Array, compression: Coding): Promise<Uint8Array> {
  const isSmall = body.length <= SMALL_BYTES[compression];
  if (compression === "gzip") return isSmall ? gzipSync(body, GZIP_LEVEL) : compressors.gzip(body, GZIP_LEVEL);
  const options = { ...ZSTD_LEVEL, pledgedSrcSize: body.length };
  return isSmall ? zstdCompressSync(body, options) : compressors.zstd(body, options);
}
