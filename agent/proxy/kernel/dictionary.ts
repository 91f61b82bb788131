// Remembers byte strings of documents, and what the host returned for them, from one document to the next. Invariants: an entry belongs to
// exactly these bytes; if there is no space left, everything is forgotten at once, so that clients that send ever new names cost no memory;
// chains are short, whatever the hashes of their keys.
import { copy, fallBack, same, TOO_LARGE } from "../../../common/kernel/bytes";
import { describe } from "./host";
import { DICTIONARY, DICTIONARY_END, GUARD, SLOT_COUNT, SLOTS } from "./memory";

/** An attribute's key. Value: its label's number, 0 if it has to be merged; `name="`. */
export const KEY: u32 = 0;
/** A metric's name, 0xff, its unit. Value: the metric's name as text, empty if it has none. */
export const GAUGE_NAME: u32 = 1;
export const COUNTER_NAME: u32 = 2;
export const OTHER_NAME: u32 = 3;
/** The message of a resource. Value: the number of labels, whether it describes a target, the labels' numbers, the labels. */
export const RESOURCE: u32 = 4;
/**
 * The array of a histogram's bounds. Value: the number of bounds, then for each the length and the text `le="0.5"} `, in one byte and more.
 */
export const BOUNDS: u32 = 5;

/**
 * Layout of an entry: next entry of its slot, hash, kind, length of the key, length of the value, the resource that came next, the value.
 */
const HEAD_BYTES: u32 = 32;
const MAX_STEPS: u32 = 64;

let top: usize = DICTIONARY;
/** True if the kernel fell back because the dictionary is full; the host may clear it and retry. */
export let isFull: bool = false;

export function forgetAll(): void {
  top = DICTIONARY;
  isFull = false;
  memory.fill(SLOTS, 0, 4 * SLOT_COUNT);
}

/** Called at the start of a document. */
export function hasRoom(): bool {
  return top < DICTIONARY + ((DICTIONARY_END - DICTIONARY) / 4) * 3;
}

/** Returns the entry of the key; the host describes a new key. */
export function find(kind: u32, at: usize, length: u32): usize {
  const hash = hashAll(at, length) ^ kind;
  const slot = SLOTS + ((hash & (SLOT_COUNT - 1)) << 2);
  let steps: u32 = 0;
  for (let entry: usize = load<u32>(slot); entry != 0; entry = load<u32>(entry)) {
    if (load<u32>(entry, 4) == hash && load<u32>(entry, 8) == kind && isKeyOf(entry, at, length)) return entry;
    steps++;
    if (steps > MAX_STEPS) full();
  }
  const entry = top;
  const answer = (entry + HEAD_BYTES + length + 7) & ~7;
  if (answer + GUARD > DICTIONARY_END) full();
  const answerBytes = describe(kind, at, length, answer, <u32>(DICTIONARY_END - GUARD - answer));
  if (answer + answerBytes + GUARD > DICTIONARY_END) full();
  copy(entry + HEAD_BYTES, at, length);
  store<u32>(entry, load<u32>(slot));
  store<u32>(entry, hash, 4);
  store<u32>(entry, kind, 8);
  store<u32>(entry, length, 12);
  store<u32>(entry, answerBytes, 16);
  store<u32>(entry, 0, 20);
  store<u32>(entry, <u32>answer, 24);
  store<u32>(slot, <u32>entry);
  top = (answer + answerBytes + 7) & ~7;
  return entry;
}

function full(): void {
  isFull = true;
  fallBack(TOO_LARGE);
}

function isKeyOf(entry: usize, at: usize, length: u32): bool {
  return load<u32>(entry, 12) == length && same(entry + HEAD_BYTES, at, length);
}

/** Whether the document continues at `at` with the entry's key. */
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

/** The resource that followed this one last time, or 0. */
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
