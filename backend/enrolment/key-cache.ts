// What this replica knows of keys, so that a signature is verified without a question to the database. Invariant: nothing known is older
// than KEY_CACHE_MS, so that a revocation anywhere is in force everywhere within 5 s; memory is bounded; a hash is looked up once however
// many requests carry it.
import type { Kysely } from "kysely";
import type { KeySource, VerifyingKey } from "../auth/signed-requests.ts";
import { findKeyByHash, recordFirstUse } from "./key-table.ts";
import type { MasterKeys } from "./master-key.ts";
import type { EnrolmentTables, KeyRow } from "./table.ts";

/** Oldest knowledge that is used. With the time of a query it stays below the promised 5 s. */
export const KEY_CACHE_MS = 4_000;
/** From this age on a key in use is looked up again in the background, so that busy keys never wait. */
const REFRESH_MS = 2_000;
const MAX_KNOWN = 50_000;
/** Unknown hashes are kept apart and for less long, so that nobody can push real keys out. */
const MAX_UNKNOWN = 5_000;
const UNKNOWN_MS = 1_000;

interface Known {
  key: VerifyingKey;
  loadedMs: number;
}

export class KeyCache implements KeySource {
  readonly #db: Kysely<EnrolmentTables>;
  readonly #masterKeys: MasterKeys;
  readonly #now: () => number;
  readonly #known = new Map<string, Known>();
  readonly #unknown = new Map<string, number>();
  readonly #loading = new Map<string, Promise<VerifyingKey | undefined>>();

  constructor(db: Kysely<EnrolmentTables>, masterKeys: MasterKeys, now: () => number = Date.now) {
    this.#db = db;
    this.#masterKeys = masterKeys;
    this.#now = now;
  }

  find(hash: string): VerifyingKey | undefined | Promise<VerifyingKey | undefined> {
    const nowMs = this.#now();
    const known = this.#known.get(hash);
    if (known) {
      const ageMs = Math.abs(nowMs - known.loadedMs);
      if (ageMs < REFRESH_MS) return known.key;
      const loading = this.#load(hash);
      if (ageMs >= KEY_CACHE_MS) return loading;
      // Safe to go on: the entry is young enough, and at KEY_CACHE_MS the request itself waits and fails.
      loading.catch(() => undefined);
      return known.key;
    }
    const refusedMs = this.#unknown.get(hash);
    if (refusedMs !== undefined && nowMs - refusedMs < UNKNOWN_MS) return undefined;
    return this.#load(hash);
  }

  async used(key: VerifyingKey): Promise<void> {
    await recordFirstUse(this.#db, key.signing.keyId, new Date(this.#now()));
    key.used = true;
  }

  /** A change made by this replica is in force here at once. */
  forget(...hashes: string[]): void {
    for (const hash of hashes) {
      this.#known.delete(hash);
      this.#unknown.delete(hash);
      this.#loading.delete(hash);
    }
  }

  #load(hash: string): Promise<VerifyingKey | undefined> {
    const underway = this.#loading.get(hash);
    if (underway) return underway;
    const askedMs = this.#now();
    // An answer that was asked for before `forget` may be older than the change: it is given, and not remembered.
    const current = () => this.#loading.get(hash) === loading;
    const loading = this.#fetch(hash)
      .then((key) => {
        if (current()) this.#remember(hash, key, askedMs);
        return key;
      })
      .finally(() => current() && this.#loading.delete(hash));
    this.#loading.set(hash, loading);
    return loading;
  }

  async #fetch(hash: string): Promise<VerifyingKey | undefined> {
    const row = await findKeyByHash(this.#db, hash);
    return row && this.#verifying(row);
  }

  #remember(hash: string, key: VerifyingKey | undefined, loadedMs: number): void {
    this.#known.delete(hash);
    this.#unknown.delete(hash);
    if (key) bounded(this.#known, MAX_KNOWN).set(hash, { key, loadedMs });
    else bounded(this.#unknown, MAX_UNKNOWN).set(hash, loadedMs);
  }

  #verifying(row: KeyRow): VerifyingKey {
    return {
      rawKey: this.#masterKeys.decrypt(row, row.org_id, row.id),
      signing: { keyId: row.id, kind: row.kind, orgId: row.org_id, hostId: row.owner_id, node: row.node, createdAt: row.created_at },
      expiresMs: row.expires_at?.getTime() ?? Number.POSITIVE_INFINITY,
      revoked: row.revoked_at !== null,
      used: row.first_used_at !== null,
    };
  }
}

function bounded<K, V>(map: Map<K, V>, max: number): Map<K, V> {
  if (map.size >= max) map.delete(map.keys().next().value as K);
  return map;
}
