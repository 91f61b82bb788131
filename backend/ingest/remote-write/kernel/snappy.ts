// Decompresses Snappy's block format (google/snappy, format_description.txt), as backend/ingest/snappy.ts does. Invariant: it writes the
// declared length and, because it copies in steps of 16 bytes, at most 15 bytes more; it falls back for malformed input.
import { fallBack, SYNTAX } from "../../kernel/bytes";
import { integer, varint } from "../../kernel/wire";

/** Decompresses `length` bytes at `from` to `to`; they must have declared `outputLength`. Both areas need 16 spare bytes at the end. */
export function decompress(from: usize, length: u32, to: usize, outputLength: u32): void {
  const end = from + length;
  const start = to;
  const outputEnd = to + outputLength;
  let at = varint(from, end);
  if (integer != outputLength) fallBack(SYNTAX);
  while (at < end) {
    const tag: u32 = load<u8>(at);
    at++;
    if ((tag & 3) == 0) {
      let size: usize = (tag >> 2) + 1;
      if (size > 60) {
        const extra = size - 60;
        if (at + extra > end) fallBack(SYNTAX);
        size = (load<u32>(at) & (0xffffffff >> (32 - ((<u32>extra) << 3)))) + 1;
        at += extra;
      }
      // A length of 2^32 overflows to 0.
      if (size == 0 || size > end - at || size > outputEnd - to) fallBack(SYNTAX);
      copyBlocks(to, at, size);
      at += size;
      to += size;
      continue;
    }
    const kind = tag & 3;
    const size: usize = kind == 1 ? ((tag >> 2) & 7) + 4 : (tag >> 2) + 1;
    const offset: usize = kind == 1 ? ((tag >> 5) << 8) | load<u8>(at) : kind == 2 ? load<u16>(at) : load<u32>(at);
    at += kind == 3 ? 4 : kind;
    if (at > end || offset == 0 || offset > to - start || size > outputEnd - to) fallBack(SYNTAX);
    if (offset >= 16) copyBlocks(to, to - offset, size);
    else for (let index: usize = 0; index < size; index++) store<u8>(to + index, load<u8>(to + index - offset));
    to += size;
  }
  if (to != outputEnd) fallBack(SYNTAX);
}

/** Copies in steps of 16 bytes; the last one may extend beyond both ends. */
function copyBlocks(to: usize, from: usize, size: usize): void {
  let index: usize = 0;
  do {
    v128.store(to + index, v128.load(from + index));
    index += 16;
  } while (index < size);
}
