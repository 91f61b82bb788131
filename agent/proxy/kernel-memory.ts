// A kernel's memory as its host sees it: text and numbers, where the kernel says. Invariant: nothing is written beyond the room that the
// kernel gave; it gives up instead.
import { growTo, webAssembly, type WasmMemory } from "../../common/web-assembly.ts";

/** Thrown through the kernel: it has no words for what it does not take. */
export class GaveUp extends Error {
  static readonly instance = new GaveUp("the kernel gave up");
}

export class KernelMemory {
  readonly memory: WasmMemory;
  /** All of it, until it grows. */
  #bytes: Buffer = Buffer.alloc(0);

  constructor(pages: { initial: number; maximum: number }) {
    this.memory = new webAssembly.Memory(pages);
  }

  get byteLength(): number {
    return this.memory.buffer.byteLength;
  }

  /** Throws RangeError when it is more than there may be. */
  growTo(bytes: number): void {
    growTo(this.memory, bytes);
  }

  /** Valid until it grows. */
  bytes(): Buffer {
    const { buffer } = this.memory;
    if (this.#bytes.buffer !== buffer) this.#bytes = Buffer.from(buffer);
    return this.#bytes;
  }

  text(at: number, length: number): string {
    return this.bytes().toString("utf8", at, at + length);
  }

  /** How many bytes it took. Gives up on undefined. */
  write(text: string | undefined, to: number, room: number): number {
    if (text === undefined || Buffer.byteLength(text) > room) throw GaveUp.instance;
    return this.bytes().write(text, to, "utf8");
  }

  /** 32 bits each; how many bytes it took. */
  writeNumbers(numbers: readonly number[], to: number, room: number): number {
    if (4 * numbers.length > room) throw GaveUp.instance;
    for (const [index, number] of numbers.entries()) this.bytes().writeUInt32LE(number, to + 4 * index);
    return 4 * numbers.length;
  }
}
