// Limits the memory of large responses that clients have not read yet. Invariants: the memory of a response is reserved before its query
// runs; a client that reads too slowly is disconnected, and the slowest client of the organisation with the most unread bytes also when
// another organisation needs the memory, so slow readers neither exhaust the memory nor stop the queries of others.
import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import { ByteBudget, type Reservation } from "../admission/byte-budget.ts";
import { ApiError } from "../errors.ts";
import { MAX_HELD_RESPONSE_BYTES, MAX_RESPONSE_STALL_MS, MIN_RESPONSE_BYTES_PER_SECOND, RESERVED_RESPONSE_BYTES } from "./http-limits.ts";

export interface ResponseBudgetOptions {
  /** Unread bytes in total, and of running queries. */
  readonly bytes?: number;
  /** A client that does not read the next chunk within this time is disconnected. After it, the minimum speed applies. */
  readonly stallMs?: number;
}

const CHUNK_BYTES = 256 * 1024;
const RETRY_AFTER_S = 5;

export class ResponseBudget {
  readonly #budget: ByteBudget;
  readonly #reserved = new WeakMap<FastifyReply["raw"], Reservation>();
  readonly #stallMs: number;

  constructor({ bytes = MAX_HELD_RESPONSE_BYTES, stallMs = MAX_RESPONSE_STALL_MS }: ResponseBudgetOptions = {}) {
    this.#budget = new ByteBudget(bytes);
    this.#stallMs = stallMs;
  }

  get heldBytes(): number {
    return this.#budget.heldBytes;
  }

  /**
   * Reserves memory for the response. Throws ApiError too_many_queries or unavailable while too many bytes are unread. Call right before
   * the query runs. Without `reply`, it only checks that the organisation may use more.
   */
  admit(orgId: string, reply?: FastifyReply): void {
    if (reply?.raw.closed) return;
    if (reply) return this.#reserve(orgId, this.#reservationOf(orgId, reply), RESERVED_RESPONSE_BYTES);
    using checked = this.#budget.open(orgId);
    this.#reserve(orgId, checked, 1);
  }

  /** Sends `buffers` one after the other. They count as unread until the client has read all of them or has disconnected. */
  send(orgId: string, reply: FastifyReply, buffers: readonly Buffer[]): FastifyReply {
    // The client has disconnected, so no event would release the bytes.
    if (reply.raw.closed) return reply.code(499).send();
    return reply.send(this.stream(orgId, reply, buffers));
  }

  /** Like `send`, but returns the payload. */
  stream(orgId: string, reply: FastifyReply, buffers: readonly Buffer[]): Readable {
    const bytes = buffers.reduce((sum, { length }) => sum + length, 0);
    const reservation = this.#reservationOf(orgId, reply);
    this.#reserve(orgId, reservation, bytes);
    reservation.beginTransfer(() => reply.raw.destroy());
    const beganMs = performance.now();
    let stalled: NodeJS.Timeout | undefined;
    const onRead = (readBytes: number) => {
      reservation.movedBytes = readBytes;
      clearTimeout(stalled);
      const dueMs = beganMs + this.#stallMs + (readBytes * 1000) / MIN_RESPONSE_BYTES_PER_SECOND - performance.now();
      stalled = setTimeout(() => reply.raw.destroy(), Math.max(0, Math.min(this.#stallMs, dueMs)));
    };
    reply.raw.once("close", () => clearTimeout(stalled));
    void reply.header("content-length", bytes);
    return Readable.from(chunksOf(buffers, onRead), { highWaterMark: 1 });
  }

  /** The reservation of this response, which is released when the connection has taken all of it or is closed. */
  #reservationOf(orgId: string, { raw }: FastifyReply): Reservation {
    const known = this.#reserved.get(raw);
    if (known) return known;
    const reservation = this.#budget.open(orgId);
    this.#reserved.set(raw, reservation);
    raw.once("close", () => reservation[Symbol.dispose]());
    return reservation;
  }

  #reserve(orgId: string, reservation: Reservation, bytes: number): void {
    const own = this.#budget.ownBytes(orgId) - reservation.bytes;
    try {
      reservation.add(bytes - reservation.bytes);
    } catch (cause) {
      if (own === 0) throw new ApiError("unavailable", "too many responses are unread", { cause, retryAfterS: RETRY_AFTER_S });
      const message = "clients of this organisation have not read the responses of earlier queries; read those first";
      throw new ApiError("too_many_queries", message, { cause, retryAfterS: RETRY_AFTER_S });
    }
  }
}

/** The stream requests the next chunk when the connection can accept it. */
function* chunksOf(buffers: readonly Buffer[], onRead: (readBytes: number) => void): Generator<Buffer> {
  let readBytes = 0;
  for (const buffer of buffers) {
    for (let from = 0; from < buffer.length; from += CHUNK_BYTES) {
      onRead(readBytes);
      const chunk = buffer.subarray(from, from + CHUNK_BYTES);
      readBytes += chunk.length;
      yield chunk;
    }
  }
}
