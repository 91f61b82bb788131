// Reads the request bodies of all routes except ingest within a shared memory budget, and discards the rest of a body after an early response.
// Invariants: buffered bodies, and the estimated size of their parsed JSON, never exceed the budget; unauthenticated clients share a
// quarter of it; each part is shared by the rule of admission/share.ts. A body below the minimum speed is refused, a slow one also when
// another organisation or network needs its memory, and reading stops when its client disconnects. A client that is still sending sees the early response instead of a connection
// reset, and is disconnected if its body does not end in time; discarded bodies are limited in the same way.
import type { IncomingMessage } from "node:http";
import type { FastifyRequest } from "fastify";
import { networkOf } from "./http-client.ts";
import { orgOf } from "./request-identity.ts";
import { ApiError } from "../errors.ts";
import { ByteBudget, type Reservation } from "../admission/byte-budget.ts";
import { mayTake } from "../admission/share.ts";
import { Socket } from "node:net";
import { MAX_DRAINED_BYTES, MAX_DRAINING_BODIES, MAX_DRAINING_UNAUTHENTICATED } from "./http-limits.ts";
import { closeUnread } from "./turns.ts";

/** Limit for one body; the largest legitimate one is a rule with its annotations. */
export const SMALL_BODY_BYTES = 256 * 1024;
const BUDGET_BYTES = 64 * 1024 * 1024;
/** Parsing turns each byte of `[[],[],…` into about 13 bytes, of `[{},{},…` into about 21. */
const PARSED_FACTOR = 16;
const FIRST_BLOCK_BYTES = 1024;
const UNAUTHENTICATED_SHARE = 1 / 4;

export interface SmallBodyPace {
  /** The speed is not checked before this time. */
  readonly graceMs: number;
  /** Minimum of the average speed since the body started. */
  readonly minBytesPerSecond: number;
}

const DEFAULT_PACE: SmallBodyPace = { graceMs: 10_000, minBytesPerSecond: 16 * 1024 };

export class SmallBodies {
  readonly #orgs: ByteBudget;
  readonly #unauthenticated: ByteBudget;
  readonly #pace: SmallBodyPace;
  readonly #reservations = new WeakMap<FastifyRequest, Reservation>();

  constructor({ budgetBytes = BUDGET_BYTES, pace = DEFAULT_PACE } = {}) {
    const budgetOf = (share: number) => new ByteBudget(budgetBytes * share);
    this.#orgs = budgetOf(1 - UNAUTHENTICATED_SHARE);
    this.#unauthenticated = budgetOf(UNAUTHENTICATED_SHARE);
    this.#pace = pace;
  }

  get heldBytes(): number {
    return this.#orgs.heldBytes + this.#unauthenticated.heldBytes;
  }

  /**
   * Reads the body of this request, at most `maxBytes`. Its memory is reserved until `release`. Throws ApiError `body_too_large`,
   * `malformed_body` (incomplete), `request_timeout` (too slow) or `unavailable` (budget), and leaves the rest of the body unread.
   */
  async read(request: FastifyRequest, maxBytes = SMALL_BODY_BYTES): Promise<Buffer> {
    const { raw } = request;
    if (Number(raw.headers["content-length"] ?? 0) > maxBytes) throw tooLarge(maxBytes);
    const orgId = orgOf(request);
    const reservation = orgId === undefined ? this.#unauthenticated.open(networkOf(request.ip)) : this.#orgs.open(orgId);
    this.#reservations.set(request, reservation);
    const body = await readAll(raw, maxBytes, reservation, this.#pace);
    reservation.add(body.length * (PARSED_FACTOR - 1));
    return body;
  }

  /** Call when the body and its parsed form are no longer referenced, or the request has ended. */
  release(request: FastifyRequest): void {
    this.#reservations.get(request)?.[Symbol.dispose]();
    this.#reservations.delete(request);
  }
}

/** Appends to one growing buffer: a separate chunk for each byte that arrives alone would cost a hundred times as much. */
async function readAll(raw: IncomingMessage, maxBytes: number, reservation: Reservation, pace: SmallBodyPace): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let bytes = Buffer.alloc(0);
  let length = 0;
  const append = (chunk: Buffer): void => {
    try {
      const needed = length + chunk.length;
      if (needed > maxBytes) throw tooLarge(maxBytes);
      if (needed > bytes.length) {
        const grown = Math.min(maxBytes, Math.max(needed, 2 * bytes.length, FIRST_BLOCK_BYTES));
        reservation.add(grown - bytes.length);
        bytes = Buffer.concat([bytes.subarray(0, length)], grown);
      }
      chunk.copy(bytes, length);
      length = needed;
      reservation.movedBytes = length;
    } catch (error) {
      reject(error);
    }
  };
  const onEnd = (): void => {
    if (!raw.readableEnded) reject(new ApiError("malformed_body", "the body is incomplete"));
  };
  const startedAt = Date.now();
  const speedCheck = setInterval(
    () => {
      const elapsedMs = Date.now() - startedAt;
      if (elapsedMs >= pace.graceMs && (length * 1000) / elapsedMs < pace.minBytesPerSecond) reject(tooSlow(pace));
    },
    Math.max(20, pace.graceMs / 5),
  );
  reservation.beginTransfer(() =>
    reject(new ApiError("request_timeout", "the body arrives slowly, and others need its memory; send it again")),
  );
  raw.on("data", append).once("end", resolve).once("error", onEnd).once("close", onEnd);
  try {
    await promise;
    return bytes.subarray(0, length);
  } finally {
    reservation.takeBack = undefined;
    clearInterval(speedCheck);
    raw.off("data", append).off("end", resolve).off("close", onEnd);
    if (!raw.readableEnded) raw.pause();
  }
}

function tooLarge(maxBytes: number): ApiError {
  return new ApiError("body_too_large", `the body exceeds ${maxBytes} bytes`);
}

function tooSlow({ minBytesPerSecond }: SmallBodyPace): ApiError {
  return new ApiError("request_timeout", `the body arrives more slowly than ${minBytesPerSecond} bytes per second`);
}

const DRAIN_MS = 5000;
const UNAUTHENTICATED = "";

const drainingByOrg = new Map<string, number>();
let draining = 0;

/** Whether a body is, or can become, too long to be discarded to its end. `declaredBytes`: if its headers are hidden. */
export function isLongBody({ headers }: IncomingMessage, declaredBytes = 0): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? declaredBytes) > MAX_DRAINED_BYTES;
}

/** Call after the response. `orgId`: the authenticated organisation, if there is one. */
export function drainBody(request: IncomingMessage, orgId = UNAUTHENTICATED, ms = DRAIN_MS): void {
  const { socket } = request;
  // A request that was injected within this process has no real socket.
  if (!(socket instanceof Socket)) return;
  // The response said that the connection closes (app.ts).
  const isLast = Object.hasOwn(socket, "destroySoon");
  if (isLast && request.complete) return closeUnread(socket);
  if (request.complete || request.destroyed) return;
  if (!mayDrain(orgId)) return closeUnread(socket);
  count(orgId, 1);
  let left = MAX_DRAINED_BYTES;
  const discard = ({ length }: Buffer): void => {
    left -= length;
    if (left < 0) stop();
  };
  const stop = (): void => {
    clearTimeout(timer);
    request.off("data", discard).off("end", stop).off("error", stop).off("close", stop);
    count(orgId, -1);
    if (isLast || !request.complete) closeUnread(socket);
  };
  const timer = setTimeout(stop, ms);
  request.on("data", discard).once("end", stop).once("error", stop).once("close", stop);
  request.resume();
}

function mayDrain(orgId: string): boolean {
  const own = drainingByOrg.get(orgId) ?? 0;
  const share = { limit: MAX_DRAINING_BODIES, used: draining, own };
  return mayTake(1, share) && (orgId !== UNAUTHENTICATED || own < MAX_DRAINING_UNAUTHENTICATED);
}

function count(orgId: string, change: 1 | -1): void {
  draining += change;
  const orgCount = (drainingByOrg.get(orgId) ?? 0) + change;
  if (orgCount === 0) drainingByOrg.delete(orgId);
  else drainingByOrg.set(orgId, orgCount);
}
