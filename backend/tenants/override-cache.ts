// Caches the values that operators set for single organisations (ingest limits, retention) instead of the defaults. Invariant: `of` needs no
// statement and no wait. One statement reads all values every 3 s while they are used, so a change takes effect everywhere within 5 s. While
// the database is unreachable, the last known values apply.
const REFRESH_MS = 3_000;

export interface OverrideCacheOptions<T> {
  /** The values of organisations for which an operator has set none. */
  readonly defaults: T;
  /** Reads the values of all other organisations. */
  readonly readAll: () => Promise<ReadonlyMap<string, T>>;
  /** Milliseconds of a monotonic clock. */
  readonly now?: (() => number) | undefined;
}

export class OverrideCache<T> {
  readonly #options: OverrideCacheOptions<T>;
  readonly #now: () => number;
  #known = new Map<string, T>();
  #readAtMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(options: OverrideCacheOptions<T>) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  of(orgId: string): T {
    if (this.#now() - this.#readAtMs >= REFRESH_MS) void this.refresh();
    return this.#known.get(orgId) ?? this.#options.defaults;
  }

  /** Reads the values of all organisations. Never throws. */
  async refresh(): Promise<void> {
    this.#readAtMs = this.#now();
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  /** Call after this replica has made a change, so that the change takes effect here immediately. */
  put(orgId: string, value: T): void {
    this.#known.set(orgId, value);
  }

  async #read(): Promise<void> {
    try {
      this.#known = new Map(await this.#options.readAll());
    } catch {
      // Safe to ignore: the last known values apply, and other users of the database report that it is unreachable.
    }
  }
}
