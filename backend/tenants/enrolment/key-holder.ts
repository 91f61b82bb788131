// Finds the newest key of each cluster or host, and whether the agent that holds it is still alive. Invariant: while it is alive, a
// registration from another installation or from a cloned host must not retire its key.
import type { Kysely, Selectable, Transaction } from "kysely";
import type { KeyKind } from "../../http/request-identity.ts";
import { offlineAfterMs } from "./heartbeats.ts";
import type { EnrolmentTables, HostTable } from "./enrolment-tables.ts";

type KeyHolder = Pick<Selectable<HostTable>, "id" | "org_id" | "last_heartbeat" | "heartbeat_interval_s">;

/**
 * `silentAfterS`: another agent may register once the holder has sent no heartbeat for this long. Undefined if the holder has no key, or
 * has been silent for long enough. The caller must have locked the holder's row.
 */
export async function findAliveHolder(
  trx: Transaction<EnrolmentTables>,
  kind: KeyKind,
  { id, org_id, last_heartbeat, heartbeat_interval_s }: KeyHolder,
  { now, startedAt }: { now: number; startedAt: number },
) {
  const createdAt = (await currentKeyTimes(trx, org_id, kind, [id])).get(id);
  if (!createdAt) return undefined;
  const silentAfterMs = offlineAfterMs(heartbeat_interval_s);
  // A new key counts as a heartbeat, because the first one is still to come. No heartbeat could arrive before this process started.
  const aliveAt = Math.max(createdAt.getTime(), last_heartbeat?.getTime() ?? 0, startedAt);
  if (now - aliveAt >= silentAfterMs) return undefined;
  return { silentAfterS: silentAfterMs / 1000, retryAfterS: heartbeat_interval_s };
}

/** Owner id → when its newest valid key was created, within one organisation. */
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
  // SQLite returns computed columns without a type.
  return new Map(rows.map((row) => [row.owner_id, new Date(row.created_at)]));
}
