// Computes the keys of log file lines: hashes of 53 bits of the path, the offset, the time and the text. It is computed here, because a call of
// a native function for each line would cost more. Only equal offsets of a file are compared. Invariant: the same line has the same key in
// every version of the agent, because keys are on disk.

/** Suffixes that logrotate and the kubelet add to a renamed file: it is still the same file. */
export const ROTATED = /\.log(?:\.1|\.\d{8}-\d{6})$/;
/** The hash of the path, the offset and the time of a line, in front of its text. */
const LINE_HEAD_BYTES = 24;

export class LineHash {
  readonly #view: DataView;
  readonly #head = new DataView(new ArrayBuffer(LINE_HEAD_BYTES));
  #path: string | undefined;
  #a = 0;
  #b = 0;

  constructor(view: DataView) {
    this.#view = view;
  }

  /** `timeAt`: 0 if the line has no time. */
  keyOf(path: string, offset: number, timeAt: number, textStart: number, textEnd: number): number {
    const view = this.#view;
    const head = this.#head;
    // Consecutive lines have the same path.
    if (path !== this.#path) {
      const { buffer, byteOffset, length } = Buffer.from(path.replace(ROTATED, ".log"));
      this.#reset();
      this.#add(new DataView(buffer, byteOffset, length), 0, length);
      head.setFloat64(0, this.#value(), true);
      this.#path = path;
    }
    head.setFloat64(8, offset, true);
    head.setUint32(16, timeAt === 0 ? 0 : view.getUint32(timeAt, true), true);
    head.setUint32(20, timeAt === 0 ? 0 : view.getUint32(timeAt + 4, true), true);
    this.#reset();
    this.#add(head, 0, LINE_HEAD_BYTES);
    this.#add(view, textStart, textEnd);
    return this.#value();
  }

  #reset(): void {
    this.#a = 0xdeadbeef | 0;
    this.#b = 0x41c6ce57;
  }

  #add(bytes: DataView, start: number, end: number): void {
    let a = this.#a ^ (end - start);
    let b = this.#b;
    let at = start;
    for (; at + 4 <= end; at += 4) {
      const word = bytes.getInt32(at, true);
      a = Math.imul(a ^ word, 0x9e3779b1);
      b = Math.imul(b ^ word, 0x5f356495);
      a ^= a >>> 15;
      b ^= b >>> 13;
    }
    for (; at < end; at += 1) {
      const byte = bytes.getUint8(at);
      a = Math.imul(a ^ byte, 0x9e3779b1);
      b = Math.imul(b ^ byte, 0x5f356495);
    }
    this.#a = a;
    this.#b = b;
  }

  #value(): number {
    let [a, b] = [this.#a, this.#b];
    a = Math.imul(a ^ (a >>> 16), 0x85ebca6b) ^ Math.imul(b ^ (b >>> 13), 0xc2b2ae35);
    b = Math.imul(b ^ (b >>> 16), 0x85ebca6b) ^ Math.imul(a ^ (a >>> 13), 0xc2b2ae35);
    return 2 ** 32 * (b & 0x1fffff) + (a >>> 0);
  }
}
