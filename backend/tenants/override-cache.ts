// Caches the values that operators set for single organisations (ingest limits, retention) instead of the defaults. Invariant: `of` needs no
// statement and no wait. One statement reads all values every 3 s, also while they are not used: a change takes effect everywhere within
// 5 s, and the first request after a pause does not meet old values. While the database is unreachable, the last known values apply.
import { Loop } from "../../common/loop.ts";

const REFRESH_MS = 3_000;

export interface OverrideCacheOptions<T> {
  /** The values of organisations for which an operator has set none. */
  readonly defaults: T;
  /** Reads the values of all other organisations. */
  readonly readAll: () => Promise<ReadonlyMap<string, T>>;
}

export class OverrideCache<T> {
  readonly #options: OverrideCacheOptions<T>;
  #known = new Map<string, T>();
  #reading: Promise<void> | undefined;

  constructor(options: OverrideCacheOptions<T>) {
    this.#options = options;
  }

  of(orgId: string): T {
    return this.#known.get(orgId) ?? this.#options.defaults;
  }

  /** Reads the values of all organisations. Never throws. */
  async refresh(): Promise<void> {
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  /** Refreshes the values every 3 s until the result is disposed. */
  refreshPeriodically(): AsyncDisposable {
    const step = async (): Promise<number> => {
      await this.refresh();
      return REFRESH_MS;
    };
    return new Loop({ step, failed: () => undefined, firstAfterMs: REFRESH_MS });
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
