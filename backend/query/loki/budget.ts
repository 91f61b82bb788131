// What one query may take of its sandbox process. Invariant: between two records a query notices that it has computed longer, or read more,
// than its bounds allow, and that its client has left. What one record takes is bounded by the sandbox, which kills the process.
import { setImmediate as nextTurn } from "node:timers/promises";
import { ApiError } from "../../errors.ts";

const SLICE_MS = 5;

export interface Bounds {
  /** Read one by one, and bytes of them. */
  readonly records: number;
  readonly bytes: number;
  readonly computeMs: number;
}

export const BOUNDS: Bounds = { records: 200_000, bytes: 128 * 1024 * 1024, computeMs: 5000 };

export class Budget {
  readonly bounds: Bounds;
  readonly #signal: AbortSignal | undefined;
  #spentMs = 0;
  #sinceMs = performance.now();
  #sinceCpuMs = threadCpuMs();

  constructor(bounds: Bounds, signal: AbortSignal | undefined) {
    this.bounds = bounds;
    this.#signal = signal;
  }

  /** After waiting for others, which costs nothing. */
  begin(): void {
    this.#sinceMs = performance.now();
    this.#sinceCpuMs = threadCpuMs();
  }

  /** True: `breathe` has to be awaited. Cheap enough to be asked for each record. */
  get isDue(): boolean {
    return performance.now() - this.#sinceMs > SLICE_MS;
  }

  /** Throws ApiError query_too_expensive, and the signal's reason. */
  async breathe(): Promise<void> {
    this.#spentMs += threadCpuMs() - this.#sinceCpuMs;
    this.#signal?.throwIfAborted();
    const { computeMs } = this.bounds;
    if (this.#spentMs > computeMs) throw tooExpensive(`takes more than ${computeMs / 1000} s to compute here`);
    await nextTurn();
    this.begin();
  }
}

/** Not the time on the clock: the process yields to the backend, and the machine may have other work. */
function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

export function tooExpensive(what: string): ApiError {
  return new ApiError("query_too_expensive", `this query ${what}: add line filters or labels to the selector, or ask for a shorter range`);
}
