// What the lists of clusters and hosts share: since when each has its current key. Invariant: only those of one organisation.
import type { Kysely } from "kysely";
import type { KeyKind } from "../auth/request-identity.ts";
import type { EnrolmentTables } from "./table.ts";

/** Of these owners: id → when its newest key that is not revoked was minted. */
export async function currentKeyTimes(
  db: Kysely<EnrolmentTables>,
  orgId: string,
  kind: KeyKind,
  ownerIds: readonly string[],
): Promise<Map<string, Date>> {
  if (ownerIds.length === 0) return new Map();
  const rows = await db
    .selectFrom("api_keys")
    .select((select) => ["owner_id", select.fn.max("created_at").as("created_at")])
    .where("org_id", "=", orgId)
    .where("kind", "=", kind)
    .where("owner_id", "in", ownerIds)
    .where("revoked_at", "is", null)
    .groupBy("owner_id")
    .execute();
  // SQLite tells no type of what it computes.
  return new Map(rows.map((row) => [row.owner_id, new Date(row.created_at)]));
}
