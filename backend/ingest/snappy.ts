// Decompresses Snappy's block format, which Loki push and Prometheus remote write use (google/snappy, format_description.txt). Invariant:
// the declared length is checked first, and nothing is allocated beyond it; the result has that length, or `malformed_body` is thrown.
import { ApiError } from "../errors.ts";
import { MAX_BODY_BYTES } from "./ingest-limits.ts";

/** Shorter copies are faster byte by byte than with a call of the runtime. */
const LOOPED_BYTES = 64;
/** Up to this length, the length of a literal is part of the tag. */
const MAX_TAG_LENGTH = 60;

/** The declared length of the decompressed body, at most 32 MiB. Throws `malformed_body` and `body_too_large`. */
export function snappyLength(compressed: Uint8Array): number {
  const [length] = readPreamble(compressed);
  if (length > MAX_BODY_BYTES) throw new ApiError("body_too_large", "the body exceeds 32 MiB when decompressed: send it in parts");
  return length;
}

/** Throws as `snappyLength`. The result has its own buffer. */
export function decompressSnappy(compressed: Uint8Array): Buffer<ArrayBuffer> {
  const output = Buffer.allocUnsafeSlow(snappyLength(compressed));
  const [, start] = readPreamble(compressed);
  let from = start;
  let to = 0;
  while (from < compressed.length) {
    const tag = compressed[from++] as number;
    const kind = tag & 3;
    if (kind === 0) {
      const extra = Math.max(0, (tag >>> 2) + 1 - MAX_TAG_LENGTH);
      const length = extra === 0 ? (tag >>> 2) + 1 : littleEndian(compressed, from, extra) + 1;
      from += extra;
      if (from + length > compressed.length || to + length > output.length) throw malformed();
      copyLiteral(compressed, from, output, to, length);
      from += length;
      to += length;
      continue;
    }
    const extra = kind === 3 ? 4 : kind;
    const offset = littleEndian(compressed, from, extra) + (kind === 1 ? (tag >>> 5) * 256 : 0);
    const length = kind === 1 ? ((tag >>> 2) & 7) + 4 : (tag >>> 2) + 1;
    from += extra;
    if (from > compressed.length || offset === 0 || offset > to || to + length > output.length) throw malformed();
    // Source and target may overlap; then the bytes repeat.
    for (const end = to + length; to < end; to += 1) output[to] = output[to - offset] as number;
  }
  if (to !== output.length) throw malformed();
  return output;
}

/** The declared length, and where the elements begin. */
function readPreamble(compressed: Uint8Array): [length: number, start: number] {
  let length = 0;
  for (let at = 0; at < Math.min(5, compressed.length); at += 1) {
    const byte = compressed[at] as number;
    length += (byte & 0x7f) * 2 ** (7 * at);
    if (byte < 0x80) return [length, at + 1];
  }
  throw malformed();
}

/** Bytes beyond the end count as 0; the caller checks the end. */
function littleEndian(bytes: Uint8Array, at: number, count: number): number {
  let value = 0;
  for (let index = count - 1; index >= 0; index -= 1) value = value * 256 + (bytes[at + index] ?? 0);
  return value;
}

function copyLiteral(source: Uint8Array, from: number, target: Uint8Array, to: number, length: number): void {
  if (length > LOOPED_BYTES) target.set(source.subarray(from, from + length), to);
  else for (let index = 0; index < length; index += 1) target[to + index] = source[from + index] as number;
}

function malformed(): ApiError {
  return new ApiError("malformed_body", "the body is not a Snappy block");
}
