// The table of ingest tokens for kysely; engines/relational/migrations/110-ingest-tokens.sql creates it. Invariant: only hashes of tokens
// are stored, so a copy of the database contains no token that can be used.
import { createHash, randomBytes } from "node:crypto";
import { type Kysely, sql, type Transaction } from "kysely";
import type { Watched } from "../../engines/relational/bulk-rows.ts";
import type { KeyKind } from "../../http/request-identity.ts";

/** One secret of a token. */
export interface IngestTokenRow {
  token_hash: string;
  /** Id of the token; its rotated secrets share it. */
  id: string;
  org_id: string;
  name: string;
  kind: KeyKind;
  /** The cluster or host under whose identity data is stored; the token's own id without one. */
  owner_id: string;
  node: string;
  /** Comma-separated. */
  signals: string;
  /** CIDRs, comma-separated; empty: any. */
  networks: string;
  /** Limit per signal; 0: no limit of its own. */
  bytes_per_second: number;
  records_per_second: number;
  created_by: string;
  created_at: Date;
  /** Null: never. */
  expires_at: Date | null;
  /** The end of the overlap; null for the current secret. */
  retires_at: Date | null;
  last_used_at: Date | null;
}

export interface IngestTokenTables {
  ingest_tokens: IngestTokenRow;
}

export type IngestTokenDb = Kysely<IngestTokenTables> | Transaction<IngestTokenTables>;

/** `ig_` and 32 random bytes. */
export const INGEST_TOKEN = /^ig_[\w-]{43}$/;

export function newIngestToken(): { token: string; hash: string } {
  const token = `ig_${randomBytes(32).toString("base64url")}`;
  return { token, hash: ingestTokenHash(token) };
}

export function ingestTokenHash(token: string): string {
  return createHash("sha256").update(token, "utf8").digest("hex");
}

/** Only a rotation changes a row. */
export const WATCHED_INGEST_TOKENS: Watched = {
  table: "ingest_tokens",
  column: "token_hash",
  type: "text",
  state: sql<string>`coalesce(CAST(retires_at AS text), '-')`,
};

export async function findIngestTokens(db: IngestTokenDb, hashes: readonly string[]): Promise<(IngestTokenRow & { state: string })[]> {
  return await db
    .selectFrom("ingest_tokens")
    .selectAll()
    .select(WATCHED_INGEST_TOKENS.state.as("state"))
    .where("token_hash", "in", hashes)
    .execute();
}

/** Locks the rows in a fixed order, which prevents deadlocks between replicas. */
export async function recordLastUses(db: IngestTokenDb, hashes: readonly string[], now: Date): Promise<void> {
  await db
    .updateTable("ingest_tokens")
    .set({ last_used_at: now })
    .where("token_hash", "in", (used) =>
      used.selectFrom("ingest_tokens").select("token_hash").where("token_hash", "in", hashes).orderBy("token_hash").forUpdate(),
    )
    .execute();
}
