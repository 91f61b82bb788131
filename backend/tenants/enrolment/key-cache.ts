// Caches keys, so that signatures are verified without a statement. Invariant: as in auth/lookup-cache.ts, a revocation in any replica is in
// force everywhere within 5 s, and unknown hashes cannot evict keys.
import type { Kysely } from "kysely";
import type { DatabaseOutage } from "../../auth/database-outage.ts";
import { LookupCache, type LookupSource } from "../../auth/lookup-cache.ts";
import type { KeySource, VerifyingKey } from "../../auth/signed-requests.ts";
import { Batcher } from "../../engines/batcher.ts";
import { changedRows } from "../../engines/relational/bulk-rows.ts";
import { MAX_FIRST_USES } from "../tenant-limits.ts";
import { findKeys, recordFirstUses, WATCHED_KEYS } from "./key-table.ts";
import type { MasterKeys } from "./master-key.ts";
import type { EnrolmentTables, KeyRow } from "./enrolment-tables.ts";

/** After each statement, so that the enrolment of a fleet costs at most four statements a second. */
const FIRST_USES_PAUSE_MS = 250;

export class KeyCache implements KeySource {
  readonly #masterKeys: MasterKeys;
  readonly #firstUses: Batcher<string>;
  readonly #keys: LookupCache<VerifyingKey>;

  /** `now`: the only clock, instead of the machine's. */
  constructor(db: Kysely<EnrolmentTables>, masterKeys: MasterKeys, now?: () => number, outage?: DatabaseOutage) {
    this.#masterKeys = masterKeys;
    this.#firstUses = new Batcher({
      write: (keyIds) => recordFirstUses(db, keyIds, new Date(now?.() ?? Date.now())),
      maxItems: MAX_FIRST_USES,
      pauseMs: () => FIRST_USES_PAUSE_MS,
    });
    const source: LookupSource<VerifyingKey> = {
      find: async (hashes) =>
        (await findKeys(db, hashes)).map((row) => ({ id: row.key_hash, state: row.state, read: () => this.#decrypt(row) })),
      findChanged: async (states) => await changedRows(db, WATCHED_KEYS, states),
    };
    this.#keys = new LookupCache(source, { now, outage });
  }

  find(hash: string): VerifyingKey | undefined | Promise<VerifyingKey | undefined> {
    return this.#keys.find(hash);
  }

  async used(key: VerifyingKey): Promise<void> {
    await this.#firstUses.add(key.signing.keyId, key.signing.keyId);
    key.used = true;
  }

  /** Call after this replica has changed the keys, so that the change takes effect here immediately. */
  forget(...hashes: string[]): void {
    this.#keys.forget(...hashes);
  }

  #decrypt(row: KeyRow): VerifyingKey {
    return {
      rawKey: this.#masterKeys.decrypt(row, row.org_id, row.id),
      signing: { keyId: row.id, kind: row.kind, orgId: row.org_id, hostId: row.owner_id, node: row.node, createdAt: row.created_at },
      expiresMs: row.expires_at?.getTime() ?? Number.POSITIVE_INFINITY,
      revoked: row.revoked_at !== null,
      used: row.first_used_at !== null,
    };
  }
}
