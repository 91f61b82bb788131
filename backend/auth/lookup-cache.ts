// What this replica knows of the rows that requests name, so that a request costs no question to the database. Invariant: nothing known is
// older than LOOKUP_CACHE_MS, so that a change anywhere is in force everywhere within 5 s; memory is bounded; an id is looked up once
// however many requests carry it; of all that is in use, one statement in REFRESH_MS asks what has changed, however many they are. Only
// while the database does not answer are rows used that are older, up to STALE_MS.
import { setTimeout as sleep } from "node:timers/promises";
import { ageClock } from "./age-clock.ts";
import { DatabaseOutage, isDatabaseAway } from "./database-outage.ts";
import { type Found, GatheredLookUps, type Looked } from "./gathered-lookups.ts";

/** Oldest knowledge that is used. With the time of a query it stays below the promised 5 s. */
export const LOOKUP_CACHE_MS = 4_000;
/** From this age on it is asked in the background what has changed, so that ids in use never wait. */
const REFRESH_MS = 2_000;
/** Oldest knowledge that is used while the database does not answer: an upgrade or a failover of PostgreSQL stops no ingest. */
export const STALE_MS = 15 * 60_000;
/** How long a request waits for a database that hangs, if the row is known. */
const PATIENCE_MS = 2_000;
/** Statements at once that ask what has changed: one that hangs on a broken connection does not hide that the database is back. */
const MAX_CHECKS = 4;
/** What nobody has asked for that long is forgotten: several heartbeats of an agent. */
const IDLE_MS = 5 * 60_000;
const MAX_KNOWN = 50_000;
/** Ids of one statement: some 10 ms of the database. */
const MAX_ASKED = 10_000;
/** Unknown ids are kept apart and for less long, so that nobody can push real ones out. */
const MAX_UNKNOWN = 5_000;
const UNKNOWN_MS = 1_000;

/** Where the rows are. */
export interface LookupSource<T> {
  /** Those of these ids that there are; at most a few hundred. */
  find(ids: readonly string[]): Promise<readonly Found<T>[]>;
  /** Of rows that were found, id → state: those that are gone or have another state now. */
  changed(states: Readonly<Record<string, string>>): Promise<readonly string[]>;
}

export interface LookupOptions {
  readonly maxKnown?: number;
  /** The only clock, Unix milliseconds. Without: that of the machine, and what `ageClock` says of it. */
  readonly now?: (() => number) | undefined;
  /** Shared by all caches of one database. */
  readonly outage?: DatabaseOutage | undefined;
  readonly patienceMs?: number;
}

interface Known<T> extends Looked<T> {
  /** When it was asked for, not when it was answered. */
  loadedMs: number;
  usedMs: number;
}

export class LookupCache<T> {
  readonly #source: LookupSource<T>;
  readonly #lookUps: GatheredLookUps<T>;
  readonly #maxKnown: number;
  readonly #now: () => number;
  readonly #outage: DatabaseOutage;
  readonly #patienceMs: number;
  readonly #known = new Map<string, Known<T>>();
  readonly #unknown = new Map<string, number>();
  readonly #loading = new Map<string, Promise<T | undefined>>();
  #checkedMs = Number.NEGATIVE_INFINITY;
  #checks = 0;

  constructor(source: LookupSource<T>, options: LookupOptions = {}) {
    const { maxKnown = MAX_KNOWN, now, outage = new DatabaseOutage(), patienceMs = PATIENCE_MS } = options;
    this.#source = source;
    this.#outage = outage;
    this.#patienceMs = patienceMs;
    this.#lookUps = new GatheredLookUps((ids) => outage.ask(() => source.find(ids)));
    this.#maxKnown = maxKnown;
    this.#now = now ? ageClock(now, () => 0) : ageClock();
  }

  /** Undefined where there is no such row; an answer that is not a promise costs no wait. */
  find(id: string): T | undefined | Promise<T | undefined> {
    const nowMs = this.#now();
    const answer = this.#answer(id, nowMs);
    if (this.#checks < MAX_CHECKS && nowMs - this.#checkedMs >= REFRESH_MS) void this.#check(nowMs);
    return answer;
  }

  /** A change made by this replica is in force here at once. */
  forget(...ids: string[]): void {
    for (const id of ids) {
      this.#known.delete(id);
      this.#unknown.delete(id);
      this.#loading.delete(id);
    }
  }

  #answer(id: string, nowMs: number): T | undefined | Promise<T | undefined> {
    const known = this.#known.get(id);
    if (known) {
      known.usedMs = nowMs;
      const ageMs = nowMs - known.loadedMs;
      if (ageMs < LOOKUP_CACHE_MS) return known.value;
      if (ageMs >= STALE_MS) return this.#load(id);
      return this.#outage.isAway ? this.#stale(known) : this.#loadOrStale(id, known);
    }
    const refusedMs = this.#unknown.get(id);
    if (refusedMs !== undefined && nowMs - refusedMs < UNKNOWN_MS) return undefined;
    return this.#load(id);
  }

  #stale({ value }: Known<T>): T {
    this.#outage.used();
    return value;
  }

  async #loadOrStale(id: string, known: Known<T>): Promise<T | undefined> {
    const loading = this.#load(id);
    const over = new AbortController();
    const patience = sleep(this.#patienceMs, "late" as const, { signal: over.signal }).catch(() => "late" as const);
    try {
      const first = await Promise.race([loading.then((value) => ({ value })), patience]);
      if (first !== "late") return first.value;
      this.#outage.timedOut();
    } catch (error) {
      if (!isDatabaseAway(error)) throw error;
    } finally {
      over.abort();
    }
    // A row that was forgotten or changed meanwhile is not used any more.
    return this.#known.get(id) === known ? this.#stale(known) : await loading;
  }

  #load(id: string): Promise<T | undefined> {
    const underway = this.#loading.get(id);
    if (underway) return underway;
    const askedMs = this.#now();
    // An answer that was asked for before `forget` may be older than the change: it is given, and not remembered.
    const current = () => this.#loading.get(id) === loading;
    const loading = this.#lookUps
      .find(id)
      .then((found) => {
        if (current()) this.#remember(id, found, askedMs);
        return found?.value;
      })
      .finally(() => current() && this.#loading.delete(id));
    this.#loading.set(id, loading);
    return loading;
  }

  #remember(id: string, found: Looked<T> | undefined, askedMs: number): void {
    this.#known.delete(id);
    this.#unknown.delete(id);
    if (found) bounded(this.#known, this.#maxKnown).set(id, { ...found, loadedMs: askedMs, usedMs: askedMs });
    else bounded(this.#unknown, MAX_UNKNOWN).set(id, askedMs);
  }

  /** Asks what has changed of all that is in use. Never throws. */
  async #check(nowMs: number): Promise<void> {
    this.#checks += 1;
    this.#checkedMs = nowMs;
    try {
      for (const some of this.#inUse(nowMs)) await this.#checkSome(some);
    } catch {
      // Safe to go on: what is known gets no younger, and at LOOKUP_CACHE_MS each request itself waits, or `outage` counts it.
    }
    this.#checks -= 1;
  }

  async #checkSome(some: ReadonlyMap<string, Known<T>>): Promise<void> {
    const askedMs = this.#now();
    const states = Object.fromEntries([...some].map(([id, { state }]) => [id, state]));
    const changed = new Set(await this.#outage.ask(() => this.#source.changed(states)));
    // What was forgotten or loaded meanwhile is another entry, which this answer says nothing about.
    for (const [id, known] of some) if (!changed.has(id)) known.loadedMs = Math.max(known.loadedMs, askedMs);
    for (const id of changed) {
      // Should the database go away now, what it called changed must not be used as last known.
      if (this.#known.get(id) !== some.get(id)) continue;
      this.forget(id);
      this.#load(id).catch(() => undefined);
    }
  }

  /** In portions of a statement, each as it is when its turn has come. What is idle is forgotten. */
  *#inUse(nowMs: number): Generator<ReadonlyMap<string, Known<T>>> {
    let some = new Map<string, Known<T>>();
    for (const [id, known] of this.#known) {
      if (nowMs - known.usedMs >= IDLE_MS) this.#known.delete(id);
      else if (known.loadedMs < nowMs) some.set(id, known);
      if (some.size < MAX_ASKED) continue;
      yield some;
      some = new Map();
    }
    if (some.size > 0) yield some;
  }
}

function bounded<K, V>(map: Map<K, V>, max: number): Map<K, V> {
  if (map.size >= max) map.delete(map.keys().next().value as K);
  return map;
}
