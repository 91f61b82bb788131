// Keeps objects of many namespaces within memory limits. Invariants: the objects of a namespace, and of all namespaces, never exceed their
// limits; a namespace with few objects loses none because of others.

interface Kept<T> {
  readonly object: T;
  readonly namespace: string;
  readonly characters: number;
}

/** Characters of JSON per namespace, and in total. */
export interface MaxCharacters {
  readonly perNamespace: number;
  readonly total: number;
}

/** If the limit is exceeded, objects are dropped down to this fraction of it, so that the next objects do not exceed it again. */
const SHRINK_TO = 7 / 8;

export class KeptObjects<T> {
  readonly #max: MaxCharacters;
  readonly #kept = new Map<string, Kept<T>>();
  /** Characters of the objects of each namespace. */
  readonly #characters = new Map<string, number>();
  #total = 0;
  readonly #dropped = new Map<string, number>();

  constructor(max: MaxCharacters) {
    this.#max = max;
  }

  get objects(): readonly T[] {
    return [...this.#kept.values()].map(({ object }) => object);
  }

  /** Number of objects per namespace that did not fit. */
  get dropped(): ReadonlyMap<string, number> {
    return this.#dropped;
  }

  /** Adds or replaces an object; if it does not fit, drops it or others. */
  set(uid: string, namespace: string, object: T): void {
    this.delete(uid);
    const characters = JSON.stringify(object).length;
    const namespaceTotal = (this.#characters.get(namespace) ?? 0) + characters;
    this.#kept.set(uid, { object, namespace, characters });
    this.#characters.set(namespace, namespaceTotal);
    this.#total += characters;
    if (namespaceTotal > this.#max.perNamespace) this.#drop(uid, namespace);
    else if (this.#total > this.#max.total) this.#shrink(this.#max.total * SHRINK_TO);
  }

  delete(uid: string): void {
    const object = this.#kept.get(uid);
    if (!object) return;
    this.#kept.delete(uid);
    this.#total -= object.characters;
    const remaining = (this.#characters.get(object.namespace) ?? 0) - object.characters;
    if (remaining > 0) this.#characters.set(object.namespace, remaining);
    else this.#characters.delete(object.namespace);
  }

  /** Drops objects of the largest namespaces, most recently added first. */
  #shrink(limit: number): void {
    const namespaceLimit = fairLimit(this.#characters.values(), limit);
    for (const [uid, { namespace }] of [...this.#kept].toReversed()) {
      if (this.#total <= limit) return;
      if ((this.#characters.get(namespace) ?? 0) > namespaceLimit) this.#drop(uid, namespace);
    }
  }

  #drop(uid: string, namespace: string): void {
    this.delete(uid);
    this.#dropped.set(namespace, (this.#dropped.get(namespace) ?? 0) + 1);
  }
}

/** Returns the limit for each demand, so that all together get at most `total` (max-min fairness); Infinity if all demands fit. */
export function fairLimit(demands: Iterable<number>, total: number): number {
  const sorted = [...demands].toSorted((a, b) => a - b);
  let remaining = total;
  for (const [i, amount] of sorted.entries()) {
    const share = remaining / (sorted.length - i);
    if (amount > share) return share;
    remaining -= amount;
  }
  return Number.POSITIVE_INFINITY;
}
