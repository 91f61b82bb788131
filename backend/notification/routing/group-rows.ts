// What an organisation's turn reads and writes of routes and groups. Invariant: every statement names the organisation.
import type { Transaction } from "kysely";
import { stateKey, type GroupOf, type KnownGroup } from "./plan.ts";
import type { Route } from "./routing-tree.ts";
import type { NotificationDb, NotificationTables } from "../model/table.ts";

export async function readRoutes(db: NotificationDb, orgId: string): Promise<Route[]> {
  const rows = await db.selectFrom("routes").selectAll().where("org_id", "=", orgId).orderBy("position").orderBy("id").execute();
  return rows.map((row) => ({
    id: row.id,
    matchers: row.matchers,
    channelIds: row.channel_ids,
    groupBy: row.group_by,
    waitMs: row.group_wait_seconds * 1000,
    intervalMs: row.group_interval_seconds * 1000,
    repeatMs: row.repeat_interval_seconds * 1000,
    continues: row.continue,
    isDefault: row.is_default,
  }));
}

export async function readStates(db: NotificationDb, orgId: string): Promise<Map<string, KnownGroup>> {
  const rows = await db.selectFrom("alert_groups").selectAll().where("org_id", "=", orgId).execute();
  return new Map(
    rows.map((row) => {
      const group = { routeId: row.route_id, channelId: row.channel_id, groupKey: row.group_key, labels: row.labels };
      return [keyOf(group), { group, firing: row.firing, lastSentAt: row.last_sent_at, nextAt: row.next_at }];
    }),
  );
}

export async function readPending(
  db: NotificationDb,
  orgId: string,
): Promise<{ pendingGroups: Set<string>; pendingOf: Map<string, number> }> {
  const rows = await db
    .selectFrom("deliveries")
    .select(["route_id", "channel_id", "group_key"])
    .where("org_id", "=", orgId)
    .where("status", "=", "pending")
    .execute();
  const pendingOf = new Map<string, number>();
  for (const { channel_id } of rows) pendingOf.set(channel_id, (pendingOf.get(channel_id) ?? 0) + 1);
  return { pendingGroups: new Set(rows.map((row) => stateKey(row.route_id ?? "", row.channel_id, row.group_key))), pendingOf };
}

export function keyOf({ routeId, channelId, groupKey }: Pick<GroupOf, "routeId" | "channelId" | "groupKey">): string {
  return stateKey(routeId, channelId, groupKey);
}

export async function upsertStates(trx: Transaction<NotificationTables>, rows: readonly NotificationRow[]): Promise<void> {
  await trx
    .insertInto("alert_groups")
    .values(rows as never)
    .onConflict((conflict) =>
      conflict.columns(["org_id", "route_id", "channel_id", "group_key"]).doUpdateSet((eb) => ({
        firing: eb.ref("excluded.firing") as never,
        last_sent_at: eb.ref("excluded.last_sent_at"),
        next_at: eb.ref("excluded.next_at"),
      })),
    )
    .execute();
}

type NotificationRow = Record<string, unknown>;

export async function deleteStates(trx: Transaction<NotificationTables>, orgId: string, keys: readonly string[]): Promise<void> {
  const groups = keys.map((key) => key.split(" "));
  await trx
    .deleteFrom("alert_groups")
    .where("org_id", "=", orgId)
    .where((eb) =>
      eb.or(
        groups.map(([routeId = "", channelId = "", key = ""]) =>
          eb.and([eb("route_id", "=", routeId), eb("channel_id", "=", channelId), eb("group_key", "=", key)]),
        ),
      ),
    )
    .execute();
}
