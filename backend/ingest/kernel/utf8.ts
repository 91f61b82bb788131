// Finds and replaces bytes that are not UTF-8, sixteen at a time, so that text in any alphabet and random bytes cost little more than ASCII.
// Instead of a branch per byte, it calculates masks in which each bit is a byte. All functions read up to 18 bytes beyond the text.

/** Bytes that one call of `characterMask` reads. */
const READ_BYTES: usize = 19;

/** Vectors of one byte, by the byte: V8 (Node 24) builds each constant anew, which takes several times as long as reading it. */
const VECTORS: usize = memory.data(256 * 16, 16);

makeVectors();

function makeVectors(): void {
  for (let byte: u32 = 0; byte < 256; byte++) memory.fill(VECTORS + byte * 16, <u8>byte, 16);
}

function vector(byte: u32): v128 {
  return v128.load(VECTORS + byte * 16);
}

/**
 * A mask of the bytes at `at` that are characters or belong to one (RFC 3629): bits 0 to 15 for the next sixteen bytes, and bits 16 to 18 for
 * the rest of a character that begins in them. A character that ends after `end` is none.
 */
function characterMask(at: usize, end: usize): u32 {
  const first = v128.load(at);
  const second = v128.load(at, 1);
  // As signed numbers, the bytes 0x80 to 0xbf are the smallest.
  const isFollowed = i8x16.lt_s(second, vector(0xc0));
  const left = end - at;
  let two: u32 = i8x16.bitmask(v128.and(isBetween(first, 0xc2, 0xdf), isFollowed));
  if (left < READ_BYTES) two &= lowBits(left, 1);
  const mask = (~i8x16.bitmask(first) & 0xffff) | two | (two << 1);
  if (i8x16.bitmask(v128.and(isBetween(first, 0xe0, 0xf4), isFollowed)) == 0) return mask;
  const isFollowedTwice = v128.and(isFollowed, i8x16.lt_s(v128.load(at, 2), vector(0xc0)));
  const isFollowedThrice = v128.and(isFollowedTwice, i8x16.lt_s(v128.load(at, 3), vector(0xc0)));
  // The second byte excludes overlong forms, surrogates, and characters above U+10FFFF.
  const isBelowA0 = i8x16.lt_s(second, vector(0xa0));
  const isBelow90 = i8x16.lt_s(second, vector(0x90));
  const badThree = v128.or(v128.and(isByte(first, 0xe0), isBelowA0), v128.andnot(isByte(first, 0xed), isBelowA0));
  const badFour = v128.or(v128.and(isByte(first, 0xf0), isBelow90), v128.andnot(isByte(first, 0xf4), isBelow90));
  let three: u32 = i8x16.bitmask(v128.andnot(v128.and(isBetween(first, 0xe0, 0xef), isFollowedTwice), badThree));
  let four: u32 = i8x16.bitmask(v128.andnot(v128.and(isBetween(first, 0xf0, 0xf4), isFollowedThrice), badFour));
  if (left < READ_BYTES) {
    three &= lowBits(left, 2);
    four &= lowBits(left, 3);
  }
  const long = three | four;
  return mask | long | (long << 1) | (long << 2) | (four << 3);
}

function isByte(block: v128, byte: u8): v128 {
  return i8x16.eq(block, vector(byte));
}

function isBetween(block: v128, from: u8, to: u8): v128 {
  return i8x16.lt_u(i8x16.sub(block, vector(from)), vector(to - from + 1));
}

/** As many bits as bytes are left without the last `less` ones. */
function lowBits(left: usize, less: usize): u32 {
  return left <= less ? 0 : (1 << (<u32>(left - less))) - 1;
}

/** Where the text from `at` to `end` ceases to be UTF-8: `end`, or the first byte of what is no character. */
export function utf8End(at: usize, end: usize): usize {
  let rest: u32 = 0;
  for (; at < end; at += 16) {
    if (rest == 0 && i8x16.bitmask(v128.load(at)) == 0) continue;
    const mask = characterMask(at, end) | rest;
    const missing = ~mask & 0xffff;
    if (missing != 0) return min<usize>(at + ctz(missing), end);
    rest = mask >> 16;
  }
  return end;
}

/** For each mask of eight bytes, and for one that follows a replaced byte: where the 16 bytes of the result come from. */
const SHUFFLES: usize = memory.data(512 * 16, 16);
/** How many of the 16 bytes are the result. */
const LENGTHS: usize = memory.data(512, 16);
/** U+FFFD, behind eight bytes. */
const REPLACEMENT: usize = memory.data<u8>([0, 0, 0, 0, 0, 0, 0, 0, 0xef, 0xbf, 0xbd, 0, 0, 0, 0, 0], 16);
const REPLACEMENT_AT: u8 = 8;

makeShuffles();

function makeShuffles(): void {
  for (let state: u32 = 0; state < 512; state++) {
    let length: u32 = 0;
    let isReplaced = state >> 8 != 0;
    for (let bit: u32 = 0; bit < 8; bit++) {
      const isKept = ((state >> bit) & 1) != 0;
      if (isKept) store<u8>(SHUFFLES + state * 16 + length++, <u8>bit);
      else if (!isReplaced) for (let part: u8 = 0; part < 3; part++) store<u8>(SHUFFLES + state * 16 + length++, REPLACEMENT_AT + part);
      isReplaced = !isKept;
    }
    store<u8>(LENGTHS + state, <u8>length);
  }
}

/**
 * Writes the text to `to`, with U+FFFD in the place of each run of bytes that are not UTF-8; returns the address after it. It writes up to
 * 32 bytes more. The result is at most twice as long, plus three bytes.
 */
export function replaceInvalid(at: usize, end: usize, to: usize): usize {
  let rest: u32 = 0;
  let before: u32 = 0;
  for (; at < end; at += 16) {
    const block = v128.load(at);
    const left = min<usize>(16, end - at);
    if (rest == 0 && i8x16.bitmask(block) == 0) {
      v128.store(to, block);
      to += left;
      before = 0;
      continue;
    }
    const mask = characterMask(at, end) | rest;
    // Bytes beyond the end are copied after it, and do not count.
    const kept = mask | ~lowBits(left, 0);
    const state = (kept & 0xff) | before;
    to = shuffle(to, at, state);
    const next = ((kept >> 8) & 0xff) | ((~kept & 0x80) << 1);
    to = shuffle(to, at + 8, next) - (16 - left);
    before = (~kept & 0x8000) >> 7;
    rest = mask >> 16;
  }
  return to;
}

function shuffle(to: usize, at: usize, state: u32): usize {
  const bytes = v128.or(v128.load64_zero(at), v128.load(REPLACEMENT));
  v128.store(to, i8x16.swizzle(bytes, v128.load(SHUFFLES + state * 16)));
  return to + <usize>load<u8>(LENGTHS + state);
}
