// The request class of all HTTP listeners: counts the pieces in which a body arrives, before any reader. Each HTTP chunk, packet or TLS record
// is a call and a Buffer, so a body of single bytes would cost a thousand times its size. Invariants: a body whose pieces are too small is
// refused; of one connection, at most `PIECES_PER_TURN` pieces, or one packet, are taken in a turn of the event loop; a client that waits
// for 100 Continue gets it only when its body is read.
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { IncomingMessage } from "../../common/http.ts";
import { ApiError } from "../errors.ts";
import { respondAndClose } from "./error-response.ts";
import { FREE_BODY_PIECES, FREE_BODY_PIECES_PER_SECOND, MIN_BODY_PIECE_BYTES } from "./limits.ts";
import { hold, release } from "./turns.ts";

const PIECES_PER_TURN = 64;

export class PieceCount {
  #pieces = 0;
  #bytes = 0;
  #beganMs = 0;

  /** False if there are too many pieces for their bytes and the time since the first one. */
  add(bytes: number): boolean {
    this.#bytes += bytes;
    this.#pieces += 1;
    if (this.#pieces === 1) this.#beganMs = performance.now();
    const beyond = this.#pieces - FREE_BODY_PIECES - this.#bytes / MIN_BODY_PIECE_BYTES;
    return beyond <= 0 || beyond <= ((performance.now() - this.#beganMs) / 1000) * FREE_BODY_PIECES_PER_SECOND;
  }
}

/** For streams of HTTP/2, whose frames are pieces. `cutOff` is called when they are too small. */
export function limitPieces(stream: Readable, cutOff: () => void): void {
  const count = new PieceCount();
  const push = stream.push.bind(stream);
  stream.push = (piece: Buffer | null, encoding) => {
    if (piece === null || count.add(piece.length)) return push(piece, encoding);
    cutOff();
    return false;
  };
}

export class CountedRequest extends IncomingMessage {
  /** Called when a reader wants the first bytes. */
  onFirstRead: (() => void) | undefined;
  readonly #count = new PieceCount();
  #piecesOfTurn = 0;

  override push(piece: Buffer | null): boolean {
    if (piece === null) return super.push(null);
    const { socket } = this;
    if (!this.#count.add(piece.length)) {
      this.pause();
      respondAndClose(socket, tooSmall());
      return false;
    }
    this.#piecesOfTurn += 1;
    if (this.#piecesOfTurn === PIECES_PER_TURN) this.#waitForTurn(socket);
    return super.push(piece);
  }

  override _read(size: number): void {
    this.onFirstRead?.();
    this.onFirstRead = undefined;
    super._read(size);
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
