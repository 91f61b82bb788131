// Compresses Snappy's block format for tests: literals, and copies of earlier text with an offset of two bytes.
import { varint } from "./otlp/protobuf/encode.fixture.ts";

const MIN_MATCH = 4;
const MAX_COPY = 64;
const MAX_OFFSET = 65_535;

export function compressSnappy(text: Uint8Array): Buffer<ArrayBuffer> {
  const bytes = Buffer.from(text);
  const parts: Buffer[] = [varint(BigInt(bytes.length))];
  const seen = new Map<number, number>();
  let [at, literal] = [0, 0];
  while (at + MIN_MATCH <= bytes.length) {
    const word = bytes.readUInt32LE(at);
    const earlier = seen.get(word);
    seen.set(word, at);
    if (earlier === undefined || at - earlier > MAX_OFFSET) {
      at += 1;
      continue;
    }
    parts.push(...literals(bytes.subarray(literal, at)));
    let length = MIN_MATCH;
    while (length < MAX_COPY && at + length < bytes.length && bytes[earlier + length] === bytes[at + length]) length += 1;
    const offset = at - earlier;
    parts.push(Buffer.from([((length - 1) << 2) | 2, offset & 255, offset >> 8]));
    at += length;
    literal = at;
  }
  parts.push(...literals(bytes.subarray(literal)));
  return Buffer.from(new Uint8Array(Buffer.concat(parts)));
}

/** A literal whose length takes up to four bytes. */
function literals(bytes: Buffer): Buffer[] {
  if (bytes.length === 0) return [];
  const length = bytes.length - 1;
  if (length < 60) return [Buffer.from([length << 2]), bytes];
  const size = length < 256 ? 1 : length < 65_536 ? 2 : 4;
  const head = Buffer.alloc(1 + size);
  head[0] = (59 + size) << 2;
  head.writeUIntLE(length, 1, size);
  return [head, bytes];
}
