// Remembers which bodies of which sender were seen lately, in some 16 bytes each: a million of them as strings took 150 MB. Invariant: a
// body is known for at least the window, at most a quarter longer, and never taken for another of its sender.

const SLICES_PER_WINDOW = 4;

export class RecentBodies {
  readonly #sliceMs: number;
  readonly #nowMs: () => number;
  /** Newest first; each holds what came within a quarter of the window, by sender. */
  #slices: Map<string, HashSet>[] = [new Map()];
  #turnedAtMs: number;

  constructor(windowMs: number, nowMs: () => number = () => performance.now()) {
    this.#sliceMs = windowMs / SLICES_PER_WINDOW;
    this.#nowMs = nowMs;
    this.#turnedAtMs = nowMs();
  }

  /** `hash`: 64 bits. */
  add(sender: string, hash: bigint): void {
    this.#turn();
    const newest = this.#slices[0] as Map<string, HashSet>;
    let bodies = newest.get(sender);
    if (!bodies) newest.set(sender, (bodies = new HashSet()));
    bodies.add(hash);
  }

  has(sender: string, hash: bigint): boolean {
    this.#turn();
    return this.#slices.some((slice) => slice.get(sender)?.has(hash));
  }

  #turn(): void {
    const turns = Math.floor((this.#nowMs() - this.#turnedAtMs) / this.#sliceMs);
    if (turns === 0) return;
    this.#turnedAtMs += turns * this.#sliceMs;
    const fresh = Array.from({ length: Math.min(turns, SLICES_PER_WINDOW + 1) }, () => new Map<string, HashSet>());
    this.#slices = [...fresh, ...this.#slices].slice(0, SLICES_PER_WINDOW + 1);
  }
}

const FIRST_PLACES = 8;

/** Hashes of 64 bits, which are spread evenly already: open addressing, at most three quarters full. 0 is an empty place and never in. */
class HashSet {
  #places = new BigUint64Array(FIRST_PLACES);
  #size = 0;

  has(hash: bigint): boolean {
    return hash !== 0n && this.#places[this.#placeOf(hash)] === hash;
  }

  add(hash: bigint): void {
    const place = this.#placeOf(hash);
    if (this.#places[place] === hash) return;
    this.#places[place] = hash;
    this.#size += 1;
    if (this.#size * 4 > this.#places.length * 3) this.#grow();
  }

  /** Where the hash is, or would be. */
  #placeOf(hash: bigint): number {
    const last = this.#places.length - 1;
    let place = Number(BigInt.asUintN(32, hash)) & last;
    while (this.#places[place] !== 0n && this.#places[place] !== hash) place = (place + 1) & last;
    return place;
  }

  #grow(): void {
    const before = this.#places;
    this.#places = new BigUint64Array(before.length * 2);
    for (const hash of before) if (hash !== 0n) this.#places[this.#placeOf(hash)] = hash;
  }
}
