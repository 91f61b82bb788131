// Limits the memory of request bodies and of the data that they are turned into (decompressed, parsed, rows). Invariant: reservations never
// exceed the limit, nor the share of one owner (an organisation, or one network for unauthenticated clients). Each reservation is released
// once.
import { ApiError } from "../errors.ts";

const RETRY_AFTER_S = 1;

export class ByteBudget {
  readonly #limitBytes: number;
  readonly #shareBytes: number;
  readonly #keepsFree: boolean;
  readonly #byOwner = new Map<string, number>();
  /** Callbacks of bodies that wait until their owner uses less. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #heldBytes = 0;

  /**
   * An owner may use half of the budget, so that it cannot shut out others, and always enough for a body of `largestBytes` while its buffer
   * grows. `keepsFree`: an owner may use at most what remains free, so n owners leave 1/(n + 1) of the budget for the next one.
   */
  constructor(limitBytes: number, largestBytes: number, { keepsFree = false } = {}) {
    this.#limitBytes = limitBytes;
    this.#shareBytes = Math.max(limitBytes / 2, 2 * largestBytes);
    this.#keepsFree = keepsFree;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** A reservation for one body. Dispose it when the body is no longer referenced. */
  open(owner: string): Reservation {
    return new Reservation((bytes) => this.#change(owner, bytes));
  }

  /** Resolves when the owner uses less than half its share. Throws ApiError `unavailable` if `maxWaiting` of its bodies already wait. */
  async waitForSpace(owner: string, maxWaiting: number): Promise<void> {
    while ((this.#byOwner.get(owner) ?? 0) >= this.#shareBytes / 2) {
      const waiting = this.#waiting.get(owner) ?? [];
      if (waiting.length >= maxWaiting) throw budgetExceeded();
      this.#waiting.set(owner, waiting);
      await new Promise<void>((resolve) => waiting.push(resolve));
    }
  }

  #change(owner: string, bytes: number): void {
    const ownerBytes = (this.#byOwner.get(owner) ?? 0) + bytes;
    const freeBytes = this.#limitBytes - this.#heldBytes - bytes;
    if (bytes > 0 && (freeBytes < (this.#keepsFree ? ownerBytes : 0) || ownerBytes > this.#shareBytes)) throw budgetExceeded();
    this.#heldBytes += bytes;
    if (ownerBytes === 0) this.#byOwner.delete(owner);
    else this.#byOwner.set(owner, ownerBytes);
    if (bytes < 0 && ownerBytes < this.#shareBytes / 2) this.#wake(owner);
  }

  #wake(owner: string): void {
    const waiting = this.#waiting.get(owner) ?? [];
    this.#waiting.delete(owner);
    for (const resolve of waiting) resolve();
  }
}

function budgetExceeded(): ApiError {
  return new ApiError("unavailable", "too many request bodies are being received; retry later", { retryAfterS: RETRY_AFTER_S });
}

/** The bytes of the budget that one body uses. */
export class Reservation implements Disposable {
  readonly #change: (bytes: number) => void;
  #bytes = 0;
  #peakBytes = 0;

  constructor(change: (bytes: number) => void) {
    this.#change = change;
  }

  get peakBytes(): number {
    return this.#peakBytes;
  }

  /** Reserves more bytes, or releases some if negative. Throws ApiError `unavailable` if the budget is used up. */
  add(bytes: number): void {
    this.#change(bytes);
    this.#bytes += bytes;
    this.#peakBytes = Math.max(this.#peakBytes, this.#bytes);
  }

  [Symbol.dispose](): void {
    this.#change(-this.#bytes);
    this.#bytes = 0;
  }
}
