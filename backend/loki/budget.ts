// What one query may take of this process, whose event loop is everybody's. Invariant: no query computes longer at a stretch than SLICE_MS and
// what one record or one moment takes, nor longer in all than MOST_MS; what would is refused, and what its client has left ends.
import { setImmediate as nextTurn } from "node:timers/promises";
import { ApiError } from "../errors.ts";

const SLICE_MS = 5;
const MOST_MS = 5000;

export class Budget {
  readonly #signal: AbortSignal | undefined;
  #spentMs = 0;
  #sinceMs = performance.now();

  constructor(signal?: AbortSignal) {
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
    if (this.#spentMs > MOST_MS) throw tooExpensive(`takes more than ${MOST_MS / 1000} s to compute here`);
    await nextTurn();
    this.#sinceMs = performance.now();
  }
}

export function tooExpensive(what: string): ApiError {
  return new ApiError("query_too_expensive", `this query ${what}: add line filters or labels to the selector, or ask for a shorter range`);
}
