// Decompresses, checks and hashes remote write 1.0 requests, as Prometheus and collectors send them, in one call. Invariants: it accepts
// only requests that check-write.ts passes on unchanged, and falls back for all others; nothing is read or written outside of the areas that
// the host specified; the output is no larger than the host allows.
import { fallBack, UNUSUAL } from "../../kernel/bytes";
import { BYTES, checkText, content, expect, field, FIXED64, integer, number, VARINT, wireType } from "../../kernel/wire";
import { decompress } from "./snappy";
import { hashOf, nextHash, PART_BYTES } from "./series-hash";

export { setKey } from "./series-hash";

const INPUT: usize = (__heap_base + 63) & ~63;
/** `__name__` */
const NAME: u64 = 0x5f5f656d616e5f5f;
/** `org_id`, `host_id`, `node`: check-write.ts renames these labels. */
const ORG_ID: u64 = 0x000064695f67726f;
const HOST_ID: u64 = 0x0064695f74736f68;
const NODE: u64 = 0x0000000065646f6e;
/** Prometheus marks the end of a series with this value; the engine drops any other NaN. */
const STALE_MARKER: u64 = 0x7ff0000000000002;

let maxLabels: u32 = 0;
let maxNameBytes: u32 = 0;
let maxValueBytes: u32 = 0;
let maxLabelBytes: u32 = 0;
let oldestMs: i64 = 0;
let newestMs: i64 = 0;
let isHashed: bool = false;
/** Where the next hash is written. */
let hashes: usize = 0;
let hashesEnd: usize = 0;
let samples: u32 = 0;

/** Where the compressed body begins. */
export function inputAt(): usize {
  return INPUT;
}

export function setLimits(labels: u32, nameBytes: u32, valueBytes: u32, labelBytes: u32, oldest: f64, newest: f64): void {
  maxLabels = labels;
  maxNameBytes = nameBytes;
  maxValueBytes = valueBytes;
  maxLabelBytes = labelBytes;
  oldestMs = <i64>oldest;
  newestMs = <i64>newest;
}

/**
 * Decompresses `length` bytes to `outputAt` and checks the series. Returns the number of samples. If `end` is greater than `hashesAt`,
 * hashes of the series are written between them.
 */
export function check(length: u32, outputAt: usize, outputLength: u32, hashesAt: usize, end: usize): u32 {
  decompress(INPUT, length, outputAt, outputLength);
  hashes = hashesAt;
  hashesEnd = end;
  isHashed = end > hashesAt;
  samples = 0;
  const outputEnd = outputAt + outputLength;
  for (let at = outputAt; at < outputEnd;) {
    at = field(at, outputEnd);
    if (number != 1) fallBack(UNUSUAL);
    expect(BYTES);
    series(content, at);
  }
  return samples;
}

/** The address after the last hash. */
export function hashesTo(): usize {
  return hashes;
}

function series(at: usize, end: usize): void {
  let labels: u32 = 0;
  let labelBytes: u32 = 0;
  let isNamed = false;
  let first: usize = 0;
  let last: usize = 0;
  let count: u32 = 0;
  let before: usize = 0;
  let beforeLength: u32 = 0;
  while (at < end) {
    at = field(at, end);
    expect(BYTES);
    if (number == 2) {
      sample(content, at);
      count++;
    } else {
      if (number != 1) fallBack(UNUSUAL);
      // With their framing, which may be too much, and then the slow path counts.
      labelBytes += <u32>(at - content);
      if (label(content, at)) isNamed = true;
      if (labels == 0) first = nameAt;
      // The specification requires sorted names; others may be repeated.
      else if (!precedes(before, beforeLength)) fallBack(UNUSUAL);
      before = nameAt;
      beforeLength = lengthOfName;
      last = at;
      labels++;
    }
  }
  if (!isNamed || labels > maxLabels || labelBytes > maxLabelBytes || count == 0) fallBack(UNUSUAL);
  samples += count;
  if (!isHashed) return;
  let hash = hashOf(first, last);
  for (let part: usize = 0; ; part += PART_BYTES) {
    if (hashes >= hashesEnd) fallBack(UNUSUAL);
    store<u32>(hashes, hash);
    hashes += 4;
    if (part + PART_BYTES >= last - first) return;
    hash = nextHash(hash);
  }
}

/** The name of the last label. */
let nameAt: usize = 0;
let lengthOfName: u32 = 0;

/** Whether a name is sorted before the last one, and is another. */
function precedes(name: usize, length: u32): bool {
  const shorter = min(length, lengthOfName);
  const order = memory.compare(name, nameAt, shorter);
  return order < 0 || (order == 0 && length < lengthOfName);
}

/** Reads a label that consists of its name, then its value. Returns whether it is the metric name. */
function label(at: usize, end: usize): bool {
  const value = field(at, end);
  if (number != 1 || wireType != BYTES) fallBack(UNUSUAL);
  const name = content;
  const nameLength = <u32>(value - name);
  if (value == end || field(value, end) != end || number != 2 || wireType != BYTES) fallBack(UNUSUAL);
  const valueLength = <u32>(end - content);
  if (nameLength == 0 || valueLength == 0 || nameLength > maxNameBytes || valueLength > maxValueBytes) fallBack(UNUSUAL);
  checkText(name, nameLength);
  checkText(content, valueLength);
  nameAt = name;
  lengthOfName = nameLength;
  if (nameLength > 8) return false;
  const word = (load<u64>(name) << ((8 - nameLength) << 3)) >> ((8 - nameLength) << 3);
  if (word == ORG_ID || word == HOST_ID || word == NODE) fallBack(UNUSUAL);
  return word == NAME;
}

function sample(at: usize, end: usize): void {
  let time: i64 = 0;
  while (at < end) {
    at = field(at, end);
    if (number == 1) {
      expect(FIXED64);
      const bits = load<u64>(content);
      if ((bits & 0x7fffffffffffffff) > 0x7ff0000000000000 && bits != STALE_MARKER) fallBack(UNUSUAL);
    } else if (number == 2) {
      expect(VARINT);
      time = <i64>integer;
    } else fallBack(UNUSUAL);
  }
  if (time < oldestMs || time > newestMs) fallBack(UNUSUAL);
}
