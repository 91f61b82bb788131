// Sends heartbeats to the channels that have an interval for them (a dead man's switch). Invariant: a heartbeat is sent only if the
// evaluator works and, if the organisation has rules, has evaluated them recently; each is sent once, however many replicas there are.
import { randomUUID } from "node:crypto";
import type { Transaction } from "kysely";
import { composeMessage } from "../model/message.ts";
import type { NotificationDb, NotificationTables } from "../model/table.ts";

export interface HeartbeatOptions {
  readonly db: NotificationDb;
  /** Whether the rules of an organisation are being evaluated. */
  readonly isEvaluated: (orgId: string) => Promise<boolean>;
  readonly externalUrl: string;
  readonly nowMs: () => number;
}

/** Group name in heartbeat messages. */
export const HEARTBEAT_GROUP = "heartbeat";

interface Due {
  readonly id: string;
  readonly org_id: string;
  readonly name: string;
  readonly org_name: string;
}

/** Returns how many were created. Throws if the database is unavailable. */
export async function makeHeartbeats(options: HeartbeatOptions): Promise<number> {
  const now = new Date(options.nowMs());
  let made = 0;
  for (const [orgId, channels] of Map.groupBy(await dueChannels(options.db, now), ({ org_id }) => org_id)) {
    if (!(await options.isEvaluated(orgId))) continue;
    for (const channel of channels) made += Number(await makeOne(options, channel, now));
  }
  return made;
}

async function dueChannels(db: NotificationDb, now: Date): Promise<Due[]> {
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
  return seconds !== null && (last === null || now.getTime() - last.getTime() >= seconds * 1000);
}

/** False if another replica created it, or if the previous one is still being delivered. */
async function makeOne(
  { db, externalUrl }: HeartbeatOptions,
  { id: channelId, org_id: orgId, name, org_name }: Due,
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
    const id = randomUUID();
    const message = composeMessage({
      id,
      purpose: "heartbeat",
      org: { id: orgId, name: org_name },
      channel: { id: channelId, name },
      groupKey: HEARTBEAT_GROUP,
      groupLabels: {},
      firing: [],
      resolved: [],
      externalUrl,
    });
    await insertDelivery(trx, { id, orgId, channelId, groupKey: HEARTBEAT_GROUP, message: JSON.stringify(message), now });
    return true;
  });
}

interface Made {
  readonly id: string;
  readonly orgId: string;
  readonly channelId: string;
  readonly groupKey: string;
  readonly message: string;
  readonly now: Date;
}

async function insertDelivery(trx: Transaction<NotificationTables>, { id, orgId, channelId, groupKey, message, now }: Made): Promise<void> {
  const waiting = { status: "pending", attempts: 0, next_at: now, locked_until: null, http_status: null, error: null } as const;
  await trx
    .insertInto("deliveries")
    .values({
      ...waiting,
      id,
      org_id: orgId,
      channel_id: channelId,
      route_id: null,
      group_key: groupKey,
      rule_ids: "[]",
      message,
      created_at: now,
      delivered_at: null,
    })
    .execute();
}
