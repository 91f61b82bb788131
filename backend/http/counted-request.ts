// The request class of all HTTP listeners: counts the pieces in which a body arrives, before any reader. Each HTTP chunk, packet or TLS record
// is a call and a Buffer, so a body of single bytes would cost a thousand times its size. Invariants: a body whose pieces are too small is
// refused; of one connection, at most `PIECES_PER_TURN` pieces, or one packet, are taken in a turn of the event loop; a client that waits
// for 100 Continue gets it only when its body is read.
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { IncomingMessage } from "../../common/http.ts";
import { ApiError } from "../errors.ts";
import { respondAndClose } from "./error-response.ts";
import { FREE_BODY_PIECES, FREE_BODY_PIECES_PER_SECOND, MIN_BODY_PIECE_BYTES } from "./http-limits.ts";
import { closeUnread, hold, isServing, release, stopParser } from "./turns.ts";

const PIECES_PER_TURN = 64;

export class PieceCount {
  /** Pieces that neither their bytes nor the time have paid for. Never negative: what is not used is not saved for a burst. */
  #unpaid = 0;
  #paidMs = 0;

  /** False if there are too many pieces for their bytes and for the time. */
  add(bytes: number): boolean {
    this.#paidMs ||= performance.now();
    this.#unpaid = Math.max(0, this.#unpaid + 1 - bytes / MIN_BODY_PIECE_BYTES);
    if (this.#unpaid <= FREE_BODY_PIECES) return true;
    const nowMs = performance.now();
    this.#unpaid = Math.max(0, this.#unpaid - ((nowMs - this.#paidMs) / 1000) * FREE_BODY_PIECES_PER_SECOND);
    this.#paidMs = nowMs;
    return this.#unpaid <= FREE_BODY_PIECES;
  }
}

/** For streams of HTTP/2, whose frames are pieces. `cutOff` is called when they are too small. */
export function limitPieces(stream: Readable, cutOff: () => void): void {
  const count = new PieceCount();
  // Frames in the packet of the head arrive before the stream is announced. Node's types lack the property.
  const { readableBuffer } = stream as Readable & { readonly readableBuffer: readonly Buffer[] };
  if (readableBuffer.some((piece) => !count.add(piece.length))) return cutOff();
  const push = stream.push.bind(stream);
  stream.push = (piece: Buffer | null, encoding) => {
    if (piece === null || count.add(piece.length)) return push(piece, encoding);
    cutOff();
    return false;
  };
}

export class CountedRequest extends IncomingMessage {
  /** Called when a reader wants the first bytes, or when they have arrived. */
  onFirstRead: (() => void) | undefined;
  readonly #count = new PieceCount();
  #piecesOfTurn = 0;

  override push(piece: Buffer | null): boolean {
    if (piece === null) return super.push(null);
    const { socket } = this;
    if (!this.#count.add(piece.length)) {
      this.pause();
      // The rest of a refused body: its response was sent.
      if (!isServing(socket)) closeUnread(socket);
      else if (isServing(socket, this)) respondAndClose(socket, tooSmall());
      else {
        // A response would count as that of an earlier request.
        stopParser(socket);
        socket.destroy();
      }
      return false;
    }
    // A client that sends its body does not wait for 100 Continue, but Node.js closes its connection after the response if none was sent.
    this.#agreeToBody();
    this.#piecesOfTurn += 1;
    if (this.#piecesOfTurn === PIECES_PER_TURN) this.#waitForTurn(socket);
    return super.push(piece);
  }

  override _read(size: number): void {
    this.#agreeToBody();
    super._read(size);
  }

  #agreeToBody(): void {
    this.onFirstRead?.();
    this.onFirstRead = undefined;
  }

  /** Called for a body that is never read. Node's own would discard it without counting. */
  _dump(): void {
    this.resume();
  }

  #waitForTurn(socket: Socket): void {
    hold(socket);
    setImmediate(() => {
      this.#piecesOfTurn = 0;
      release(socket, this);
    });
  }
}

function tooSmall(): ApiError {
  const message = `the body arrives in too many small pieces: send chunks of ${MIN_BODY_PIECE_BYTES} bytes or more, or a Content-Length`;
  return new ApiError("malformed_body", message);
}
