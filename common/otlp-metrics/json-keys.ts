// Estimates the number of different keys in the objects of a JSON document before it is parsed: each new key costs the runtime a table of
// its own, so two million of them would block a thread for many seconds. Invariant: one pass over the bytes, for any document.
import { randomInt } from "node:crypto";
import { MAX_JSON_KEYS } from "./otlp-metrics-limits.ts";

const COLON = 0x3a;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SPACE = 0x20;
/** Two thirds of the slots are in use when the limit is reached. */
const SLOTS = 2 ** 15;
/** Random per process, so that no sender can construct keys with equal hashes. */
const HASH_SEED = randomInt(2 ** 32);

/** Counts different keys by a hash: two in the same slot count as one. A key is text before a colon; within text, quotes are escaped. */
export function hasManyKeys(json: Buffer): boolean {
  const seen = new Uint8Array(SLOTS);
  let count = 0;
  for (let colon = json.indexOf(COLON); colon >= 0; colon = json.indexOf(COLON, colon + 1)) {
    let end = colon - 1;
    while (end >= 0 && (json[end] as number) <= SPACE) end -= 1;
    if (json[end] !== QUOTE || isEscaped(json, end)) continue;
    const slot = hashOfKey(json, end) & (SLOTS - 1);
    if (seen[slot] === 1) continue;
    seen[slot] = 1;
    count += 1;
    if (count > MAX_JSON_KEYS) return true;
  }
  return false;
}

function isEscaped(json: Buffer, at: number): boolean {
  let before = at - 1;
  while (json[before] === BACKSLASH) before -= 1;
  return (at - before) % 2 === 0;
}

/** Hashes the bytes between the closing quote at `end` and the opening one. */
function hashOfKey(json: Buffer, end: number): number {
  let hash = HASH_SEED;
  for (let at = end - 1; at >= 0; at -= 1) {
    const byte = json[at] as number;
    if (byte === QUOTE && !isEscaped(json, at)) break;
    hash = Math.imul(hash ^ byte, 0x01000193);
  }
  return hash ^ (hash >>> 15);
}
