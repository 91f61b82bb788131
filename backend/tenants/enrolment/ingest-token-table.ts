// Statements of ingest token administration: insert, list, rotate, remove. Invariant: a token has one current secret; after a rotation the
// one before it is valid until the end of the overlap, and older ones not at all.
import type { Kysely, Transaction } from "kysely";
import type { OrgTable } from "../../engines/relational/tenant-database.ts";
import type { IngestTokenRow } from "../../auth/ingest-tokens/ingest-token-table.ts";
import type { KeyKind } from "../../http/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { notFound } from "../../http/schemas.ts";
import { requireCapacity } from "../../engines/relational/row-limits.ts";
import type { EnrolmentTables } from "./enrolment-tables.ts";

type Db = Kysely<EnrolmentTables>;
type Trx = Transaction<EnrolmentTables>;

/** How long expired tokens stay in the list, so that users can see why a sender stopped. */
export const EXPIRED_LISTED_MS = 30 * 86_400_000;

/** The host or cluster as whose telemetry a token's data is stored. */
export interface TokenIdentity {
  readonly kind: KeyKind;
  readonly ownerId: string;
  readonly node: string;
}

/**
 * The cluster or host of this organisation with this id, locked until the end of the transaction: its removal removes its tokens. Throws
 * `invalid_field`.
 */
export async function findIdentity(trx: Trx, orgId: string, kind: "cluster" | "host", id: string): Promise<TokenIdentity> {
  const row =
    kind === "cluster"
      ? await trx
          .selectFrom("clusters")
          .select("name as node")
          .where("id", "=", id)
          .where("org_id", "=", orgId)
          .forUpdate()
          .executeTakeFirst()
      : await trx
          .selectFrom("hosts")
          .select("hostname as node")
          .where("id", "=", id)
          .where("org_id", "=", orgId)
          .forUpdate()
          .executeTakeFirst();
  if (!row) throw new ApiError("invalid_field", `${kind}: not found in your organisation`);
  return { kind, ownerId: id, node: row.node };
}

/** Throws `limit_reached`. Secrets that ended long ago are deleted and do not count. */
export async function insertWithinLimit(trx: Trx, row: IngestTokenRow): Promise<void> {
  const longAgo = new Date(row.created_at.getTime() - EXPIRED_LISTED_MS);
  await trx
    .deleteFrom("ingest_tokens")
    .where("org_id", "=", row.org_id)
    .where((where) => where.or([where("expires_at", "<=", longAgo), where("retires_at", "<=", row.created_at)]))
    .execute();
  const tokens = trx.selectFrom("ingest_tokens").where("org_id", "=", row.org_id);
  await requireCapacity(trx.$extendTables<OrgTable>(), row.org_id, "ingest tokens", tokens);
  await trx.insertInto("ingest_tokens").values(row).execute();
}

/** Selects the current secrets that a list shows. */
export function selectListed(db: Db, orgId: string, nowMs: number) {
  return db
    .selectFrom("ingest_tokens")
    .selectAll()
    .where("org_id", "=", orgId)
    .where("retires_at", "is", null)
    .where((where) => where.or([where("expires_at", "is", null), where("expires_at", ">", new Date(nowMs - EXPIRED_LISTED_MS))]));
}

/** The secrets that are valid until the end of an overlap, by token id. */
export async function listRetiring(db: Db, orgId: string, ids: readonly string[], nowMs: number): Promise<Map<string, IngestTokenRow>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom("ingest_tokens")
    .selectAll()
    .where("org_id", "=", orgId)
    .where("id", "in", ids)
    .where("retires_at", ">", new Date(nowMs))
    .orderBy("retires_at")
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
}

export interface Rotation {
  readonly hash: string;
  readonly at: Date;
  readonly overlapMs: number;
  /** The new secret's lifetime; undefined: as long as the current one had. */
  readonly ttlMs: number | undefined;
}

/** Returns the new current secret, when the previous one ends, and the hashes of the secrets that changed. Throws `not_found`. */
export async function rotate(
  trx: Trx,
  orgId: string,
  id: string,
  { hash, at, overlapMs, ttlMs }: Rotation,
): Promise<{ row: IngestTokenRow; retiresAt: Date; changed: string[] }> {
  const rows = await trx.selectFrom("ingest_tokens").selectAll().where("id", "=", id).where("org_id", "=", orgId).forUpdate().execute();
  const current = rows.find((row) => row.retires_at === null);
  if (!current) throw notFound("ingest token");
  const older = rows.filter((row) => row !== current).map((row) => row.token_hash);
  if (older.length > 0) await trx.deleteFrom("ingest_tokens").where("org_id", "=", orgId).where("token_hash", "in", older).execute();
  const retiresAt = new Date(Math.min(at.getTime() + overlapMs, current.expires_at?.getTime() ?? Infinity));
  const retires = { retires_at: retiresAt };
  await trx.updateTable("ingest_tokens").set(retires).where("org_id", "=", orgId).where("token_hash", "=", current.token_hash).execute();
  const lifetimeMs = ttlMs ?? (current.expires_at && current.expires_at.getTime() - current.created_at.getTime());
  const expires = lifetimeMs === null ? null : new Date(at.getTime() + lifetimeMs);
  const row = { ...current, token_hash: hash, created_at: at, expires_at: expires, retires_at: null, last_used_at: null };
  await insertWithinLimit(trx, row);
  return { row, retiresAt, changed: [current.token_hash, ...older] };
}

/** Removes all secrets of a token and returns them. */
export async function removeToken(db: Db, orgId: string, id: string): Promise<{ token_hash: string; name: string }[]> {
  return await db.deleteFrom("ingest_tokens").where("id", "=", id).where("org_id", "=", orgId).returning(["token_hash", "name"]).execute();
}

/** Removes the tokens that send under the identity of a cluster or host, and returns their hashes. */
export async function removeTokensOf(trx: Trx, orgId: string, ownerId: string): Promise<string[]> {
  const removed = await trx
    .deleteFrom("ingest_tokens")
    .where("org_id", "=", orgId)
    .where("owner_id", "=", ownerId)
    .returning("token_hash")
    .execute();
  return removed.map((row) => row.token_hash);
}
