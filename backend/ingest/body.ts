// Reads the body of an ingest request from the raw request and decompresses it on the fly, within limits for size, memory and minimum
// speed. Invariant: it never holds more than the budget has granted, whatever chunk sizes, compression ratio or speed the sender chooses;
// only a small compressed body is charged after it is decompressed.
import type { Readable } from "node:stream";
import { constants, createGunzip, createZstdDecompress, gunzipSync, zstdDecompressSync } from "node:zlib";
import { ApiError } from "../errors.ts";
import { freeBuffer } from "../../common/http.ts";
import type { Reservation } from "../admission/byte-budget.ts";
import { MAX_BODY_BYTES } from "./limits.ts";

export interface BodyPace {
  /** During this time a body may arrive at any speed. */
  readonly graceMs: number;
  /** After that, the average speed since the start must be at least this. */
  readonly minBytesPerSecond: number;
}

export const DEFAULT_PACE: BodyPace = { graceMs: 15_000, minBytesPerSecond: 16 * 1024 };

/** About what one read of a socket returns. */
const FIRST_BLOCK_BYTES = 64 * 1024;
/** The memory of a body is at most twice what has arrived, whatever length its sender declares. */
const GROWTH = 2;
const DECOMPRESSOR_CHUNK_BYTES = 128 * 1024;
/** Windows up to 8 MiB, which RFC 8878 recommends that every decoder supports. */
const ZSTD_OPTIONS = { params: { [constants.ZSTD_d_windowLogMax]: 23 } };
/**
 * A compressed body of up to 32 KiB that decompresses to at most 256 KiB is decompressed synchronously, in a quarter of a millisecond:
 * streams and a thread of libuv's pool would cost several times that.
 */
const SMALL_COMPRESSED_BYTES = 32 * 1024;
const SMALL_INFLATED_BYTES = 256 * 1024;
const SMALL_CHUNK_BYTES = 64 * 1024;

/** A body to read. */
export interface Incoming {
  /** A request, or an HTTP/2 stream. */
  readonly request: Readable;
  /** Its Content-Length; 0 if undeclared. */
  readonly declaredBytes: number;
  /** Its Content-Encoding. */
  readonly encoding: string | undefined;
}

/**
 * Returns the decompressed body; empty if nothing was sent. Throws ApiError: `body_too_large`, `unsupported_encoding`, `malformed_body`
 * (broken compression, cut off), `unavailable` (budget, too slow). After a failure the request is paused and the rest of its body is
 * unread, so that a response can still be sent.
 */
export function readBody(incoming: Incoming, reservation: Reservation, pace: BodyPace = DEFAULT_PACE): Buffer | Promise<Buffer> {
  const { request, declaredBytes, encoding } = incoming;
  if (declaredBytes > MAX_BODY_BYTES) throw tooLarge();
  const compression = compressionOf(encoding);
  // A small body has arrived together with its headers.
  const hasArrived = declaredBytes > 0 && request.readableLength === declaredBytes;
  if (compression) {
    const small =
      hasArrived && declaredBytes <= SMALL_COMPRESSED_BYTES ? readSmallCompressed(request, compression, reservation) : undefined;
    return small ?? readStream(request, decompressorFor(compression), new GrowingBuffer(reservation, undefined), pace);
  }
  if (hasArrived) {
    reservation.add(declaredBytes);
    return request.read() as Buffer;
  }
  return readStream(request, undefined, new GrowingBuffer(reservation, declaredBytes), pace);
}

/**
 * Undefined if the body is too large once decompressed; then it is put back unread. Its size is known only afterwards, so one body may
 * exceed the budget until then.
 */
function readSmallCompressed(request: Readable, compression: Compression, reservation: Reservation): Buffer | undefined {
  const compressed = request.read() as Buffer;
  try {
    const body = decompressNow(compressed, compression);
    reservation.add(body.length);
    return body;
  } catch (cause) {
    if (cause instanceof ApiError) throw cause;
    if ((cause as { code?: string }).code !== "ERR_BUFFER_TOO_LARGE") throw badCompression(cause);
    request.unshift(compressed);
    return undefined;
  }
}

/** The result has its own buffer. */
function decompressNow(compressed: Buffer, compression: Compression): Buffer {
  const bounds = { maxOutputLength: SMALL_INFLATED_BYTES, chunkSize: SMALL_CHUNK_BYTES };
  const inflated = compression === "gzip" ? gunzipSync(compressed, bounds) : zstdDecompressSync(compressed, { ...ZSTD_OPTIONS, ...bounds });
  if (inflated.length === inflated.buffer.byteLength) return inflated;
  const body = Buffer.from(new Uint8Array(inflated).buffer);
  if (inflated.buffer.byteLength === SMALL_CHUNK_BYTES) freeBuffer(new Uint8Array(inflated.buffer));
  return body;
}

async function readStream(request: Readable, decompressor: Decompressor | undefined, body: GrowingBuffer, pace: BodyPace): Promise<Buffer> {
  const decoded = decompressor ?? request;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let receivedBytes = 0;
  const count = (chunk: Buffer): void => {
    receivedBytes += chunk.length;
    body.reservation.movedBytes = receivedBytes;
    if (receivedBytes > MAX_BODY_BYTES) reject(tooLarge());
  };
  const append = (chunk: Buffer): void => {
    try {
      body.add(chunk);
      if (!decompressor) freeBuffer(chunk);
    } catch (error) {
      decoded.off("data", append);
      reject(error);
    }
  };
  const cutOff = (): void => {
    if (!request.readableEnded) reject(new ApiError("malformed_body", "the body was cut off before its end"));
  };
  request.on("data", count).once("error", cutOff).once("close", cutOff);
  decoded.on("data", append).once("end", resolve);
  decompressor?.once("error", (cause) => {
    if (receivedBytes === 0) resolve();
    else reject(badCompression(cause));
  });
  if (decompressor) request.pipe(decompressor);
  body.reservation.beginTransfer(() => reject(takenBack()));
  const stopWatching = watchPace(() => receivedBytes, pace, reject);
  try {
    await promise;
    return body.take();
  } catch (error) {
    body.discard();
    throw error;
  } finally {
    body.reservation.takeBack = undefined;
    stopWatching();
    request.off("data", count).off("data", append).off("close", cutOff).unpipe();
    if (!request.readableEnded) request.pause();
    decompressor?.off("data", append).destroy();
  }
}

type Compression = "gzip" | "zstd";
type Decompressor = ReturnType<typeof createGunzip>;

function compressionOf(encoding: string | undefined): Compression | undefined {
  switch (encoding?.trim().toLowerCase() ?? "") {
    case "":
    case "identity":
      return undefined;
    case "gzip":
    case "x-gzip":
      return "gzip";
    case "zstd":
      return "zstd";
    default:
      throw new ApiError("unsupported_encoding", "Content-Encoding must be gzip, zstd or absent");
  }
}

function decompressorFor(compression: Compression): Decompressor {
  const chunkSize = DECOMPRESSOR_CHUNK_BYTES;
  return compression === "gzip" ? createGunzip({ chunkSize }) : createZstdDecompress({ ...ZSTD_OPTIONS, chunkSize });
}

function badCompression(cause: unknown): ApiError {
  return new ApiError("malformed_body", "the body cannot be decompressed as its Content-Encoding says", { cause });
}

/**
 * Collects chunks in one growing buffer, so that small chunks cost no more than their bytes. Outgrown memory is freed immediately
 * (`transfer` detaches it), not when the garbage collector runs: under many large bodies that would be hundreds of megabytes.
 */
class GrowingBuffer {
  readonly reservation: Reservation;
  readonly #expectedBytes: number | undefined;
  #bytes = new Uint8Array(0);
  #length = 0;

  /** `expectedBytes`: the length that the sender declared. It limits the growth but is not allocated in advance. */
  constructor(reservation: Reservation, expectedBytes: number | undefined) {
    this.reservation = reservation;
    this.#expectedBytes = expectedBytes || undefined;
  }

  add(chunk: Buffer): void {
    const length = this.#length + chunk.length;
    if (length > MAX_BODY_BYTES) throw tooLarge();
    if (length > this.#bytes.length) this.#grow(length);
    this.#bytes.set(chunk, this.#length);
    this.#length = length;
  }

  /** The collected bytes in their own buffer, which can be transferred to another thread. */
  take(): Buffer {
    this.reservation.add(this.#length - this.#bytes.length);
    const exact = this.#length === this.#bytes.length ? this.#bytes.buffer : this.#bytes.buffer.transfer(this.#length);
    return Buffer.from(exact);
  }

  /** Frees the memory immediately; nothing may refer to it. */
  discard(): void {
    freeBuffer(this.#bytes);
    this.#bytes = new Uint8Array(0);
    this.#length = 0;
  }

  #grow(minBytes: number): void {
    const before = this.#bytes.length;
    const wanted = Math.max(minBytes, before * GROWTH, FIRST_BLOCK_BYTES);
    const size = Math.min(wanted, Math.max(minBytes, this.#expectedBytes ?? MAX_BODY_BYTES));
    this.reservation.add(size);
    const grown = new Uint8Array(Buffer.allocUnsafeSlow(size).buffer);
    grown.set(this.#bytes);
    freeBuffer(this.#bytes);
    this.#bytes = grown;
    this.reservation.add(-before);
  }
}

/** Calls `reject` once the body is slower than its pace. Returns a function that stops the check. */
function watchPace(receivedBytes: () => number, pace: BodyPace, reject: (error: ApiError) => void): () => void {
  const startedAt = Date.now();
  const timer = setInterval(
    () => {
      const elapsedMs = Date.now() - startedAt;
      if (elapsedMs < pace.graceMs || (receivedBytes() * 1000) / elapsedMs >= pace.minBytesPerSecond) return;
      reject(
        new ApiError("unavailable", `the body arrives more slowly than ${pace.minBytesPerSecond} bytes per second`, { retryAfterS: 1 }),
      );
    },
    Math.max(20, pace.graceMs / 4),
  );
  return () => clearInterval(timer);
}

function takenBack(): ApiError {
  const message = "this organisation's bodies arrive slowly and use most of the memory for bodies, which another one needs; send it again";
  return new ApiError("over_quota", message, { retryAfterS: 5 });
}

function tooLarge(): ApiError {
  return new ApiError("body_too_large", "the body exceeds 32 MiB, compressed or decompressed: send it in parts");
}
