// Limits the memory of large responses that clients have not read yet. Invariant: unread bytes are limited per organisation and in total,
// and a client that stops reading is disconnected, so slow readers cannot exhaust the memory.
import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import { ApiError } from "../errors.ts";
import { MAX_HELD_RESPONSE_BYTES, MAX_HELD_RESPONSE_BYTES_PER_ORG, MAX_RESPONSE_STALL_MS } from "./limits.ts";

export interface ResponseBudgetOptions {
  /** Unread bytes of one organisation; above this, its new queries are refused. */
  readonly perOrgBytes?: number;
  /** Unread bytes in total. */
  readonly bytes?: number;
  /** A client that does not read the next chunk within this time is disconnected. */
  readonly stallMs?: number;
}

const CHUNK_BYTES = 256 * 1024;
const RETRY_AFTER_S = 5;

export class ResponseBudget {
  readonly #heldByOrg = new Map<string, number>();
  readonly #perOrgBytes: number;
  readonly #bytes: number;
  readonly #stallMs: number;
  #heldBytes = 0;

  constructor({
    perOrgBytes = MAX_HELD_RESPONSE_BYTES_PER_ORG,
    bytes = MAX_HELD_RESPONSE_BYTES,
    stallMs = MAX_RESPONSE_STALL_MS,
  }: ResponseBudgetOptions = {}) {
    this.#perOrgBytes = perOrgBytes;
    this.#bytes = bytes;
    this.#stallMs = stallMs;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** Throws ApiError too_many_queries or unavailable while too many bytes are unread. Call right before the query runs. */
  admit(orgId: string): void {
    if ((this.#heldByOrg.get(orgId) ?? 0) >= this.#perOrgBytes) {
      const message = "clients of this organisation have not read the responses of earlier queries; read those first";
      throw new ApiError("too_many_queries", message, { retryAfterS: RETRY_AFTER_S });
    }
    if (this.#heldBytes >= this.#bytes) throw new ApiError("unavailable", "too many responses are unread", { retryAfterS: RETRY_AFTER_S });
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
    this.#count(orgId, bytes);
    let stalled: NodeJS.Timeout | undefined;
    const onRead = () => {
      clearTimeout(stalled);
      stalled = setTimeout(() => reply.raw.destroy(), this.#stallMs);
    };
    reply.raw.once("close", () => {
      clearTimeout(stalled);
      this.#count(orgId, -bytes);
    });
    void reply.header("content-length", bytes);
    return Readable.from(chunksOf(buffers, onRead), { highWaterMark: 1 });
  }

  #count(orgId: string, bytes: number): void {
    this.#heldBytes += bytes;
    const ofOrg = (this.#heldByOrg.get(orgId) ?? 0) + bytes;
    if (ofOrg === 0) this.#heldByOrg.delete(orgId);
    else this.#heldByOrg.set(orgId, ofOrg);
  }
}

/** The stream requests the next chunk when the connection can accept it. */
function* chunksOf(buffers: readonly Buffer[], onRead: () => void): Generator<Buffer> {
  for (const buffer of buffers) {
    for (let from = 0; from < buffer.length; from += CHUNK_BYTES) {
      onRead();
      yield buffer.subarray(from, from + CHUNK_BYTES);
    }
  }
}
