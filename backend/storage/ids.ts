// Generates the ids of log records and spans. They order records of equal time, and the arrival of records. Invariant: ids grow with the
// time of receipt and across restarts; they are unique in a process and, by a random start within the millisecond, almost certainly unique
// among replicas.
import { randomInt } from "node:crypto";

/** 2020-01-01. */
const EPOCH_MS = 1_577_836_800_000;
/** The milliseconds are in the bits above these. */
const LOW_BITS = 21n;

/** The smallest id that a body received at this time can have. */
export function firstIdAt(receivedAtMs: number): bigint {
  return BigInt(Math.max(0, Math.floor(receivedAtMs) - EPOCH_MS)) << LOW_BITS;
}

/** The approximate time at which a body with this id was received. */
export function receivedAtMsOf(id: bigint): number {
  return Number(id >> LOW_BITS) + EPOCH_MS;
}

/** The difference between the ids of bodies that were received this long after each other. */
export function idsWithin(ms: number): bigint {
  return BigInt(ms) << LOW_BITS;
}

/** Returns a function that allocates consecutive ids for a body and returns the first, in digits. A record has at least three bytes. */
export function createIds(): (receivedAtMs: number, byteLength: number) => string {
  let next = 0n;
  return (receivedAtMs, byteLength) => {
    const now = firstIdAt(receivedAtMs) + BigInt(randomInt(1 << 20));
    const first = now > next ? now : next;
    // {} with a comma is the shortest record.
    next = first + BigInt(Math.ceil(byteLength / 3));
    return first.toString();
  };
}
