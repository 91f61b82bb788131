// Request bodies of the collector, held whole because a body may have to be sent twice. Invariant: the bytes held by all requests together
// never exceed the budget, except that one body alone always gets in.
import type { IncomingMessage } from "node:http";
import { promisify } from "node:util";
import { gunzip, gunzipSync, gzip, gzipSync, zstdCompress, zstdCompressSync, zstdDecompress, zstdDecompressSync } from "node:zlib";
import { freeBuffer } from "../../common/http.ts";
import { BodyError } from "../../common/otlp-metrics/document.ts";
import type { Compression } from "../settings.ts";
import { MAX_SMALL_PIECES_BYTES } from "../limits.ts";

export class MemoryBudget {
  readonly maxBytes: number;
  #usedBytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** False when there is no room now. An empty budget takes a body of any size. */
  take(bytes: number, alone: boolean): boolean {
    if (this.#usedBytes + bytes > this.maxBytes && !alone) return false;
    this.#usedBytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#usedBytes -= bytes;
  }
}

/** Part of the budget, held by one request until it is answered. */
export class Reservation implements Disposable {
  readonly #budget: MemoryBudget;
  #bytes = 0;

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Makes the reservation at least `bytes` large. Throws BodyError "no_room". */
  growTo(bytes: number): void {
    const more = bytes - this.#bytes;
    if (more <= 0) return;
    if (!this.#budget.take(more, this.#budget.usedBytes === this.#bytes)) {
      throw new BodyError("no_room", `more than ${this.#budget.maxBytes} bytes of telemetry are already waiting for the backend`);
    }
    this.#bytes = bytes;
  }

  [Symbol.dispose](): void {
    this.#budget.release(this.#bytes);
    this.#bytes = 0;
  }
}

/**
 * Smaller pieces are joined: each costs a hundred bytes more than its own, and keeps alive what was read with it. A caller may send a body byte by
 * byte.
 */
const SMALL_PIECE_BYTES = 4096;

/**
 * The collector's body as it comes in: each reader gets all of it from the first byte, also while the rest is still on its way, so that
 * it can be sent on at once and sent a second time. Reading never waits for a reader: what is reserved may be held.
 */
export class HeldBody implements AsyncIterable<Buffer> {
  /** As announced; undefined when the sender did not say. */
  readonly length: number | undefined;
  readonly #maxBytes: number;
  readonly #reservation: Reservation;
  readonly #chunks: Buffer[] = [];
  #small: Buffer[] = [];
  #smallBytes = 0;
  #bytes = 0;
  #end: "complete" | Error | undefined;
  #change = Promise.withResolvers<void>();

  /** Throws BodyError when what is announced is too large or finds no room. */
  constructor(request: IncomingMessage, maxBytes: number, reservation: Reservation) {
    const announced = request.headers["content-length"];
    this.length = announced === undefined ? undefined : Number(announced);
    this.#maxBytes = maxBytes;
    this.#reservation = reservation;
    this.#admit(this.length ?? 0);
    request.on("data", (chunk: Buffer) => this.#take(chunk));
    request.once("end", () => this.#finish("complete"));
    // A trace costs more than all the rest here.
    request.once("close", () => this.#end ?? this.#finish(new Error("the collector broke off")));
  }

  /** Throws BodyError, or an Error when the sender broke off. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    for (let index = 0; ; index++) {
      while (index === this.#chunks.length && this.#end === undefined) await this.#change.promise;
      const chunk = this.#chunks[index];
      if (chunk !== undefined) yield chunk;
      else if (this.#end === "complete") return;
      else throw this.#end;
    }
  }

  /** All of it in one piece. */
  async whole(): Promise<Buffer> {
    while (this.#end === undefined) await this.#change.promise;
    if (this.#end !== "complete") throw this.#end;
    return this.#chunks.length === 1 && this.#chunks[0] ? this.#chunks[0] : Buffer.concat(this.#chunks, this.#bytes);
  }

  /** The same, once: the pieces that it came in are freed. */
  async takeWhole(): Promise<Buffer> {
    const whole = await this.whole();
    for (const chunk of this.#chunks.splice(0)) if (chunk !== whole) freeBuffer(chunk);
    return whole;
  }

  #take(chunk: Buffer): void {
    if (this.#end !== undefined) return;
    try {
      this.#admit(this.#bytes + chunk.length);
      this.#bytes += chunk.length;
      this.#keep(chunk);
      this.#wake();
    } catch (error) {
      this.#finish(error as Error);
    }
  }

  #keep(chunk: Buffer): void {
    if (chunk.length < SMALL_PIECE_BYTES) {
      this.#small.push(chunk);
      this.#smallBytes += chunk.length;
      if (this.#smallBytes < MAX_SMALL_PIECES_BYTES) return;
    }
    this.#joinSmall();
    if (chunk.length >= SMALL_PIECE_BYTES) this.#chunks.push(chunk);
  }

  #joinSmall(): void {
    const [first, ...others] = this.#small;
    if (first) this.#chunks.push(others.length === 0 ? first : Buffer.concat(this.#small, this.#smallBytes));
    this.#small = [];
    this.#smallBytes = 0;
  }

  #admit(bytes: number): void {
    if (bytes > this.#maxBytes)
      throw new BodyError("too_large", `a body of more than ${this.#maxBytes} bytes, which is all the backend takes`);
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

type Compressed = Exclude<Compression, "none">;
export type Encoding = "identity" | Compressed;

export function contentEncoding(request: IncomingMessage): Encoding {
  const encoding = (request.headers["content-encoding"] ?? "identity").trim().toLowerCase();
  if (encoding === "identity" || encoding === "gzip" || encoding === "zstd") return encoding;
  throw new BodyError(
    "unsupported_encoding",
    `Content-Encoding ${encoding.slice(0, 40)}: set the exporter's compression to gzip, zstd or none`,
  );
}

/**
 * Smaller bodies are compressed and inflated on the spot, in half a millisecond at most: a thread of libuv's pool, and the stream before
 * it, cost the node several times what the work does. The text of a usual batch of metrics is small.
 */
const SMALL_BYTES = 160 * 1024;
const SMALL_COMPRESSED_BYTES = 32 * 1024;
/** What a small one may become there; a larger one is inflated again, on a thread. */
const SMALL_INFLATED_BYTES = 512 * 1024;

/** Level 1 of gzip: telemetry shrinks tenfold already there, and the node's CPU is not ours. */
const LEVEL = { level: 1 };

const decompressors = { gzip: promisify(gunzip), zstd: promisify(zstdDecompress) };
const smallDecompressors = { gzip: gunzipSync, zstd: zstdDecompressSync };
const compressors = { gzip: promisify(gzip), zstd: promisify(zstdCompress) };

/** Throws BodyError "malformed" or "too_large". */
export async function decompress(body: Buffer, encoding: Encoding, maxBytes: number): Promise<Buffer> {
  if (encoding === "identity") return body;
  try {
    const small = inflatedSmall(body, encoding, Math.min(maxBytes, SMALL_INFLATED_BYTES));
    return small ?? (await decompressors[encoding](body, { maxOutputLength: maxBytes }));
  } catch (cause) {
    if (isTooLarge(cause)) throw new BodyError("too_large", `a body of more than ${maxBytes} bytes once decompressed`, { cause });
    throw new BodyError("malformed", `a body that is not ${encoding}`, { cause });
  }
}

/** Undefined where the body is not small, or would not be. */
function inflatedSmall(body: Buffer, encoding: Compressed, maxBytes: number): Buffer | undefined {
  if (body.length > SMALL_COMPRESSED_BYTES) return undefined;
  try {
    return smallDecompressors[encoding](body, { maxOutputLength: maxBytes, chunkSize: 64 * 1024 });
  } catch (error) {
    if (isTooLarge(error)) return undefined;
    throw error;
  }
}

function isTooLarge(error: unknown): boolean {
  return (error as { code?: string }).code === "ERR_BUFFER_TOO_LARGE";
}

export async function compress(body: Uint8Array, compression: Compressed): Promise<Uint8Array> {
  if (body.length <= SMALL_BYTES) return compression === "gzip" ? gzipSync(body, LEVEL) : zstdCompressSync(body);
  return compression === "gzip" ? compressors.gzip(body, LEVEL) : compressors.zstd(body);
}
