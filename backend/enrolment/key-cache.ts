// What this replica knows of keys, so that a signature is verified without a question to the database. Invariant: that of
// auth/lookup-cache.ts: a revocation anywhere is in force everywhere within 5 s, and strangers' hashes push no key out.
import type { Kysely } from "kysely";
import { LookupCache } from "../auth/lookup-cache.ts";
import type { KeySource, VerifyingKey } from "../auth/signed-requests.ts";
import { findKeyByHash, recordFirstUse } from "./key-table.ts";
import type { MasterKeys } from "./master-key.ts";
import type { EnrolmentTables, KeyRow } from "./table.ts";

export class KeyCache implements KeySource {
  readonly #db: Kysely<EnrolmentTables>;
  readonly #masterKeys: MasterKeys;
  readonly #now: () => number;
  readonly #keys: LookupCache<VerifyingKey>;

  constructor(db: Kysely<EnrolmentTables>, masterKeys: MasterKeys, now: () => number = Date.now) {
    this.#db = db;
    this.#masterKeys = masterKeys;
    this.#now = now;
    this.#keys = new LookupCache(async (hash) => {
      const row = await findKeyByHash(this.#db, hash);
      return row && this.#verifying(row);
    }, now);
  }

  find(hash: string): VerifyingKey | undefined | Promise<VerifyingKey | undefined> {
    return this.#keys.find(hash);
  }

  async used(key: VerifyingKey): Promise<void> {
    await recordFirstUse(this.#db, key.signing.keyId, new Date(this.#now()));
    key.used = true;
  }

  /** A change made by this replica is in force here at once. */
  forget(...hashes: string[]): void {
    this.#keys.forget(...hashes);
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
