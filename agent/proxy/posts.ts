// The bodies that text becomes on its way to the backend, cut at the ends of lines. Invariants: none is larger than asked for; the same
// text gives the same bodies; what would become too many is refused while it is made.
import { BodyError } from "./body.ts";

/** Strings grow cheaply while they are small and young: lines are joined up to this length, then written into the post. */
const PIECE_LENGTH = 16 * 1024;
/** A resource's labels are repeated with each of its points: a small document can become any amount of text. */
const MOST_POSTS = 8;

/** Text cut into bodies at the ends of lines. */
export class Posts {
  readonly #maxPostBytes: number;
  readonly #full: Buffer[] = [];
  #cutBytes = 0;
  #post: Buffer;
  #used = 0;
  /** Lines not yet written into #post. */
  text = "";

  constructor(maxPostBytes: number, expectedBytes: number) {
    this.#maxPostBytes = maxPostBytes;
    this.#post = Buffer.allocUnsafe(Math.min(Math.max(expectedBytes, 4 * PIECE_LENGTH), maxPostBytes));
  }

  /** To be called at least once a line. */
  writeIfLarge(): void {
    if (this.text.length >= PIECE_LENGTH) this.#write();
  }

  get hasFull(): boolean {
    return this.#full.length > 0;
  }

  takeFull(): Buffer[] {
    return this.#full.splice(0);
  }

  finish(): Buffer[] {
    this.#write();
    this.#cut();
    return this.takeFull();
  }

  #write(): void {
    const mostBytes = this.text.length * 3;
    if (this.#used + mostBytes > this.#maxPostBytes) this.#cut();
    if (this.#used + mostBytes > this.#post.length) {
      const larger = Buffer.allocUnsafe(Math.min(Math.max(2 * this.#post.length, this.#used + mostBytes), this.#maxPostBytes));
      this.#post.copy(larger, 0, 0, this.#used);
      this.#post = larger;
    }
    this.#used += this.#post.write(this.text, this.#used);
    this.text = "";
    if (this.#cutBytes + this.#used > MOST_POSTS * this.#maxPostBytes) {
      throw new BodyError("too_large", `metrics that become more than ${MOST_POSTS * this.#maxPostBytes} bytes of text`);
    }
  }

  #cut(): void {
    if (this.#used === 0) return;
    this.#full.push(this.#post.subarray(0, this.#used));
    this.#cutBytes += this.#used;
    this.#post = Buffer.allocUnsafe(Math.min(4 * PIECE_LENGTH, this.#maxPostBytes));
    this.#used = 0;
  }
}
