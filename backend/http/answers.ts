// Large answers on their way to clients. Invariant: the bytes that wait for clients to take them are bounded for each organisation and in
// all, and a client that stops taking them is cut off, so that nobody's slow readers fill the memory.
import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import { ApiError } from "../errors.ts";

export interface AnswersOptions {
  /** Held for one organisation; a new query is refused while there is more. */
  readonly perOrgBytes?: number;
  /** Held in all. */
  readonly bytes?: number;
  /** A client that does not take a piece within this is cut off. */
  readonly stallMs?: number;
}

const MIB = 1024 * 1024;
const PIECE_BYTES = 256 * 1024;
const RETRY_AFTER_S = 5;

export class Answers {
  readonly #held = new Map<string, number>();
  readonly #perOrgBytes: number;
  readonly #bytes: number;
  readonly #stallMs: number;
  #all = 0;

  constructor({ perOrgBytes = 64 * MIB, bytes = 256 * MIB, stallMs = 30_000 }: AnswersOptions = {}) {
    this.#perOrgBytes = perOrgBytes;
    this.#bytes = bytes;
    this.#stallMs = stallMs;
  }

  get heldBytes(): number {
    return this.#all;
  }

  /** Throws ApiError too_many_queries or unavailable while too much waits to be taken. To be asked when it is a query's turn. */
  admit(orgId: string): void {
    if ((this.#held.get(orgId) ?? 0) >= this.#perOrgBytes) {
      const message = "this organisation's clients have not taken the answers of earlier queries; read those first";
      throw new ApiError("too_many_queries", message, { retryAfterS: RETRY_AFTER_S });
    }
    if (this.#all >= this.#bytes) throw new ApiError("unavailable", "too many answers wait to be taken", { retryAfterS: RETRY_AFTER_S });
  }

  /** Sends `pieces` one after another; they count until the client has all of them or is gone. */
  send(orgId: string, reply: FastifyReply, pieces: readonly Buffer[]): FastifyReply {
    // Nobody is there any more, and nothing would tell that they have gone.
    if (reply.raw.closed) return reply.code(499).send();
    return reply.send(this.stream(orgId, reply, pieces));
  }

  /** The same as a payload. */
  stream(orgId: string, reply: FastifyReply, pieces: readonly Buffer[]): Readable {
    const bytes = pieces.reduce((sum, { length }) => sum + length, 0);
    this.#count(orgId, bytes);
    let stalled: NodeJS.Timeout | undefined;
    const taken = () => {
      clearTimeout(stalled);
      stalled = setTimeout(() => reply.raw.destroy(), this.#stallMs);
    };
    reply.raw.once("close", () => {
      clearTimeout(stalled);
      this.#count(orgId, -bytes);
    });
    void reply.header("content-length", bytes);
    return Readable.from(cut(pieces, taken), { highWaterMark: 1 });
  }

  #count(orgId: string, bytes: number): void {
    this.#all += bytes;
    const held = (this.#held.get(orgId) ?? 0) + bytes;
    if (held === 0) this.#held.delete(orgId);
    else this.#held.set(orgId, held);
  }
}

/** The next piece is asked for when the connection has room again. */
function* cut(pieces: readonly Buffer[], taken: () => void): Generator<Buffer> {
  for (const piece of pieces) {
    for (let from = 0; from < piece.length; from += PIECE_BYTES) {
      taken();
      yield piece.subarray(from, from + PIECE_BYTES);
    }
  }
}
