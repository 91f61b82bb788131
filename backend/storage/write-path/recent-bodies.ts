// Remembers which request bodies of each sender were seen recently, in about 16 bytes per body; as strings, a million of them took 150 MB.
// Invariant: a body is remembered for at least the window and at most a quarter longer, and is never confused with another body of its
// sender.

const SLICES_PER_WINDOW = 4;

export class RecentBodies {
  readonly #sliceMs: number;
  readonly #nowMs: () => number;
  /** Newest first; each slice has the bodies of a quarter of the window, by sender. */
  #slices: Map<string, HashSet>[] = [new Map()];
  #rotatedAtMs: number;

  constructor(windowMs: number, nowMs: () => number = () => performance.now()) {
    this.#sliceMs = windowMs / SLICES_PER_WINDOW;
    this.#nowMs = nowMs;
    this.#rotatedAtMs = nowMs();
  }

  /** `hash`: 64 bits. */
  add(sender: string, hash: bigint): void {
    this.#rotate();
    const newest = this.#slices[0] as Map<string, HashSet>;
    let bodies = newest.get(sender);
    if (!bodies) newest.set(sender, (bodies = new HashSet()));
    bodies.add(hash);
  }

  has(sender: string, hash: bigint): boolean {
    this.#rotate();
    return this.#slices.some((slice) => slice.get(sender)?.has(hash));
  }

  #rotate(): void {
    const rotations = Math.floor((this.#nowMs() - this.#rotatedAtMs) / this.#sliceMs);
    if (rotations === 0) return;
    this.#rotatedAtMs += rotations * this.#sliceMs;
    const fresh = Array.from({ length: Math.min(rotations, SLICES_PER_WINDOW + 1) }, () => new Map<string, HashSet>());
    this.#slices = [...fresh, ...this.#slices].slice(0, SLICES_PER_WINDOW + 1);
  }
}

const INITIAL_SLOTS = 8;

/** A set of evenly distributed 64-bit hashes: open addressing, at most three quarters full. 0 marks an empty slot. */
class HashSet {
  #slots = new BigUint64Array(INITIAL_SLOTS);
  #size = 0;

  has(hash: bigint): boolean {
    return hash !== 0n && this.#slots[this.#slotOf(hash)] === hash;
  }

  add(hash: bigint): void {
    const slot = this.#slotOf(hash);
    if (this.#slots[slot] === hash) return;
    this.#slots[slot] = hash;
    this.#size += 1;
    if (this.#size * 4 > this.#slots.length * 3) this.#grow();
  }

  /** The slot of the hash, or the free slot for it. */
  #slotOf(hash: bigint): number {
    const last = this.#slots.length - 1;
    let slot = Number(BigInt.asUintN(32, hash)) & last;
    while (this.#slots[slot] !== 0n && this.#slots[slot] !== hash) slot = (slot + 1) & last;
    return slot;
  }

  #grow(): void {
    const before = this.#slots;
    this.#slots = new BigUint64Array(before.length * 2);
    for (const hash of before) if (hash !== 0n) this.#slots[this.#slotOf(hash)] = hash;
  }
}
