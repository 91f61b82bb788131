// Sends heartbeats to the channels that have an interval for them (a dead man's switch). Invariant: a heartbeat is sent only if the
// evaluator works and, if the organisation has rules, has evaluated them recently; each is sent once, however many replicas there are.
import { randomUUID } from "node:crypto";
import { composeMessage } from "../model/message.ts";
import type { NotificationDb } from "../model/notification-tables.ts";
import { newDelivery } from "./delivery-store.ts";

export interface HeartbeatOptions {
  readonly db: NotificationDb;
  /** Whether the rules of an organisation are being evaluated. */
  readonly isEvaluated: (orgId: string) => Promise<boolean>;
  readonly externalUrl: string;
  readonly nowMs: () => number;
}

const HEARTBEAT_GROUP = "heartbeat";

interface DueChannel {
  readonly id: string;
  readonly org_id: string;
  readonly name: string;
  readonly org_name: string;
}

/** Creates the heartbeats that are due, and returns their number. Throws if the database is unavailable. */
export async function createHeartbeats(options: HeartbeatOptions): Promise<number> {
  const now = new Date(options.nowMs());
  let created = 0;
  for (const [orgId, channels] of Map.groupBy(await findDueChannels(options.db, now), ({ org_id }) => org_id)) {
    if (!(await options.isEvaluated(orgId))) continue;
    for (const channel of channels) created += Number(await createHeartbeat(options, channel, now));
  }
  return created;
}

async function findDueChannels(db: NotificationDb, now: Date): Promise<DueChannel[]> {
  const tables = db.$extendTables<{ orgs: { id: string; name: string } }>();
  const rows = await tables
    .selectFrom("channels")
    .innerJoin("orgs", "orgs.id", "channels.org_id")
    .select([
      "channels.id",
      "channels.org_id",
      "channels.name",
      "orgs.name as org_name",
      "channels.heartbeat_seconds",
      "channels.last_heartbeat_at",
    ])
    .where("channels.enabled", "=", true)
    .where("channels.heartbeat_seconds", "is not", null)
    .execute();
  return rows.filter((row) => isDue(row, now));
}

function isDue(
  { heartbeat_seconds: seconds, last_heartbeat_at: last }: { heartbeat_seconds: number | null; last_heartbeat_at: Date | null },
  now: Date,
): boolean {
  // A last heartbeat in the future was sent before the clock was set back.
  return seconds !== null && (last === null || Math.abs(now.getTime() - last.getTime()) >= seconds * 1000);
}

/** False if another replica created it, or if the previous one is still being delivered. */
async function createHeartbeat(
  { db, externalUrl }: HeartbeatOptions,
  { id: channelId, org_id: orgId, name, org_name }: DueChannel,
  now: Date,
): Promise<boolean> {
  return await db.transaction().execute(async (trx) => {
    const channel = await trx
      .selectFrom("channels")
      .select(["heartbeat_seconds", "last_heartbeat_at"])
      .where("org_id", "=", orgId)
      .where("id", "=", channelId)
      .forUpdate()
      .executeTakeFirst();
    if (!channel || !isDue(channel, now)) return false;
    await trx.updateTable("channels").set({ last_heartbeat_at: now }).where("org_id", "=", orgId).where("id", "=", channelId).execute();
    const before = await trx
      .selectFrom("deliveries")
      .select("id")
      .where("org_id", "=", orgId)
      .where("channel_id", "=", channelId)
      .where("group_key", "=", HEARTBEAT_GROUP)
      .where("status", "=", "pending")
      .executeTakeFirst();
    if (before) return false;
    const message = composeMessage({
      id: randomUUID(),
      purpose: "heartbeat",
      org: { id: orgId, name: org_name },
      channel: { id: channelId, name },
      groupKey: HEARTBEAT_GROUP,
      groupLabels: {},
      firing: [],
      resolved: [],
      externalUrl,
    });
    await trx
      .insertInto("deliveries")
      .values(newDelivery(message, { routeId: null, groupKey: HEARTBEAT_GROUP, now }))
      .execute();
    return true;
  });
}
