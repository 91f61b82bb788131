// Deletes old rows: messages after 30 days, or beyond the organisation's limit; silences some days after their end. Invariant: a pending
// message is not deleted, but marked as failed after a day.
import { sql } from "kysely";
import { MAX_DELIVERIES_PER_ORG } from "../notification-limits.ts";
import type { NotificationDb } from "../model/notification-tables.ts";

const DAY_MS = 24 * 3600_000;
const DELIVERIES_KEPT_MS = 30 * DAY_MS;
/** The same as in Alertmanager. */
const SILENCES_KEPT_MS = 5 * DAY_MS;
/** Rows per statement, so that other statements do not wait long. */
const BATCH_ROWS = 500;

/** Throws if the database is unavailable. Replicas may run it concurrently. */
export async function deleteExpired(db: NotificationDb, nowMs: number): Promise<void> {
  const ago = (ms: number): Date => new Date(nowMs - ms);
  await db
    .updateTable("deliveries")
    .set({ status: "failed", error: "not sent within a day", message: null, locked_until: null })
    .where("status", "=", "pending")
    .where("created_at", "<", ago(DAY_MS))
    .execute();
  while ((await deleteDeliveries(db, ago(DELIVERIES_KEPT_MS))) === BATCH_ROWS);
  await deleteExcess(db);
  await db.deleteFrom("silences").where("ends_at", "<", ago(SILENCES_KEPT_MS)).execute();
}

async function deleteDeliveries(db: NotificationDb, before: Date): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom("deliveries")
    .where("id", "in", (eb) => eb.selectFrom("deliveries").select("id").where("created_at", "<", before).limit(BATCH_ROWS))
    .executeTakeFirst();
  return Number(numDeletedRows);
}

async function deleteExcess(db: NotificationDb): Promise<void> {
  const organisations = await db
    .selectFrom("deliveries")
    .select(["org_id", sql<string>`count(*)`.as("count")])
    .groupBy("org_id")
    .having(sql<boolean>`count(*) > ${MAX_DELIVERIES_PER_ORG}`)
    .execute();
  for (const { org_id, count } of organisations) {
    for (let excess = Number(count) - MAX_DELIVERIES_PER_ORG; excess > 0; excess -= BATCH_ROWS) {
      const limit = Math.min(excess, BATCH_ROWS);
      await db
        .deleteFrom("deliveries")
        .where("org_id", "=", org_id)
        .where("id", "in", (eb) =>
          eb
            .selectFrom("deliveries")
            .select("id")
            .where("org_id", "=", org_id)
            .where("status", "<>", "pending")
            .orderBy("created_at")
            .limit(limit),
        )
        .execute();
    }
  }
}
