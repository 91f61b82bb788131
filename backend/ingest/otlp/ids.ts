// The ids of log records and spans. Invariant: they grow with the time of receipt and across restarts, are unique in a process and, by
// their random start within the millisecond, in all likelihood among replicas. They order records of equal time, and arrivals.
import { randomInt } from "node:crypto";

/** 2020-01-01. */
const EPOCH_MS = 1_577_836_800_000;
/** Milliseconds are the high bits. */
const LOW_BITS = 21n;

/** The first id that a body received then may have. */
export function firstIdAt(receivedAtMs: number): bigint {
  return BigInt(Math.max(0, Math.floor(receivedAtMs) - EPOCH_MS)) << LOW_BITS;
}

/** When a body with this id was received, about. */
export function receivedAtMsOf(id: bigint): number {
  return Number(id >> LOW_BITS) + EPOCH_MS;
}

/** How far ids of bodies are apart that were received so long after each other. */
export function idsWithin(ms: number): bigint {
  return BigInt(ms) << LOW_BITS;
}

/** The first of the consecutive ids for a body of so many bytes, in decimal digits. A record takes three bytes at least. */
export function createIds(): (receivedAtMs: number, byteLength: number) => string {
  let next = 0n;
  return (receivedAtMs, byteLength) => {
    const now = firstIdAt(receivedAtMs) + BigInt(randomInt(1 << 20));
    const first = now > next ? now : next;
    // {} is the shortest record, and comes with a comma.
    next = first + BigInt(Math.ceil(byteLength / 3));
    return first.toString();
  };
}
