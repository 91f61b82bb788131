// Caches the rows that requests refer to (keys, users, sessions, tokens), so that a request needs no statement, and looks up missing rows
// in batches. Invariant: a cached row is at most LOOKUP_CACHE_MS old, so a change in any replica is in force everywhere within 5 s. Memory
// is limited, and concurrent requests with the same id share one lookup. One statement per REFRESH_MS checks all used rows for changes.
// Older rows, up to STALE_MS, are used only while the database does not respond. A row that cannot be decoded fails only the calls that
// asked for it.
import { NO_OWNER, runFor } from "../admission/request-owner.ts";
import { setTimeout as sleep } from "node:timers/promises";
import { DatabaseOutage, isDatabaseUnreachable } from "./database-outage.ts";
import { MAX_CACHE_CHECKS, MAX_CACHED_ROWS, MAX_IDS_PER_CHECK, MAX_IDS_PER_LOOKUP, MAX_UNKNOWN_IDS } from "./auth-limits.ts";
import { Batcher } from "../engines/batcher.ts";

/** Maximum age of a row. Including the time of a query, it stays below the guaranteed 5 s. */
export const LOOKUP_CACHE_MS = 4_000;
/** How often used rows are checked in the background, so that requests do not wait for it. */
const REFRESH_MS = 2_000;
/** Maximum age while the database does not respond, so that an upgrade or failover of PostgreSQL does not stop ingest. */
export const STALE_MS = 15 * 60_000;
/** How long a request waits for an unresponsive database if the row is cached. */
const MAX_WAIT_MS = 2_000;
/** Rows that were not used for this time, several heartbeats of an agent, are removed. */
const IDLE_MS = 5 * 60_000;
const UNKNOWN_MS = 1_000;
/** Statements at the same time: one that hangs on a broken connection does not delay the others. */
const STATEMENTS = 4;

export interface LookupSource<T> {
  /** Finds the existing rows of at most a few hundred ids. */
  find(ids: readonly string[]): Promise<readonly LookupRow<T>[]>;
  /** `states`: id → state of cached rows. Returns the ids of those that were removed or have another state. */
  findChanged(states: Readonly<Record<string, string>>): Promise<readonly string[]>;
}

export interface LookupOptions {
  readonly maxRows?: number;
  /** Unix milliseconds. Default: `ageClock` of the clocks of the machine. */
  readonly now?: (() => number) | undefined;
  /** Shared by all caches of one database. */
  readonly outage?: DatabaseOutage | undefined;
  readonly maxWaitMs?: number;
}

interface CachedRow<T> extends CachedValue<T> {
  /** When the lookup started, not when it ended. */
  loadedMs: number;
  usedMs: number;
}

export class LookupCache<T> {
  readonly #source: LookupSource<T>;
  readonly #lookups: Batcher<string, LookupRow<T> | undefined>;
  readonly #maxRows: number;
  readonly #now: () => number;
  readonly #outage: DatabaseOutage;
  readonly #maxWaitMs: number;
  readonly #rows = new Map<string, CachedRow<T>>();
  readonly #unknown = new Map<string, number>();
  readonly #loading = new Map<string, Promise<T | undefined>>();
  #checkedMs = Number.NEGATIVE_INFINITY;
  #checks = 0;

  constructor(source: LookupSource<T>, options: LookupOptions = {}) {
    const { maxRows = MAX_CACHED_ROWS, now, outage = new DatabaseOutage(), maxWaitMs = MAX_WAIT_MS } = options;
    this.#source = source;
    this.#outage = outage;
    this.#maxWaitMs = maxWaitMs;
    const write = async (ids: readonly string[]) => {
      const found = new Map((await outage.run(() => source.find(ids))).map((row) => [row.id, row]));
      return ids.map((id) => found.get(id));
    };
    this.#lookups = new Batcher({ write, maxItems: MAX_IDS_PER_LOOKUP, concurrency: STATEMENTS });
    this.#maxRows = maxRows;
    this.#now = now ? ageClock(now, () => 0) : ageClock();
  }

  /** Undefined if the row does not exist. Returns a value instead of a promise if it is cached. */
  find(id: string): T | undefined | Promise<T | undefined> {
    const nowMs = this.#now();
    const found = this.#find(id, nowMs);
    if (this.#checks < MAX_CACHE_CHECKS && nowMs - this.#checkedMs >= REFRESH_MS) void runFor(NO_OWNER, () => this.#check(nowMs));
    return found;
  }

  /** Call after this replica has made a change, so that the change takes effect here immediately. */
  forget(...ids: string[]): void {
    for (const id of ids) {
      this.#rows.delete(id);
      this.#unknown.delete(id);
      this.#loading.delete(id);
    }
  }

  #find(id: string, nowMs: number): T | undefined | Promise<T | undefined> {
    const row = this.#rows.get(id);
    if (row) {
      row.usedMs = nowMs;
      const ageMs = nowMs - row.loadedMs;
      if (ageMs < LOOKUP_CACHE_MS) return row.value;
      if (ageMs >= STALE_MS) return this.#load(id);
      return this.#outage.isUnreachable ? this.#useStale(row) : this.#loadOrUseStale(id, row);
    }
    const unknownSinceMs = this.#unknown.get(id);
    if (unknownSinceMs !== undefined && nowMs - unknownSinceMs < UNKNOWN_MS) return undefined;
    return this.#load(id);
  }

  #useStale({ value }: CachedRow<T>): T {
    this.#outage.countStaleUse();
    return value;
  }

  async #loadOrUseStale(id: string, row: CachedRow<T>): Promise<T | undefined> {
    const loading = this.#load(id);
    const settled = new AbortController();
    const timeout = sleep(this.#maxWaitMs, "late" as const, { signal: settled.signal }).catch(() => "late" as const);
    try {
      const first = await Promise.race([loading.then((value) => ({ value })), timeout]);
      if (first !== "late") return first.value;
      this.#outage.statementTimedOut();
    } catch (error) {
      if (!isDatabaseUnreachable(error)) throw error;
    } finally {
      settled.abort();
    }
    // A row that was removed or changed in the meantime must not be used.
    return this.#rows.get(id) === row ? this.#useStale(row) : await loading;
  }

  #load(id: string): Promise<T | undefined> {
    const running = this.#loading.get(id);
    if (running) return running;
    const startedMs = this.#now();
    // A lookup that started before `forget` may be older than the change: its result is returned but not cached.
    const isCurrent = () => this.#loading.get(id) === loading;
    const loading = this.#lookups
      .add(id, id)
      .then((row) => {
        const found = row && { state: row.state, value: row.read() };
        if (isCurrent()) this.#cache(id, found, startedMs);
        return found?.value;
      })
      .finally(() => isCurrent() && this.#loading.delete(id));
    this.#loading.set(id, loading);
    return loading;
  }

  #cache(id: string, found: CachedValue<T> | undefined, startedMs: number): void {
    this.#rows.delete(id);
    this.#unknown.delete(id);
    if (found) evictOldest(this.#rows, this.#maxRows).set(id, { ...found, loadedMs: startedMs, usedMs: startedMs });
    else evictOldest(this.#unknown, MAX_UNKNOWN_IDS).set(id, startedMs);
  }

  /** Checks all used rows for changes. Never throws. */
  async #check(nowMs: number): Promise<void> {
    this.#checks += 1;
    this.#checkedMs = nowMs;
    try {
      for (const batch of this.#usedRows(nowMs)) await this.#checkBatch(batch);
    } catch {
      // Safe to ignore: rows keep their age, and from LOOKUP_CACHE_MS on each request looks up its row itself, or `outage` counts it.
    }
    this.#checks -= 1;
  }

  async #checkBatch(batch: ReadonlyMap<string, CachedRow<T>>): Promise<void> {
    const startedMs = this.#now();
    const states = Object.fromEntries([...batch].map(([id, { state }]) => [id, state]));
    const changed = new Set(await this.#outage.run(() => this.#source.findChanged(states)));
    // Rows that were removed or reloaded in the meantime are other objects, and stay as they are.
    for (const [id, row] of batch) if (!changed.has(id)) row.loadedMs = Math.max(row.loadedMs, startedMs);
    for (const id of changed) {
      // Removed even if the reload fails, because a changed row must not be used as a stale row.
      if (this.#rows.get(id) !== batch.get(id)) continue;
      this.forget(id);
      this.#load(id).catch(() => undefined);
    }
  }

  /** The used rows in batches for one statement each. Removes idle rows. */
  *#usedRows(nowMs: number): Generator<ReadonlyMap<string, CachedRow<T>>> {
    let batch = new Map<string, CachedRow<T>>();
    for (const [id, row] of this.#rows) {
      if (nowMs - row.usedMs >= IDLE_MS) this.#rows.delete(id);
      else if (row.loadedMs < nowMs) batch.set(id, row);
      if (batch.size < MAX_IDS_PER_CHECK) continue;
      yield batch;
      batch = new Map();
    }
    if (batch.size > 0) yield batch;
  }
}

function evictOldest<K, V>(map: Map<K, V>, max: number): Map<K, V> {
  if (map.size >= max) map.delete(map.keys().next().value as K);
  return map;
}

/** Smaller differences are jitter between two readings, or a clock that is being slewed: counted, but not accumulated. */
const CLOCK_STEP_MS = 100;

/**
 * A clock for ages, in milliseconds since an arbitrary time. Invariant: it never runs slower than the wall clock or the monotonic clock.
 * If the clock is set, or the machine was suspended (which stops the monotonic clock), everything gets older, never younger.
 */
export function ageClock(wallMs: () => number = Date.now, steadyMs: () => number = () => performance.now()): () => number {
  let offsetMs = wallMs() - steadyMs();
  let steppedMs = 0;
  return () => {
    const steady = steadyMs();
    const offset = wallMs() - steady;
    const differenceMs = Math.abs(offset - offsetMs);
    if (differenceMs < CLOCK_STEP_MS) return steady + steppedMs + differenceMs;
    steppedMs += differenceMs;
    offsetMs = offset;
    return steady + steppedMs;
  };
}

/** A row; `state` changes whenever something in the row changes that matters. */
export interface LookupRow<T> {
  readonly id: string;
  readonly state: string;
  /** Throws if the row is damaged. */
  read(): T;
}

/** The part of a row that a cache keeps. */
interface CachedValue<T> {
  readonly state: string;
  readonly value: T;
}
