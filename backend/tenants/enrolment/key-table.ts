// API keys in the database: create, find by hash, retire, revoke, re-encrypt. Invariant: this file returns the raw key only when a key is
// created, and to the cache that verifies signatures. A revoked key stays revoked.
import { randomBytes, randomUUID } from "node:crypto";
import { type Kysely, sql, type Transaction } from "kysely";
import { keyHash } from "../../../common/protocol/signature.ts";
import type { KeyKind } from "../../http/request-identity.ts";
import type { Watched } from "../../engines/relational/bulk-rows.ts";
import { type MasterKeys, REENCRYPTION_BATCH, requireNoForeignRows } from "./master-key.ts";
import type { EnrolmentTables, KeyRow } from "./enrolment-tables.ts";

type Db = Kysely<EnrolmentTables> | Transaction<EnrolmentTables>;

export interface NewKey {
  orgId: string;
  kind: KeyKind;
  /** The cluster's or host's id; a direct key owns itself. */
  ownerId?: string;
  node: string;
  rotatedFrom?: string;
  rotationIdempotencyKey?: string;
}

export interface MintedKey {
  readonly row: KeyRow;
  readonly rawKey: string;
}

export async function mintKey(db: Db, masterKeys: MasterKeys, key: NewKey, now: Date): Promise<MintedKey> {
  const minted = newKey(masterKeys, key, now);
  await db.insertInto("api_keys").values(minted.row).execute();
  return minted;
}

/** `ak_` and 32 random bytes (docs/decisions.md, "Enrolment"); not in the database yet. */
export function newKey(masterKeys: MasterKeys, key: NewKey, now: Date): MintedKey {
  const rawKey = `ak_${randomBytes(32).toString("base64url")}`;
  const id = randomUUID();
  const row: KeyRow = {
    id,
    org_id: key.orgId,
    kind: key.kind,
    owner_id: key.ownerId ?? id,
    node: key.node,
    key_hash: keyHash(rawKey),
    ...masterKeys.encrypt(rawKey, key.orgId, id),
    created_at: now,
    expires_at: null,
    revoked_at: null,
    first_used_at: null,
    rotated_from: key.rotatedFrom ?? null,
    rotation_idempotency_key: key.rotationIdempotencyKey ?? null,
  };
  return { row, rawKey };
}

/** The columns of a key that decide what it may do, as text; without its first use and its encryption. */
export const WATCHED_KEYS: Watched = {
  table: "api_keys",
  column: "key_hash",
  type: "text",
  state: sql<string>`coalesce(CAST(revoked_at AS text), '-') || ' ' || coalesce(CAST(expires_at AS text), '-') || ' ' || node`,
};

export async function findKeys(db: Db, hashes: readonly string[]): Promise<(KeyRow & { state: string })[]> {
  return await db.selectFrom("api_keys").selectAll().select(WATCHED_KEYS.state.as("state")).where("key_hash", "in", hashes).execute();
}

/** Lets all other keys of the owner expire at `end` at the latest. */
export async function retireOtherKeys(db: Db, current: KeyRow, end: Date): Promise<void> {
  await db
    .updateTable("api_keys")
    .set({ expires_at: end })
    .where("owner_id", "=", current.owner_id)
    .where("id", "!=", current.id)
    .where("revoked_at", "is", null)
    .where((where) => where.or([where("expires_at", "is", null), where("expires_at", ">", end)]))
    .execute();
}

/** Revokes every key of a cluster or host, or one direct key (its own owner). Returns their hashes. */
export async function revokeKeysOf(db: Db, orgId: string, ownerId: string, now: Date): Promise<string[]> {
  const revoked = await db
    .updateTable("api_keys")
    .set({ revoked_at: now })
    .where("org_id", "=", orgId)
    .where("owner_id", "=", ownerId)
    .where("revoked_at", "is", null)
    .returning("key_hash")
    .execute();
  return revoked.map((row) => row.key_hash);
}

/** Only for keys without a first use. Locks them in a fixed order, which prevents deadlocks between replicas. */
export async function recordFirstUses(db: Db, keyIds: readonly string[], now: Date): Promise<void> {
  await db
    .updateTable("api_keys")
    .set({ first_used_at: now })
    .where("id", "in", (unused) =>
      unused.selectFrom("api_keys").select("id").where("id", "in", keyIds).where("first_used_at", "is", null).orderBy("id").forUpdate(),
    )
    .execute();
}

/** Re-encrypts every key with the current master key and returns how many. Throws like `requireNoForeignRows`. */
export async function reencryptKeys(db: Db, masterKeys: MasterKeys): Promise<number> {
  let reencrypted = 0;
  const older = masterKeys.ids.filter((id) => id !== masterKeys.currentId);
  while (older.length > 0) {
    const rows = await db.selectFrom("api_keys").selectAll().where("master_key_id", "in", older).limit(REENCRYPTION_BATCH).execute();
    if (rows.length === 0) break;
    for (const row of rows) {
      const rawKey = masterKeys.decrypt(row, row.org_id, row.id);
      await db
        .updateTable("api_keys")
        .set(masterKeys.encrypt(rawKey, row.org_id, row.id))
        .where("id", "=", row.id)
        .execute();
    }
    reencrypted += rows.length;
  }
  const foreign = await db
    .selectFrom("api_keys")
    .select(["master_key_id", (select) => select.fn.countAll<string>().as("count")])
    .where("master_key_id", "!=", masterKeys.currentId)
    .groupBy("master_key_id")
    .executeTakeFirst();
  requireNoForeignRows(foreign, masterKeys, "API keys");
  return reencrypted;
}
