// How many different ones there are, in 4 KiB however many they are: a HyperLogLog of 4096 registers over 32-bit hashes, by Ertl's improved
// estimator (arXiv 1702.01284, algorithm 6), which is off by 1.6 % (one standard deviation) at any size. Invariant: what was added before
// changes nothing.

const INDEX_BITS = 12;
export const REGISTERS = 2 ** INDEX_BITS;
const RANK_BITS = 32 - INDEX_BITS;
/** The highest rank of a hash. */
const MOST_RANK = RANK_BITS + 1;
const SCALE = REGISTERS ** 2 / (2 * Math.LN2);

export function registerOf(hash: number): number {
  return hash >>> RANK_BITS;
}

/** 1 for half of all hashes, 2 for a quarter, and so on. */
export function rankOf(hash: number): number {
  return Math.min(MOST_RANK, Math.clz32(hash << INDEX_BITS) + 1);
}

/** How many registers have each rank, of which alone the estimate depends. */
export class Ranks {
  readonly #counts = new Float64Array(MOST_RANK + 1);

  constructor(registers?: Uint8Array) {
    if (registers) for (const rank of registers) this.#counts[rank] = (this.#counts[rank] as number) + 1;
    else this.#counts[0] = REGISTERS;
  }

  move(from: number, to: number): void {
    this.#counts[from] = (this.#counts[from] as number) - 1;
    this.#counts[to] = (this.#counts[to] as number) + 1;
  }

  estimate(): number {
    let sum = REGISTERS * tau(1 - (this.#counts[MOST_RANK] as number) / REGISTERS);
    for (let rank = RANK_BITS; rank >= 1; rank -= 1) sum = 0.5 * (sum + (this.#counts[rank] as number));
    sum += REGISTERS * sigma((this.#counts[0] as number) / REGISTERS);
    return Math.round(SCALE / sum);
  }
}

/** Of the share of registers that nothing has reached. */
function sigma(share: number): number {
  if (share === 1) return Number.POSITIVE_INFINITY;
  let [x, y, z] = [share, 1, share];
  for (let before = Number.NaN; z !== before; y += y) {
    before = z;
    x *= x;
    z += x * y;
  }
  return z;
}

/** Of the share of registers that are not full. */
function tau(share: number): number {
  if (share === 0 || share === 1) return 0;
  let [x, y, z] = [share, 1, 1 - share];
  for (let before = Number.NaN; z !== before;) {
    before = z;
    x = Math.sqrt(x);
    y *= 0.5;
    z -= (1 - x) ** 2 * y;
  }
  return z / 3;
}
