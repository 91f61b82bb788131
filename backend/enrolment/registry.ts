// What the lists of clusters and hosts share: since when each has its current key. Used by administer-clusters.ts and administer-hosts.ts.
import type { Kysely } from "kysely";
import type { KeyKind } from "../request-identity.ts";
import type { EnrolmentTables } from "./table.ts";

/** Owner id → when its newest key that is not revoked was minted. */
export async function currentKeyTimes(db: Kysely<EnrolmentTables>, orgId: string, kind: KeyKind): Promise<Map<string, Date>> {
  const rows = await db
    .selectFrom("api_keys")
    .select((select) => ["owner_id", select.fn.max("created_at").as("created_at")])
    .where("org_id", "=", orgId)
    .where("kind", "=", kind)
    .where("revoked_at", "is", null)
    .groupBy("owner_id")
    .execute();
  return new Map(rows.map((row) => [row.owner_id, row.created_at]));
}
