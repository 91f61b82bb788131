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

const webAssembly = (globalThis as typeof globalThis & { WebAssembly: WebAssemblyApi }).WebAssembly;

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

  /**
   * Undefined if the kernel is not available: the processor or the memory do not allow it, or it was not compiled, as in a checkout in which
   * neither `npm start` nor `npm test` ever ran.
   */
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

function giveUp(): never {
  throw KernelFallback.instance;
}

interface KernelProgram<Exports> {
  /** The functions that the kernel must export. */
  readonly names: readonly (keyof Exports & string)[];
  readonly pages: { readonly initial: number; readonly maximum: number };
  /** The functions that it imports, in addition to `giveUp`. */
  readonly host?: object;
}

/** A running kernel and its memory. It serves one call at a time; each starts from a clean state. */
export abstract class KernelHost<Exports> {
  protected readonly exports: Exports;
  protected readonly memory: WasmMemory;
  /** The whole memory; replaced when it grows. */
  #bytes: Buffer = Buffer.alloc(0);
  #traps = 0;

  constructor(bytes: Uint8Array, { names, pages, host }: KernelProgram<Exports>) {
    this.memory = new webAssembly.Memory(pages);
    this.exports = startKernel<Exports>(bytes, names, { env: { memory: this.memory }, host: { giveUp, ...host } });
  }

  /** Number of crashes of the kernel. No body that causes one is known. */
  get traps(): number {
    return this.#traps;
  }

  /** The memory never shrinks. */
  get memoryBytes(): number {
    return this.bytes().length;
  }

  /** Grows the memory to at least `bytes`. Throws RangeError beyond the maximum. */
  protected growTo(bytes: number): void {
    const missing = bytes - this.memoryBytes;
    if (missing > 0) this.memory.grow(Math.ceil(missing / WASM_PAGE_BYTES));
  }

  /** Valid until the memory grows. */
  protected bytes(): Buffer {
    // A memory that grows detaches its buffer, which then has no bytes. Asking the memory for its buffer costs more.
    if (this.#bytes.length === 0) this.#bytes = Buffer.from(this.memory.buffer);
    return this.#bytes;
  }

  /** Returns undefined if the kernel ended with this error: the slow path continues. */
  protected fallBack(error: unknown): undefined {
    if (error instanceof KernelFallback || error instanceof RangeError) return undefined;
    if (!(error instanceof webAssembly.RuntimeError)) throw error;
    this.#traps += 1;
    return undefined;
  }
}
