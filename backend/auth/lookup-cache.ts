// What this replica knows of the rows that requests name, so that a request costs no question to the database. Invariant: nothing known is
// older than LOOKUP_CACHE_MS, so that a change anywhere is in force everywhere within 5 s; memory is bounded; an id is looked up once
// however many requests carry it.

/** Oldest knowledge that is used. With the time of a query it stays below the promised 5 s. */
export const LOOKUP_CACHE_MS = 4_000;
/** From this age on what is in use is looked up again in the background, so that busy ids never wait. */
const REFRESH_MS = 2_000;
const MAX_KNOWN = 50_000;
/** Unknown ids are kept apart and for less long, so that nobody can push real ones out. */
const MAX_UNKNOWN = 5_000;
const UNKNOWN_MS = 1_000;

export class LookupCache<T> {
  readonly #lookUp: (id: string) => Promise<T | undefined>;
  readonly #now: () => number;
  readonly #known = new Map<string, { found: T; loadedMs: number }>();
  readonly #unknown = new Map<string, number>();
  readonly #loading = new Map<string, Promise<T | undefined>>();

  constructor(lookUp: (id: string) => Promise<T | undefined>, now: () => number = Date.now) {
    this.#lookUp = lookUp;
    this.#now = now;
  }

  /** Undefined where there is no such row; an answer that is not a promise costs no wait. */
  find(id: string): T | undefined | Promise<T | undefined> {
    const nowMs = this.#now();
    const known = this.#known.get(id);
    if (known) {
      const ageMs = Math.abs(nowMs - known.loadedMs);
      if (ageMs < REFRESH_MS) return known.found;
      const loading = this.#load(id);
      if (ageMs >= LOOKUP_CACHE_MS) return loading;
      // Safe to go on: the entry is young enough, and at LOOKUP_CACHE_MS the request itself waits and fails.
      loading.catch(() => undefined);
      return known.found;
    }
    const refusedMs = this.#unknown.get(id);
    if (refusedMs !== undefined && nowMs - refusedMs < UNKNOWN_MS) return undefined;
    return this.#load(id);
  }

  /** A change made by this replica is in force here at once. */
  forget(...ids: string[]): void {
    for (const id of ids) {
      this.#known.delete(id);
      this.#unknown.delete(id);
      this.#loading.delete(id);
    }
  }

  #load(id: string): Promise<T | undefined> {
    const underway = this.#loading.get(id);
    if (underway) return underway;
    const askedMs = this.#now();
    // An answer that was asked for before `forget` may be older than the change: it is given, and not remembered.
    const current = () => this.#loading.get(id) === loading;
    const loading = this.#lookUp(id)
      .then((found) => {
        if (current()) this.#remember(id, found, askedMs);
        return found;
      })
      .finally(() => current() && this.#loading.delete(id));
    this.#loading.set(id, loading);
    return loading;
  }

  #remember(id: string, found: T | undefined, loadedMs: number): void {
    this.#known.delete(id);
    this.#unknown.delete(id);
    if (found !== undefined) bounded(this.#known, MAX_KNOWN).set(id, { found, loadedMs });
    else bounded(this.#unknown, MAX_UNKNOWN).set(id, loadedMs);
  }
}

function bounded<K, V>(map: Map<K, V>, max: number): Map<K, V> {
  if (map.size >= max) map.delete(map.keys().next().value as K);
  return map;
}
