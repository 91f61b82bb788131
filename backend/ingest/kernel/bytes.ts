// Copies and compares bytes for every kernel, and defines the reasons for falling back. Invariant: exactly the named bytes are read and
// written.
import { giveUp } from "./host";

/** Not JSON, as far as the kernel can tell. */
export const SYNTAX: i32 = 1;
/** Possibly valid, but not what collectors send. */
export const UNUSUAL: i32 = 2;
/** The call needs more memory than it may use. */
export const TOO_LARGE: i32 = 3;

/** Ends the kernel's call; the host then processes the input in TypeScript. Never returns. */
export function fallBack(reason: i32): void {
  giveUp(reason);
  unreachable();
}

/** Copies exactly `length` bytes that do not overlap. */
export function copy(to: usize, from: usize, length: u32): void {
  if (length >= 16) copyLong(to, from, length);
  else if (length >= 8) {
    const last = load<u64>(from + length - 8);
    store<u64>(to, load<u64>(from));
    store<u64>(to + length - 8, last);
  } else if (length >= 4) {
    const last = load<u32>(from + length - 4);
    store<u32>(to, load<u32>(from));
    store<u32>(to + length - 4, last);
  } else {
    for (let index: u32 = 0; index < length; index++) store<u8>(to + index, load<u8>(from + index));
  }
}

/** Copies `length` bytes to a lower address; they may overlap. */
export function moveDown(to: usize, from: usize, length: u32): void {
  let index: u32 = 0;
  // Each block is in a register before its bytes are overwritten.
  for (; index + 16 <= length; index += 16) v128.store(to + index, v128.load(from + index));
  for (; index < length; index++) store<u8>(to + index, load<u8>(from + index));
}

function copyLong(to: usize, from: usize, length: u32): void {
  if (length > 1024) {
    memory.copy(to, from, length);
    return;
  }
  const last = length - 16;
  for (let index: u32 = 0; index < last; index += 16) v128.store(to + index, v128.load(from + index));
  v128.store(to + last, v128.load(from + last));
}

export function same(a: usize, b: usize, length: u32): bool {
  let index: u32 = 0;
  for (; index + 8 <= length; index += 8) if (load<u64>(a + index) != load<u64>(b + index)) return false;
  for (; index < length; index++) if (load<u8>(a + index) != load<u8>(b + index)) return false;
  return true;
}
