// Limits the memory of request bodies, of the data that they are turned into (decompressed, parsed, rows), and of responses. Invariants:
// reservations never exceed the limit; an owner (an organisation, or one network for unauthenticated clients) takes more only if as much
// stays free as it already uses; memory that a slow client keeps is taken back from the owner with the most when another one needs it. Each
// reservation is released once.
import { ApiError } from "../errors.ts";
import { mayTake } from "./share.ts";

const RETRY_AFTER_S = 1;
/** The speed of a transfer is not known before it has taken this long. */
const SPEED_KNOWN_MS = 1000;

interface Owner {
  bytes: number;
  /** Reservations whose transfer has begun; `takeBack` is unset in those whose transfer has ended. */
  readonly transfers: Set<Reservation>;
}

export class ByteBudget {
  readonly #limitBytes: number;
  readonly #byOwner = new Map<string, Owner>();
  /** Callbacks of bodies that wait until their owner uses less. */
  readonly #waiting = new Map<string, (() => void)[]>();
  /** For the reservations. */
  readonly #account: Account = {
    change: (owner, bytes) => this.#change(owner, bytes),
    begin: (owner, reservation) => void this.#ownerOf(owner).transfers.add(reservation),
    end: (owner, reservation) => {
      const own = this.#ownerOf(owner);
      own.transfers.delete(reservation);
      this.#forgetUnused(owner, own);
    },
  };
  #heldBytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** Bytes that the owner uses. */
  ownBytes(owner: string): number {
    return this.#byOwner.get(owner)?.bytes ?? 0;
  }

  /** A reservation for one body. Dispose it when the body is no longer referenced. */
  open(owner: string): Reservation {
    return new Reservation(owner, this.#account);
  }

  /** Resolves when the owner uses less than a quarter. Throws ApiError `unavailable` if `maxWaiting` of its bodies already wait. */
  async waitForSpace(owner: string, maxWaiting: number): Promise<void> {
    while (this.ownBytes(owner) >= this.#limitBytes / 4) {
      const waiting = this.#waiting.get(owner) ?? [];
      if (waiting.length >= maxWaiting) throw budgetExceeded();
      this.#waiting.set(owner, waiting);
      await new Promise<void>((resolve) => waiting.push(resolve));
    }
  }

  #change(owner: string, bytes: number): void {
    if (bytes > 0) this.#makeSpace(owner, bytes);
    this.#heldBytes += bytes;
    const own = this.#ownerOf(owner);
    own.bytes += bytes;
    this.#forgetUnused(owner, own);
    if (bytes < 0 && own.bytes < this.#limitBytes / 4) this.#wake(owner);
  }

  #ownerOf(id: string): Owner {
    const known = this.#byOwner.get(id);
    if (known) return known;
    const owner: Owner = { bytes: 0, transfers: new Set() };
    this.#byOwner.set(id, owner);
    return owner;
  }

  #forgetUnused(id: string, { bytes, transfers }: Owner): void {
    if (bytes === 0 && transfers.size === 0) this.#byOwner.delete(id);
  }

  /**
   * Takes memory back until there is enough: for an owner that uses none, from any other; else from one that uses more than both together.
   * Throws ApiError `unavailable` if there is none that can be taken back.
   */
  #makeSpace(owner: string, bytes: number): void {
    const own = this.ownBytes(owner);
    while (!mayTake(bytes, { limit: this.#limitBytes, used: this.#heldBytes, own })) {
      const slowest = this.#findSlowest(owner, own === 0 ? 0 : own + bytes);
      if (!slowest) throw budgetExceeded();
      const { takeBack } = slowest;
      slowest[Symbol.dispose]();
      takeBack?.();
    }
  }

  /** The slowest transfer of the owner that uses most, if that is more than `leastBytes`. */
  #findSlowest(exceptOwner: string, leastBytes: number): Reservation | undefined {
    let slowest: Reservation | undefined;
    let mostBytes = leastBytes;
    const nowMs = performance.now();
    for (const [owner, { bytes, transfers }] of this.#byOwner) {
      if (owner === exceptOwner || bytes <= mostBytes) continue;
      let ofOwner: Reservation | undefined;
      for (const each of transfers) {
        if (each.bytes > 0 && each.takeBack && (!ofOwner || each.speedAt(nowMs) < ofOwner.speedAt(nowMs))) ofOwner = each;
      }
      if (ofOwner) [slowest, mostBytes] = [ofOwner, bytes];
    }
    return slowest;
  }

  #wake(owner: string): void {
    const waiting = this.#waiting.get(owner) ?? [];
    this.#waiting.delete(owner);
    for (const resolve of waiting) resolve();
  }
}

function budgetExceeded(): ApiError {
  return new ApiError("unavailable", "too much memory is in use by request bodies or responses; retry later", {
    retryAfterS: RETRY_AFTER_S,
  });
}

interface Account {
  change(owner: string, bytes: number): void;
  begin(owner: string, transfer: Reservation): void;
  end(owner: string, transfer: Reservation): void;
}

/** The bytes of the budget that one body uses. */
export class Reservation implements Disposable {
  /** Ends the transfer. Set while a client still sends or reads. */
  takeBack: (() => void) | undefined;
  /** Bytes that the client has sent or read. */
  movedBytes = 0;
  readonly #owner: string;
  readonly #account: Account;
  /** Set once the transfer has begun. */
  #sinceMs: number | undefined;
  #bytes = 0;
  #peakBytes = 0;
  #isOver = false;

  constructor(owner: string, account: Account) {
    this.#owner = owner;
    this.#account = account;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get peakBytes(): number {
    return this.#peakBytes;
  }

  /** Call when a client begins to send or to read. `takeBack` ends the transfer at once, because another owner needs the memory. */
  beginTransfer(takeBack: () => void): void {
    this.takeBack = takeBack;
    this.#sinceMs = performance.now();
    if (!this.#isOver) this.#account.begin(this.#owner, this);
  }

  /** Bytes per millisecond. A transfer that has just begun is the fastest. */
  speedAt(nowMs: number): number {
    const elapsedMs = nowMs - (this.#sinceMs ?? nowMs);
    return elapsedMs < SPEED_KNOWN_MS ? Number.MAX_VALUE : this.movedBytes / elapsedMs;
  }

  /** Reserves more bytes, or releases some if negative. Throws ApiError `unavailable` if the budget is used up. */
  add(bytes: number): void {
    if (this.#isOver) {
      if (bytes > 0) throw budgetExceeded();
      return;
    }
    this.#account.change(this.#owner, bytes);
    this.#bytes += bytes;
    this.#peakBytes = Math.max(this.#peakBytes, this.#bytes);
  }

  [Symbol.dispose](): void {
    if (this.#isOver) return;
    this.#account.change(this.#owner, -this.#bytes);
    if (this.#sinceMs !== undefined) this.#account.end(this.#owner, this);
    this.#bytes = 0;
    this.#isOver = true;
    this.takeBack = undefined;
  }
}
