// Types of the global WebAssembly, which Node's types leave out, how a program loads a kernel (hack/kernel.mjs), and the memory that both
// share. Invariant: a kernel that cannot be loaded is no failure; its user has a slower path.

export interface WasmMemory {
  readonly buffer: ArrayBuffer;
  /** Throws RangeError beyond its maximum, and where the machine has no more. */
  grow(pages: number): number;
}

interface WebAssemblyApi {
  Memory: new (size: { initial: number; maximum: number }) => WasmMemory;
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object, imports: object) => { readonly exports: unknown };
  RuntimeError: new () => Error;
}

export const webAssembly = (globalThis as typeof globalThis & { WebAssembly: WebAssemblyApi }).WebAssembly;

export const WASM_PAGE_BYTES = 65_536;

/** Starts the module, and throws if it was compiled from other sources than its caller expects: it lacks some of `names`. */
export function startKernel<Exports>(bytes: Uint8Array, names: readonly (keyof Exports & string)[], imports: object): Exports {
  const exports = new webAssembly.Instance(new webAssembly.Module(bytes), imports).exports as Record<string, unknown>;
  const missing = names.find((name) => typeof exports[name] !== "function");
  if (missing !== undefined) throw new Error(`the kernel was compiled of other sources: it has no ${missing}`);
  return exports as Exports;
}

/** Makes the memory at least `bytes` large. Throws RangeError. */
export function growTo(memory: WasmMemory, bytes: number): void {
  const missing = bytes - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / WASM_PAGE_BYTES));
}

/** A kernel that is made when it is first asked for, at most once a thread. */
export class LazyKernel<Kernel> {
  readonly #make: () => Kernel;
  #kernel: Kernel | undefined;
  #isTried = false;
  #problem: unknown;

  constructor(make: () => Kernel) {
    this.#make = make;
  }

  /** Undefined where it cannot be had: it was not compiled, or the processor or the memory do not allow it. */
  get(): Kernel | undefined {
    if (this.#isTried) return this.#kernel;
    this.#isTried = true;
    try {
      this.#kernel = this.#make();
    } catch (error) {
      // Safe: there is a slower implementation, and the program logs this when it starts.
      this.#problem = error;
    }
    return this.#kernel;
  }

  /** Why there is none. */
  get problem(): unknown {
    return this.#problem;
  }
}

// A kernel's memory as its host sees it: text and numbers, where the kernel says. Invariant: nothing is written beyond the room that the
// kernel gave; it gives up instead.

/** Thrown by the host on behalf of the kernel, which cannot make error objects. */
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
