// Writes protobuf from the end to the beginning, so that the length of a message is known when it is written before the message's content.
// Invariant: the output never exceeds the capacity, which the caller calculates.
const MORE = 0x80;

export class WireWriter {
  readonly #bytes: Buffer;
  #at: number;

  constructor(capacity: number) {
    this.#bytes = Buffer.allocUnsafe(capacity);
    this.#at = capacity;
  }

  /** The offset of what was written last; pass it to `field` as the end of a message. */
  get position(): number {
    return this.#at;
  }

  copy(source: Buffer, start: number, end: number): void {
    this.#at -= end - start;
    source.copy(this.#bytes, this.#at, start, end);
  }

  /** Writes the tag and the length of a field whose content was written since the writer had this position. */
  field(number: number, end: number): void {
    this.#varint(end - this.#at);
    this.#varint((number << 3) | 2);
  }

  text(number: number, text: string): void {
    const end = this.#at;
    this.#at -= Buffer.byteLength(text);
    this.#bytes.write(text, this.#at);
    this.field(number, end);
  }

  /** What was written since the writer had the position `end`. */
  take(end = this.#bytes.length): Buffer {
    return this.#bytes.subarray(this.#at, end);
  }

  /** Forgets what was written since then. Returns nothing. */
  dropUntil(end: number): Buffer {
    this.#at = end;
    return this.take(end);
  }

  #varint(value: number): void {
    let count = 1;
    for (let rest = value; rest >= MORE; rest = Math.floor(rest / MORE)) count += 1;
    this.#at -= count;
    let rest = value;
    for (let index = 0; index < count; index += 1) {
      this.#bytes[this.#at + index] = (rest % MORE) + (index + 1 < count ? MORE : 0);
      rest = Math.floor(rest / MORE);
    }
  }
}
