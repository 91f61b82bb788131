// Estimates the number of distinct series in validated exposition text from a hash of each series. The hash is HalfSipHash-1-3 of 32 bits
// with a random key of the process or the installation, so that no sender can search for colliding series. The estimate is a HyperLogLog of
// 4096 registers, 4 KiB, with Ertl's improved estimator (arXiv 1702.01284, algorithm 6); its standard deviation is 1.6 % at any size.
// Invariants: equal text of a series has equal hashes, while two spellings of one series may count twice; adding a hash again changes
// nothing.
import { createHmac, randomBytes } from "node:crypto";

export interface HashKey {
  readonly k0: number;
  readonly k1: number;
}

/** `secret`: replicas with the same secret get the same key. */
export function newHashKey(secret?: Uint8Array): HashKey {
  const bytes = secret === undefined ? randomBytes(8) : createHmac("sha256", secret).update("active series").digest();
  return { k0: bytes.readInt32LE(0), k1: bytes.readInt32LE(4) };
}

const [NEWLINE, TAB, SPACE, HASH, CLOSE] = [10, 9, 32, 35, 125];

/**
 * Calls `visit` for each sample whose line begins in `from` … `to`; returns where the next line begins. Expects text that exposition.ts has
 * normalised.
 */
export function eachSeries(
  text: Buffer,
  span: { readonly from: number; readonly to: number },
  key: HashKey,
  visit: (hash: number) => void,
): number {
  const to = Math.min(span.to, text.length);
  let at = span.from;
  while (at < to) {
    const found = text.indexOf(NEWLINE, at);
    const end = found < 0 ? text.length : found;
    while (at < end && isBlank(text[at])) at += 1;
    if (at < end && text[at] !== HASH) {
      const seriesTo = seriesEnd(text, at, end);
      countParts(hashOf(text, at, seriesTo, key), seriesTo - at, visit);
    }
    at = end + 1;
  }
  return at;
}

function isBlank(byte: number | undefined): boolean {
  return byte === SPACE || byte === TAB || byte === 13;
}

/** The end of the labels, or of the name if there are no labels. What follows them never contains a brace. */
function seriesEnd(text: Buffer, from: number, end: number): number {
  for (let at = end - 1; at > from; at -= 1) if (text[at] === CLOSE) return at + 1;
  let at = from;
  while (at < end && !isBlank(text[at])) at += 1;
  return at;
}

const PART_BYTES = 1024;

/**
 * Visits the hash of a series of so many bytes, and another one for each further KiB that it begins: the engine's memory for a series grows
 * with its labels, so a long one counts as several.
 */
export function countParts(hash: number, bytes: number, visit: (hash: number) => void): void {
  visit(hash);
  for (let left = bytes - PART_BYTES; left > 0; left -= PART_BYTES) visit((hash = nextHash(hash)));
}

function nextHash(hash: number): number {
  let next = (hash + 0x9e3779b9) | 0;
  next = Math.imul(next ^ (next >>> 16), 0x85ebca6b);
  next = Math.imul(next ^ (next >>> 13), 0xc2b2ae35);
  return next ^ (next >>> 16);
}

/** HalfSipHash of the bytes from `from` up to `to`: one round for each four bytes, one for the rest, three at the end. */
export function hashOf(text: Uint8Array, from: number, to: number, { k0, k1 }: HashKey): number {
  let [v0, v1, v2, v3] = [k0, k1, 0x6c796765 ^ k0, 0x74656462 ^ k1];
  const whole = from + ((to - from) & ~3);
  for (let at = from; at < whole + 16; at += 4) {
    const word = at < whole ? wordAt(text, at) : at === whole ? restOf(text, from, to) : 0;
    if (at === whole + 4) v2 ^= 0xff;
    v3 ^= word;
    v0 = (v0 + v1) | 0;
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
    v2 = (v2 << 16) | (v2 >>> 16);
    v0 ^= word;
  }
  return (v1 ^ v3) | 0;
}

function wordAt(text: Uint8Array, at: number): number {
  return (text[at] as number) | ((text[at + 1] as number) << 8) | ((text[at + 2] as number) << 16) | ((text[at + 3] as number) << 24);
}

/** The bytes after the last whole word, and the length. */
function restOf(text: Uint8Array, from: number, to: number): number {
  let rest = (to - from) << 24;
  for (let at = to - ((to - from) & 3), shift = 0; at < to; at += 1, shift += 8) rest |= (text[at] as number) << shift;
  return rest;
}

/** The key for series of one host, because the engine overrides host labels in the text with the host's. */
export function keyOfHost(key: HashKey, hostId: string): HashKey {
  const name = Buffer.from(hostId);
  return { k0: key.k0 ^ hashOf(name, 0, name.length, key), k1: key.k1 };
}

const INDEX_BITS = 12;
export const REGISTERS = 2 ** INDEX_BITS;
const RANK_BITS = 32 - INDEX_BITS;
const MAX_RANK = RANK_BITS + 1;
const SCALE = REGISTERS ** 2 / (2 * Math.LN2);

export function registerOf(hash: number): number {
  return hash >>> RANK_BITS;
}

/** 1 for half of all hashes, 2 for a quarter of them, and so on. */
export function rankOf(hash: number): number {
  return Math.min(MAX_RANK, Math.clz32(hash << INDEX_BITS) + 1);
}

/** The number of registers with each rank; the estimate depends on nothing else. */
export class Ranks {
  readonly #counts = new Float64Array(MAX_RANK + 1);

  constructor(registers?: Uint8Array) {
    if (registers) for (const rank of registers) this.#counts[rank] = (this.#counts[rank] as number) + 1;
    else this.#counts[0] = REGISTERS;
  }

  move(from: number, to: number): void {
    this.#counts[from] = (this.#counts[from] as number) - 1;
    this.#counts[to] = (this.#counts[to] as number) + 1;
  }

  estimate(): number {
    let sum = REGISTERS * tau(1 - (this.#counts[MAX_RANK] as number) / REGISTERS);
    for (let rank = RANK_BITS; rank >= 1; rank -= 1) sum = 0.5 * (sum + (this.#counts[rank] as number));
    sum += REGISTERS * sigma((this.#counts[0] as number) / REGISTERS);
    return Math.round(SCALE / sum);
  }
}

/** `share`: the share of registers that are still zero. */
function sigma(share: number): number {
  if (share === 1) return Number.POSITIVE_INFINITY;
  let [x, y, z] = [share, 1, share];
  for (let before = Number.NaN; z !== before; y += y) {
    before = z;
    x *= x;
    z += x * y;
  }
  return z;
}

/** `share`: the share of registers that are not at their maximum. */
function tau(share: number): number {
  if (share === 0 || share === 1) return 0;
  let [x, y, z] = [share, 1, 1 - share];
  for (let before = Number.NaN; z !== before;) {
    before = z;
    x = Math.sqrt(x);
    y *= 0.5;
    z -= (1 - x) ** 2 * y;
  }
  return z / 3;
}
