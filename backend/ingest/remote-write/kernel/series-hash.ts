// Hashes a series as `hashOf` and `countParts` of backend/storage/metrics/series-hash.ts do: HalfSipHash-1-3 with the key of the
// organisation.

let k0: u32 = 0;
let k1: u32 = 0;

export function setKey(first: u32, second: u32): void {
  k0 = first;
  k1 = second;
}

/** Hashes the bytes from `from` to `to`: one round for each four bytes, one for the rest, three at the end. */
export function hashOf(from: usize, to: usize): u32 {
  let v0 = k0;
  let v1 = k1;
  let v2 = 0x6c796765 ^ k0;
  let v3 = 0x74656462 ^ k1;
  const whole = from + ((to - from) & ~3);
  for (let at = from; at < whole + 16; at += 4) {
    const word = at < whole ? load<u32>(at) : at == whole ? restOf(from, to) : 0;
    if (at == whole + 4) v2 ^= 0xff;
    v3 ^= word;
    v0 += v1;
    v1 = rotl<u32>(v1, 5) ^ v0;
    v0 = rotl<u32>(v0, 16);
    v2 += v3;
    v3 = rotl<u32>(v3, 8) ^ v2;
    v0 += v3;
    v3 = rotl<u32>(v3, 7) ^ v0;
    v2 += v1;
    v1 = rotl<u32>(v1, 13) ^ v2;
    v2 = rotl<u32>(v2, 16);
    v0 ^= word;
  }
  return v1 ^ v3;
}

export const PART_BYTES: u32 = 1024;

/** The hash for the next KiB of a long series. */
export function nextHash(hash: u32): u32 {
  let next = hash + 0x9e3779b9;
  next = (next ^ (next >> 16)) * 0x85ebca6b;
  next = (next ^ (next >> 13)) * 0xc2b2ae35;
  return next ^ (next >> 16);
}

/** The bytes after the last whole word, and the length. */
function restOf(from: usize, to: usize): u32 {
  let rest = (<u32>(to - from)) << 24;
  for (let at = to - ((to - from) & 3), shift: u32 = 0; at < to; at++, shift += 8) rest |= (<u32>load<u8>(at)) << shift;
  return rest;
}
