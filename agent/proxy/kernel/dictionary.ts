// What is remembered from one document to the next: bytes of a document, and what the host says of them. Invariants: an answer belongs to
// exactly these bytes; everything is forgotten at once when there is no more room, so that senders who make up names without end cost no
// memory; no chain is long, whatever the hash of its keys.
import { copy, refuse, same, TOO_LARGE } from "../../../common/kernel/bytes";
import { describe } from "./host";
import { DICTIONARY, DICTIONARY_END, GUARD, SLOT_COUNT, SLOTS } from "./memory";

/** An attribute's key. Answer: its label's number, 0 when it has to be merged; `name="`. */
export const KEY: u32 = 0;
/** A metric's name, 0xff, its unit. Answer: the metric's name as text, empty when it has none. */
export const GAUGE_NAME: u32 = 1;
export const COUNTER_NAME: u32 = 2;
export const OTHER_NAME: u32 = 3;
/** The message of a resource. Answer: how many labels, whether it describes a target, the labels' numbers, the labels. */
export const RESOURCE: u32 = 4;
/** The array of a histogram's bounds. Answer: how many, then of each the length and the text `le="0.5"} `, in one byte and more. */
export const BOUNDS: u32 = 5;

/** An entry: the next of its slot, hash, kind, length of the key, length of the answer, the resource that came next, the answer. */
const HEAD_BYTES: u32 = 32;
const MOST_STEPS: u32 = 64;

let top: usize = DICTIONARY;
/** Why the host was given up to: it may forget everything and begin again. */
export let isFull: bool = false;

export function forgetAll(): void {
  top = DICTIONARY;
  isFull = false;
  memory.fill(SLOTS, 0, 4 * SLOT_COUNT);
}

/** At the start of a document. */
export function hasRoom(): bool {
  return top < DICTIONARY + ((DICTIONARY_END - DICTIONARY) / 4) * 3;
}

/** The entry of the key, which the host describes if it is new. */
export function find(kind: u32, at: usize, length: u32): usize {
  const hash = hashAll(at, length) ^ kind;
  const slot = SLOTS + ((hash & (SLOT_COUNT - 1)) << 2);
  let steps: u32 = 0;
  for (let entry: usize = load<u32>(slot); entry != 0; entry = load<u32>(entry)) {
    if (load<u32>(entry, 4) == hash && load<u32>(entry, 8) == kind && isKeyOf(entry, at, length)) return entry;
    steps++;
    if (steps > MOST_STEPS) full();
  }
  const entry = top;
  const answer = (entry + HEAD_BYTES + length + 7) & ~7;
  if (answer + GUARD > DICTIONARY_END) full();
  const answered = describe(kind, at, length, answer, <u32>(DICTIONARY_END - GUARD - answer));
  if (answer + answered + GUARD > DICTIONARY_END) full();
  copy(entry + HEAD_BYTES, at, length);
  store<u32>(entry, load<u32>(slot));
  store<u32>(entry, hash, 4);
  store<u32>(entry, kind, 8);
  store<u32>(entry, length, 12);
  store<u32>(entry, answered, 16);
  store<u32>(entry, 0, 20);
  store<u32>(entry, <u32>answer, 24);
  store<u32>(slot, <u32>entry);
  top = (answer + answered + 7) & ~7;
  return entry;
}

function full(): void {
  isFull = true;
  refuse(TOO_LARGE);
}

function isKeyOf(entry: usize, at: usize, length: u32): bool {
  return load<u32>(entry, 12) == length && same(entry + HEAD_BYTES, at, length);
}

/** Whether the document goes on at `at` with the key of the entry. */
export function startsWithKey(entry: usize, at: usize, end: usize): bool {
  const length = load<u32>(entry, 12);
  return at + length <= end && same(entry + HEAD_BYTES, at, length);
}

export function keyLength(entry: usize): u32 {
  return load<u32>(entry, 12);
}

export function answerLength(entry: usize): u32 {
  return load<u32>(entry, 16);
}

export function answerAt(entry: usize): usize {
  return load<u32>(entry, 24);
}

/** The resource that came behind this one last time, or 0. */
export function following(entry: usize): usize {
  return load<u32>(entry, 20);
}

export function setFollowing(entry: usize, next: usize): void {
  store<u32>(entry, <u32>next, 20);
}

function hashAll(at: usize, length: u32): u32 {
  let hash: u64 = length;
  let index: u32 = 0;
  for (; index + 8 <= length; index += 8) hash = rotl<u64>((hash ^ load<u64>(at + index)) * 0x9e3779b97f4a7c15, 29);
  for (; index < length; index++) hash = (hash ^ load<u8>(at + index)) * 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 32)) * 0x9e3779b97f4a7c15;
  return <u32>(hash >> 32);
}
