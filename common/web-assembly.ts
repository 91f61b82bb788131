// What is used of the global WebAssembly, of which Node's types say nothing, and how a program gets a kernel (hack/kernel.mjs).
// Invariant: a kernel that cannot be had is no failure; its user has a slower way.

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
