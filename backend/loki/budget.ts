// What one query may take of this process, whose event loop is everybody's. Invariant: no query computes longer at a stretch than SLICE_MS and
// what one record or one moment takes, nor longer in all than its bounds say, nor reads more; what would is refused, and what its client has
// left ends.
import { setImmediate as nextTurn } from "node:timers/promises";
import { ApiError } from "../errors.ts";

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

  constructor(bounds: Bounds, signal: AbortSignal | undefined) {
    this.bounds = bounds;
    this.#signal = signal;
  }

  /** After waiting for others, which costs nothing. */
  begin(): void {
    this.#sinceMs = performance.now();
  }

  /** True: `breathe` has to be awaited. Cheap enough to be asked for each record. */
  get isDue(): boolean {
    return performance.now() - this.#sinceMs > SLICE_MS;
  }

  /** Throws ApiError query_too_expensive, and the signal's reason. */
  async breathe(): Promise<void> {
    this.#spentMs += performance.now() - this.#sinceMs;
    this.#signal?.throwIfAborted();
    const { computeMs } = this.bounds;
    if (this.#spentMs > computeMs) throw tooExpensive(`takes more than ${computeMs / 1000} s to compute here`);
    await nextTurn();
    this.#sinceMs = performance.now();
  }
}

export function tooExpensive(what: string): ApiError {
  return new ApiError("query_too_expensive", `this query ${what}: add line filters or labels to the selector, or ask for a shorter range`);
}
