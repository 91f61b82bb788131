// Bounds the memory of what is held at once: bodies, and what they become (decompressed, parsed, rows). Invariant: what is reserved never
// exceeds the limit, nor the share of one tenant, or of one network where it is strangers'; every reservation is given back exactly once.
import { ApiError } from "../errors.ts";

const RETRY_AFTER_S = 1;

export class ByteBudget {
  readonly #limitBytes: number;
  readonly #orgBytes: number;
  readonly #leavesRoom: boolean;
  readonly #byOrg = new Map<string, number>();
  /** Of tenants that wait for room. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #heldBytes = 0;

  /**
   * One tenant gets half, so that it cannot shut out the others, but enough for a body of `largestBytes` while its buffer grows.
   * `leavesRoom`: nobody takes more than is still free then, so that n of them leave one part of n + 1 to whoever comes next.
   */
  constructor(limitBytes: number, largestBytes: number, { leavesRoom = false } = {}) {
    this.#limitBytes = limitBytes;
    this.#orgBytes = Math.max(limitBytes / 2, 2 * largestBytes);
    this.#leavesRoom = leavesRoom;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** An account for one body; dispose it when nothing refers to the body any more. */
  open(orgId: string): Reservation {
    return new Reservation((bytes) => this.#change(orgId, bytes));
  }

  /** Resolves when the tenant holds less than half its share. Throws ApiError `unavailable` when `mostWaiting` of it wait already. */
  async whenRoom(orgId: string, mostWaiting: number): Promise<void> {
    while ((this.#byOrg.get(orgId) ?? 0) >= this.#orgBytes / 2) {
      const waiting = this.#waiting.get(orgId) ?? [];
      if (waiting.length >= mostWaiting) throw full();
      this.#waiting.set(orgId, waiting);
      await new Promise<void>((resolve) => waiting.push(resolve));
    }
  }

  #change(orgId: string, bytes: number): void {
    const ofOrg = (this.#byOrg.get(orgId) ?? 0) + bytes;
    const freeBytes = this.#limitBytes - this.#heldBytes - bytes;
    if (bytes > 0 && (freeBytes < (this.#leavesRoom ? ofOrg : 0) || ofOrg > this.#orgBytes)) throw full();
    this.#heldBytes += bytes;
    if (ofOrg === 0) this.#byOrg.delete(orgId);
    else this.#byOrg.set(orgId, ofOrg);
    if (bytes < 0 && ofOrg < this.#orgBytes / 2) this.#wake(orgId);
  }

  #wake(orgId: string): void {
    const waiting = this.#waiting.get(orgId) ?? [];
    this.#waiting.delete(orgId);
    for (const resolve of waiting) resolve();
  }
}

function full(): ApiError {
  return new ApiError("unavailable", "too many bodies are being received at once; send it again later", { retryAfterS: RETRY_AFTER_S });
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
