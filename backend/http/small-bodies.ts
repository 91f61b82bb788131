// Reads the bodies of all routes but ingest into memory, which they share. Invariant: what is held, and what JSON may become when it
// is parsed, never exceeds the budget. Strangers have a quarter of it together, so that they take nothing from organisations; of each
// part, one organisation or address never takes more than it leaves to others. A body that comes slower than its pace is given up, and
// so is one whose sender has gone.
import type { IncomingMessage } from "node:http";
import type { FastifyRequest } from "fastify";
import { networkOf } from "./client-network.ts";
import { orgOf } from "../auth/request-identity.ts";
import { ApiError } from "../errors.ts";
import { ByteBudget, type Reservation } from "../admission/byte-budget.ts";

/** Of one body; the largest that is meant is a rule with its annotations. */
export const SMALL_BODY_BYTES = 256 * 1024;
const BUDGET_BYTES = 64 * 1024 * 1024;
/** `[[],[],…` becomes some 13 bytes for each of its own, `[{},{},…` some 21. */
const PARSED_FACTOR = 16;
const FIRST_BLOCK_BYTES = 1024;
const STRANGERS_SHARE = 1 / 4;

export interface SmallBodyPace {
  /** A body may take this long whatever its speed. */
  readonly graceMs: number;
  /** After that, the average since its start must not be less. */
  readonly leastBytesPerSecond: number;
}

const DEFAULT_PACE: SmallBodyPace = { graceMs: 10_000, leastBytesPerSecond: 16 * 1024 };

export class SmallBodies {
  readonly #orgs: ByteBudget;
  readonly #strangers: ByteBudget;
  readonly #pace: SmallBodyPace;
  readonly #held = new WeakMap<FastifyRequest, Reservation>();

  constructor({ budgetBytes = BUDGET_BYTES, pace = DEFAULT_PACE } = {}) {
    const shareOf = (part: number) => new ByteBudget(budgetBytes * part, SMALL_BODY_BYTES * PARSED_FACTOR, { leavesRoom: true });
    this.#orgs = shareOf(1 - STRANGERS_SHARE);
    this.#strangers = shareOf(STRANGERS_SHARE);
    this.#pace = pace;
  }

  get heldBytes(): number {
    return this.#orgs.heldBytes + this.#strangers.heldBytes;
  }

  /**
   * The body of this request, at most `mostBytes`; its part of the budget is held until `release`. Throws ApiError: `body_too_large`,
   * `malformed_body` (cut off), `request_timeout` (too slow), `unavailable` (budget). What is unread then stays unread.
   */
  async read(request: FastifyRequest, mostBytes = SMALL_BODY_BYTES): Promise<Buffer> {
    const { raw } = request;
    if (Number(raw.headers["content-length"] ?? 0) > mostBytes) throw tooLarge(mostBytes);
    const orgId = orgOf(request);
    const reservation = orgId === undefined ? this.#strangers.open(networkOf(request.ip)) : this.#orgs.open(orgId);
    this.#held.set(request, reservation);
    const body = await collected(raw, mostBytes, reservation, this.#pace);
    reservation.add(body.length * (PARSED_FACTOR - 1));
    return body;
  }

  /** Nothing refers to the body any more, nor to what it was parsed to; or the request is over. */
  release(request: FastifyRequest): void {
    this.#held.get(request)?.[Symbol.dispose]();
    this.#held.delete(request);
  }
}

/** Into one growing buffer: a chunk of its own for each byte that comes alone would cost a hundred times as much. */
async function collected(raw: IncomingMessage, mostBytes: number, reservation: Reservation, pace: SmallBodyPace): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let bytes = Buffer.alloc(0);
  let length = 0;
  const keep = (chunk: Buffer): void => {
    try {
      const needed = length + chunk.length;
      if (needed > mostBytes) throw tooLarge(mostBytes);
      if (needed > bytes.length) {
        const grown = Math.min(mostBytes, Math.max(needed, 2 * bytes.length, FIRST_BLOCK_BYTES));
        reservation.add(grown - bytes.length);
        bytes = Buffer.concat([bytes.subarray(0, length)], grown);
      }
      chunk.copy(bytes, length);
      length = needed;
    } catch (error) {
      reject(error);
    }
  };
  const cutOff = (): void => {
    if (!raw.readableEnded) reject(new ApiError("malformed_body", "the body was cut off before its end"));
  };
  const startedAt = Date.now();
  const watch = setInterval(
    () => {
      const elapsedMs = Date.now() - startedAt;
      if (elapsedMs >= pace.graceMs && (length * 1000) / elapsedMs < pace.leastBytesPerSecond) reject(tooSlow(pace));
    },
    Math.max(20, pace.graceMs / 5),
  );
  raw.on("data", keep).once("end", resolve).once("error", cutOff).once("close", cutOff);
  try {
    await promise;
    return bytes.subarray(0, length);
  } finally {
    clearInterval(watch);
    raw.off("data", keep).off("end", resolve).off("close", cutOff);
    if (!raw.readableEnded) raw.pause();
  }
}

function tooLarge(mostBytes: number): ApiError {
  return new ApiError("body_too_large", `the body exceeds ${mostBytes} bytes`);
}

function tooSlow({ leastBytesPerSecond }: SmallBodyPace): ApiError {
  return new ApiError("request_timeout", `the body arrives slower than ${leastBytesPerSecond} bytes a second`);
}
