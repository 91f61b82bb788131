// Helpers for bytes in several pieces, which files and sockets accept, so that large contents are not copied.

/** Passing on a smaller piece costs more than copying it. */
const SMALL_PIECE_BYTES = 4096;
const COALESCED_BYTES = 256 * 1024;

export function sizeOf(pieces: readonly Uint8Array[]): number {
  return pieces.reduce((sum, { byteLength }) => sum + byteLength, 0);
}

/** Bytes with a buffer of their own, which can be transferred to a thread; a slice of a larger buffer is copied. */
export function ownBytes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer, byteLength } = bytes;
  return buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? (bytes as Uint8Array<ArrayBuffer>) : new Uint8Array(bytes);
}

/** The same bytes with small adjacent pieces copied together. */
export function* coalescePieces(pieces: readonly Uint8Array[]): Generator<Uint8Array> {
  let small: Uint8Array[] = [];
  let bytes = 0;
  for (const piece of pieces) {
    const isSmall = piece.length < SMALL_PIECE_BYTES;
    if (bytes > 0 && (!isSmall || bytes + piece.length > COALESCED_BYTES)) {
      yield Buffer.concat(small, bytes);
      small = [];
      bytes = 0;
    }
    if (!isSmall) {
      yield piece;
      continue;
    }
    small.push(piece);
    bytes += piece.length;
  }
  if (bytes > 0) yield Buffer.concat(small, bytes);
}
