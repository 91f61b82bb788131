// Loads kernels (hack/kernel.mjs) and defines the memory that a kernel shares with its program. Invariants: a kernel that cannot be loaded
// is not an error, because its user has a slower path; the host never writes beyond the space that the kernel provides, but falls back
// instead.

interface WasmMemory {
  readonly buffer: ArrayBuffer;
  /** Throws RangeError beyond its maximum, or if the machine is out of memory. */
  grow(pages: number): number;
}

interface WebAssemblyApi {
  Memory: new (size: { initial: number; maximum: number }) => WasmMemory;
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object, imports: object) => { readonly exports: unknown };
  RuntimeError: new () => Error;
}

export const webAssembly = (globalThis as typeof globalThis & { WebAssembly: WebAssemblyApi }).WebAssembly;

const WASM_PAGE_BYTES = 65_536;

/** Starts the module. Throws if it lacks some of `names`: it was then compiled from other sources than the caller expects. */
export function startKernel<Exports>(bytes: Uint8Array, names: readonly (keyof Exports & string)[], imports: object): Exports {
  const exports = new webAssembly.Instance(new webAssembly.Module(bytes), imports).exports as Record<string, unknown>;
  const missing = names.find((name) => typeof exports[name] !== "function");
  if (missing !== undefined) throw new Error(`the kernel was compiled of other sources: it has no ${missing}`);
  return exports as Exports;
}

/** A kernel that is created on first use, at most once per thread. */
export class LazyKernel<Kernel> {
  readonly #make: () => Kernel;
  #kernel: Kernel | undefined;
  #isTried = false;
  #problem: unknown;

  constructor(make: () => Kernel) {
    this.#make = make;
  }

  /** Undefined if the kernel is not available: it was not compiled, or the processor or the memory do not allow it. */
  get(): Kernel | undefined {
    if (this.#isTried) return this.#kernel;
    this.#isTried = true;
    try {
      this.#kernel = this.#make();
    } catch (error) {
      // There is a slower implementation, and the program logs the problem when it starts.
      this.#problem = error;
    }
    return this.#kernel;
  }

  /** Why the kernel is not available. */
  get problem(): unknown {
    return this.#problem;
  }
}

/** Thrown by the host on behalf of the kernel, which cannot make error objects. */
export class KernelFallback extends Error {
  static readonly instance = new KernelFallback("the kernel does not support this input");
}

/** A kernel's memory as its host sees it: reads and writes text and numbers at the kernel's addresses. */
export class KernelMemory {
  readonly memory: WasmMemory;
  /** The whole memory; replaced when it grows. */
  #bytes: Buffer = Buffer.alloc(0);

  constructor(pages: { initial: number; maximum: number }) {
    this.memory = new webAssembly.Memory(pages);
  }

  get byteLength(): number {
    return this.memory.buffer.byteLength;
  }

  /** Grows the memory to at least `bytes`. Throws RangeError beyond the maximum. */
  growTo(bytes: number): void {
    const missing = bytes - this.byteLength;
    if (missing > 0) this.memory.grow(Math.ceil(missing / WASM_PAGE_BYTES));
  }

  /** Valid until the memory grows. */
  bytes(): Buffer {
    const { buffer } = this.memory;
    if (this.#bytes.buffer !== buffer) this.#bytes = Buffer.from(buffer);
    return this.#bytes;
  }

  text(at: number, length: number): string {
    return this.bytes().toString("utf8", at, at + length);
  }

  /** Returns the number of bytes written. Falls back for undefined. */
  write(text: string | undefined, to: number, room: number): number {
    if (text === undefined || Buffer.byteLength(text) > room) throw KernelFallback.instance;
    return this.bytes().write(text, to, "utf8");
  }

  /** Writes 32 bits each; returns the number of bytes written. */
  writeNumbers(numbers: readonly number[], to: number, room: number): number {
    if (4 * numbers.length > room) throw KernelFallback.instance;
    for (const [index, number] of numbers.entries()) this.bytes().writeUInt32LE(number, to + 4 * index);
    return 4 * numbers.length;
  }
}
