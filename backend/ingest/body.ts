// Reads the body of an ingest request from the raw request and decompresses it on the fly, within limits for size, memory and minimum
// speed. Invariant: it never holds more than the budget has granted, whatever chunk sizes, compression ratio or speed the sender chooses;
// only a small compressed body is charged after it is decompressed.
import type { Readable } from "node:stream";
import { type Coding, Decoder, decodeSmall, parseCoding } from "../../common/content-coding/decoder.ts";
import { freeBuffer } from "../../common/http.ts";
import { BodyError } from "../../common/otlp-metrics/document.ts";
import { ApiError } from "../errors.ts";
import type { Reservation } from "../admission/byte-budget.ts";
import { MAX_BODY_BYTES } from "./ingest-limits.ts";

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
/** A compressed body of up to 32 KiB that decompresses to at most 256 KiB is decompressed synchronously. */
const SMALL_COMPRESSED_BYTES = 32 * 1024;
const SMALL_INFLATED_BYTES = 256 * 1024;

export interface Incoming {
  /** A request, or an HTTP/2 stream. */
  readonly request: Readable;
  /** Its Content-Length; 0 if undeclared. */
  readonly declaredBytes: number;
  /** Its Content-Encoding. */
  readonly encoding: string | undefined;
  /** The error if more than `declaredBytes` arrive, which HTTP/1.1 never delivers. */
  readonly tooMany?: ApiError;
}

/**
 * Returns the decompressed body; empty if nothing was sent. Throws ApiError: `body_too_large`, `unsupported_encoding`, `malformed_body`
 * (broken compression, cut off), `unavailable` (budget, too slow). After a failure the request is paused and the rest of its body is
 * unread, so that a response can still be sent.
 */
export function readBody(incoming: Incoming, reservation: Reservation, pace: BodyPace = DEFAULT_PACE): Buffer | Promise<Buffer> {
  const { request, declaredBytes, encoding } = incoming;
  if (declaredBytes > MAX_BODY_BYTES) throw tooLarge();
  const coding = asApiError(() => parseCoding(encoding));
  // A small body has arrived together with its headers.
  const hasArrived = declaredBytes > 0 && request.readableLength === declaredBytes;
  if (coding) {
    const small = hasArrived && declaredBytes <= SMALL_COMPRESSED_BYTES ? readSmallCompressed(request, coding, reservation) : undefined;
    return small ?? readStream(incoming, new Decoder(coding), new GrowingBuffer(reservation, undefined), pace);
  }
  if (hasArrived) {
    reservation.add(declaredBytes);
    return request.read() as Buffer;
  }
  return readStream(incoming, undefined, new GrowingBuffer(reservation, declaredBytes), pace);
}

/**
 * Undefined if the body is too large once decompressed; then it is put back unread. Its size is known only afterwards, so one body may
 * exceed the budget until then.
 */
function readSmallCompressed(request: Readable, coding: Coding, reservation: Reservation): Buffer | undefined {
  const compressed = request.read() as Buffer;
  const body = asApiError(() => decodeSmall(compressed, coding, SMALL_INFLATED_BYTES));
  if (body) reservation.add(body.length);
  else request.unshift(compressed);
  return body;
}

async function readStream(incoming: Incoming, decoder: Decoder | undefined, body: GrowingBuffer, pace: BodyPace): Promise<Buffer> {
  const { request, declaredBytes, tooMany } = incoming;
  const decoded = decoder ?? request;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let receivedBytes = 0;
  const count = (chunk: Buffer): void => {
    receivedBytes += chunk.length;
    body.reservation.movedBytes = receivedBytes;
    if (receivedBytes > MAX_BODY_BYTES) reject(tooLarge());
    else if (tooMany && receivedBytes > declaredBytes) reject(tooMany);
  };
  const append = (chunk: Buffer): void => {
    try {
      body.add(chunk);
      if (!decoder) freeBuffer(chunk);
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
  decoder?.once("error", (cause) => reject(toApiError(cause)));
  if (decoder) request.pipe(decoder);
  body.reservation.beginTransfer(() => reject(takenBack()));
  const stopWatching = watchPace(() => receivedBytes, pace, reject);
  try {
    await promise;
    if (declaredBytes > 0 && receivedBytes !== declaredBytes) throw wrongLength(receivedBytes, declaredBytes);
    return body.take();
  } catch (error) {
    body.discard();
    throw error;
  } finally {
    body.reservation.takeBack = undefined;
    stopWatching();
    request.off("data", count).off("data", append).off("close", cutOff).unpipe();
    if (!request.readableEnded) request.pause();
    decoder?.off("data", append).destroy();
  }
}

function asApiError<T>(decode: () => T): T {
  try {
    return decode();
  } catch (cause) {
    throw toApiError(cause);
  }
}

/** A gRPC call may end within its message. */
function wrongLength(received: number, declared: number): ApiError {
  return new ApiError("malformed_body", `the body has ${received} bytes, but ${declared} were announced`);
}

function toApiError(cause: unknown): unknown {
  if (!(cause instanceof BodyError)) return cause;
  return new ApiError(cause.kind === "unsupported_encoding" ? "unsupported_encoding" : "malformed_body", cause.message, { cause });
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
