// What this replica knows of keys, so that a signature is verified without a question to the database. Invariant: that of
// auth/lookup-cache.ts: a revocation anywhere is in force everywhere within 5 s, and strangers' hashes push no key out.
import type { Kysely } from "kysely";
import type { DatabaseOutage } from "../auth/database-outage.ts";
import { LookupCache, type LookupSource } from "../auth/lookup-cache.ts";
import type { KeySource, VerifyingKey } from "../auth/signed-requests.ts";
import { FirstUses } from "./first-uses.ts";
import { changedKeys, findKeys, recordFirstUses } from "./key-table.ts";
import type { MasterKeys } from "./master-key.ts";
import type { EnrolmentTables, KeyRow } from "./table.ts";

export class KeyCache implements KeySource {
  readonly #masterKeys: MasterKeys;
  readonly #firstUses: FirstUses;
  readonly #keys: LookupCache<VerifyingKey>;

  /** `now`: the only clock, instead of the machine's. */
  constructor(db: Kysely<EnrolmentTables>, masterKeys: MasterKeys, now?: () => number, outage?: DatabaseOutage) {
    this.#masterKeys = masterKeys;
    this.#firstUses = new FirstUses({ write: (keyIds) => recordFirstUses(db, keyIds, new Date(now?.() ?? Date.now())) });
    const source: LookupSource<VerifyingKey> = {
      find: async (hashes) =>
        (await findKeys(db, hashes)).map((row) => ({ id: row.key_hash, state: row.state, read: () => this.#verifying(row) })),
      changed: async (states) => await changedKeys(db, states),
    };
    this.#keys = new LookupCache(source, { now, outage });
  }

  find(hash: string): VerifyingKey | undefined | Promise<VerifyingKey | undefined> {
    return this.#keys.find(hash);
  }

  async used(key: VerifyingKey): Promise<void> {
    await this.#firstUses.add(key.signing.keyId);
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
