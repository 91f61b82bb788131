// Bounds the memory of all ingest bodies held at once, compressed and decompressed. Invariant: what is reserved never exceeds the
// limit, nor the share of one tenant, and every reservation is given back exactly once. Used by ingest/door.ts and ingest/body.ts.
import { ApiError } from "../errors.ts";

const RETRY_AFTER_S = 1;

export class ByteBudget {
  readonly #limitBytes: number;
  readonly #orgBytes: number;
  readonly #byOrg = new Map<string, number>();
  #heldBytes = 0;

  /** One tenant gets half, so that it cannot shut out the others, but enough for a body of `largestBytes` while its buffer grows. */
  constructor(limitBytes: number, largestBytes: number) {
    this.#limitBytes = limitBytes;
    this.#orgBytes = Math.max(limitBytes / 2, 2 * largestBytes);
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** An account for one body; dispose it when nothing refers to the body any more. */
  open(orgId: string): Reservation {
    return new Reservation((bytes) => this.#change(orgId, bytes));
  }

  #change(orgId: string, bytes: number): void {
    const ofOrg = (this.#byOrg.get(orgId) ?? 0) + bytes;
    if (bytes > 0 && (this.#heldBytes + bytes > this.#limitBytes || ofOrg > this.#orgBytes)) {
      throw new ApiError("unavailable", "too many bodies are being received at once; send it again later", { retryAfterS: RETRY_AFTER_S });
    }
    this.#heldBytes += bytes;
    if (ofOrg === 0) this.#byOrg.delete(orgId);
    else this.#byOrg.set(orgId, ofOrg);
  }
}

/** What one body holds of the budget. */
export class Reservation implements Disposable {
  readonly #change: (bytes: number) => void;
  #bytes = 0;
  #mostBytes = 0;

  constructor(change: (bytes: number) => void) {
    this.#change = change;
  }

  /** The most it ever held. */
  get mostBytes(): number {
    return this.#mostBytes;
  }

  /** Takes more, or gives back with a negative number. Throws ApiError `unavailable` when the budget is used up. */
  add(bytes: number): void {
    this.#change(bytes);
    this.#bytes += bytes;
    this.#mostBytes = Math.max(this.#mostBytes, this.#bytes);
  }

  [Symbol.dispose](): void {
    this.#change(-this.#bytes);
    this.#bytes = 0;
  }
}
