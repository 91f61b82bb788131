// Tables of channels, routes, silences, alerts and messages. Invariants: every statement names the organisation, or works on rows that
// contain it; JSON is written as text and read as a value.
import type { ColumnType, Kysely } from "kysely";
import type { Matcher, RouteMatcher } from "./matchers.ts";
import type { ChannelKind, Message } from "./message.ts";

type Json<T> = ColumnType<T, string, string>;

export interface ChannelsTable {
  id: string;
  org_id: string;
  name: string;
  kind: ChannelKind;
  settings: Json<Record<string, unknown>>;
  /** Encrypted by MasterKeys, bound to org_id and id; `previous_secret` is encrypted with the same master key. */
  secret: string;
  previous_secret: string | null;
  master_key_id: string;
  secret_rotated_at: Date | null;
  enabled: boolean;
  heartbeat_seconds: number | null;
  last_heartbeat_at: Date | null;
  created_at: Date;
}

export interface RoutesTable {
  id: string;
  org_id: string;
  position: number;
  matchers: Json<readonly RouteMatcher[]>;
  channel_ids: Json<readonly string[]>;
  group_by: Json<readonly string[]>;
  group_wait_seconds: number;
  group_interval_seconds: number;
  repeat_interval_seconds: number;
  continue: boolean;
  mute_time_intervals: ColumnType<readonly string[], string | undefined, string>;
  active_time_intervals: ColumnType<readonly string[], string | undefined, string>;
  /** At most one per organisation. */
  is_default: boolean;
  created_at: Date;
}

/** Inhibition rules and time intervals. */
export interface NotificationSettingsTable {
  id: string;
  org_id: string;
  kind: "inhibit_rule" | "time_interval";
  name: string;
  body: Json<object>;
  created_at: Date;
}

export interface SilencesTable {
  id: string;
  org_id: string;
  matchers: Json<readonly Matcher[]>;
  starts_at: Date;
  ends_at: Date;
  created_by: string;
  comment: string;
  created_at: Date;
  updated_at: Date;
}

export interface AlertsTable {
  org_id: string;
  fingerprint: string;
  rule_id: string;
  labels: Json<Record<string, string>>;
  annotations: Json<Record<string, string>>;
  bytes: number;
  starts_at: Date;
  ends_at: Date | null;
  expires_at: Date;
  updated_at: Date;
}

/** Fingerprint → state of the alert in the channel: it was sent, or silenced after that. */
export type NotifiedAlerts = Readonly<Record<string, "notified" | "silenced">>;

export interface AlertGroupsTable {
  org_id: string;
  route_id: string;
  channel_id: string;
  group_key: string;
  labels: Json<Record<string, string>>;
  firing: Json<NotifiedAlerts>;
  last_sent_at: Date | null;
  next_at: Date;
}

export interface DeliveriesTable {
  id: string;
  org_id: string;
  channel_id: string;
  route_id: string | null;
  group_key: string;
  rule_ids: Json<readonly string[]>;
  /** Null once the delivery has ended. */
  message: ColumnType<Message | null, string | null, string | null>;
  status: "pending" | "delivered" | "failed";
  attempts: number;
  next_at: Date;
  locked_until: Date | null;
  http_status: number | null;
  error: string | null;
  created_at: Date;
  delivered_at: Date | null;
}

export interface NotificationTurnsTable {
  org_id: string;
  /** Null: only after a change. */
  due_at: Date | null;
  locked_until: Date | null;
  minute_at: Date | null;
  minute_count: number;
}

export interface NotificationTables {
  channels: ChannelsTable;
  routes: RoutesTable;
  silences: SilencesTable;
  notification_settings: NotificationSettingsTable;
  alerts: AlertsTable;
  alert_groups: AlertGroupsTable;
  deliveries: DeliveriesTable;
  notification_turns: NotificationTurnsTable;
}

export type NotificationDb = Kysely<NotificationTables>;

/**
 * Marks the organisation's alerts to be evaluated by `at` at the latest. Call it in the same transaction as any change of channels, routes
 * or silences, because these determine which channels are notified.
 */
export async function markDue(db: NotificationDb, orgId: string, at: Date): Promise<void> {
  await db
    .insertInto("notification_turns")
    .values({ org_id: orgId, due_at: at, locked_until: null, minute_at: null, minute_count: 0 })
    .onConflict((conflict) =>
      conflict
        .column("org_id")
        .doUpdateSet({ due_at: at })
        .where((eb) => eb.or([eb("notification_turns.due_at", "is", null), eb("notification_turns.due_at", ">", at)])),
    )
    .execute();
}
