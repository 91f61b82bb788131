// Reads and writes the alerts, routes and groups of an organisation. Invariants: every statement names the organisation; an alert has ended
// when the evaluator reported that, when its rule is gone, or when the evaluator has evaluated the rule after the time until which the
// alert was announced to fire, without reporting it again.
import type { Transaction } from "kysely";
import { type AlertGroup, type StoredGroup, stateKey } from "./plan.ts";
import type { NotificationDb, NotificationTables } from "../model/notification-tables.ts";
import type { AlertingTables } from "../../alerting/alert-rule-table.ts";
import type { CompletedUntil } from "../intake/evaluations.ts";
import type { Alert } from "../model/message.ts";

const PAGE_ROWS = 1000;

export interface ReadAlertsOptions {
  readonly now: Date;
  /** Read before the alerts; undefined: unknown. */
  readonly completedUntil: CompletedUntil | undefined;
}

/** An alert, and when the alert ends unless the evaluator sends it again. */
export type ExpiringAlert = Alert & { readonly expiresAt: Date };

/** Sorted by fingerprint, without annotations. `silenced` is always false, because silences are not read here. */
export async function readAlerts(db: NotificationDb, orgId: string, options: ReadAlertsOptions): Promise<ExpiringAlert[]> {
  const rules = await findEnabledRules(db, orgId);
  const alerts: ExpiringAlert[] = [];
  for (let after = ""; ;) {
    const rows = await db
      .selectFrom("alerts")
      .select(["fingerprint", "rule_id", "labels", "starts_at", "ends_at", "expires_at"])
      .where("org_id", "=", orgId)
      .where("fingerprint", ">", after)
      .orderBy("fingerprint")
      .limit(PAGE_ROWS)
      .execute();
    for (const row of rows) {
      const endsAt = rules.has(row.rule_id) ? findEnd(row, options) : (row.ends_at ?? options.now);
      alerts.push({
        fingerprint: row.fingerprint,
        ruleId: row.rule_id,
        labels: row.labels,
        annotations: {},
        startsAt: row.starts_at,
        endsAt,
        status: endsAt ? "resolved" : "firing",
        silenced: false,
        expiresAt: row.expires_at,
      });
    }
    if (rows.length < PAGE_ROWS) return alerts;
    after = rows.at(-1)?.fingerprint ?? "";
  }
}

/** Rules of firing alerts whose expiry has passed. */
export async function findRulesWithExpired(db: NotificationDb, orgId: string, now: Date): Promise<string[]> {
  const rows = await db
    .selectFrom("alerts")
    .select("rule_id")
    .distinct()
    .where("org_id", "=", orgId)
    .where("ends_at", "is", null)
    .where("expires_at", "<=", now)
    .execute();
  return rows.map(({ rule_id }) => rule_id);
}

function findEnd(
  row: { readonly rule_id: string; readonly ends_at: Date | null; readonly expires_at: Date },
  { now, completedUntil }: ReadAlertsOptions,
): Date | undefined {
  if (row.ends_at) return row.ends_at;
  if (row.expires_at > now || completedUntil === undefined) return undefined;
  return completedUntil(row.rule_id) >= row.expires_at.getTime() ? row.expires_at : undefined;
}

async function findEnabledRules(db: NotificationDb, orgId: string): Promise<ReadonlySet<string>> {
  const rules = db.$extendTables<Pick<AlertingTables, "rules">>();
  const rows = await rules.selectFrom("rules").select("id").where("org_id", "=", orgId).where("enabled", "=", true).execute();
  return new Set(rows.map(({ id }) => id));
}

/** Fingerprint → annotations, of these alerts only. */
export async function readAnnotations(
  db: NotificationDb,
  orgId: string,
  fingerprints: readonly string[],
): Promise<ReadonlyMap<string, Readonly<Record<string, string>>>> {
  if (fingerprints.length === 0) return new Map();
  const rows = await db
    .selectFrom("alerts")
    .select(["fingerprint", "annotations"])
    .where("org_id", "=", orgId)
    .where("fingerprint", "in", fingerprints)
    .execute();
  return new Map(rows.map((row) => [row.fingerprint, row.annotations]));
}

export async function readStates(db: NotificationDb, orgId: string): Promise<Map<string, StoredGroup>> {
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

export function keyOf({ routeId, channelId, groupKey }: Pick<AlertGroup, "routeId" | "channelId" | "groupKey">): string {
  return stateKey(routeId, channelId, groupKey);
}

export async function writeStates(trx: Transaction<NotificationTables>, rows: readonly object[]): Promise<void> {
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
