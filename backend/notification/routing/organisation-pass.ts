// Runs one pass over an organisation's alerts: reads them, plans, and writes messages and decisions. Invariants: one replica at a time
// processes an organisation; messages and the state of their groups are written in one transaction, which fails if the lock was lost;
// if a pass fails or its replica ends, the organisation becomes due again when the lock expires.
import { randomUUID } from "node:crypto";
import { sql, type Transaction } from "kysely";
import { hasCome } from "../../engines/relational/due.ts";
import { MAX_ALERTS_PER_MESSAGE } from "../notification-limits.ts";
import {
  deleteStates,
  type ExpiringAlert,
  keyOf,
  readAlerts,
  readAnnotations,
  readPending,
  readStates,
  findRulesWithExpired,
  writeStates,
} from "./alert-rows.ts";
import { composeMessage } from "../model/message.ts";
import { findMutedRoutes, readNamedSettings } from "./named-settings.ts";
import { readRoutes } from "./route-store.ts";
import { newDelivery } from "../delivery/delivery-store.ts";
import type { CompletedUntil } from "../intake/evaluations.ts";
import { type GroupMessage, plan, type Plan, stateKey } from "./plan.ts";
import type { NotificationDb, NotificationTables } from "../model/notification-tables.ts";

export interface PassOptions {
  readonly db: NotificationDb;
  /** Undefined: unknown, so an alert that is not reported is not resolved. */
  readonly completedUntil: (orgId: string, ruleIds: readonly string[]) => Promise<CompletedUntil | undefined>;
  /** Interval between evaluations of a rule. */
  readonly intervalMs: number;
  readonly externalUrl: string;
  readonly nowMs: () => number;
  /** Counts created messages, and groups that exceeded the limit. */
  readonly planned?: (messages: number, refused: number) => void;
}

/** Longer than any pass takes. */
export const PASS_LOCK_MS = 60_000;
/** An organisation is due at most this long after a pass. */
export const MAX_DUE_MS = 900_000;
/**
 * After a pass, its organisation pauses for the longest of these times: MIN_PAUSE_MS; PAUSE_FACTOR times the CPU time of the pass; and
 * PAUSE_FACTOR times its total time, but at most MAX_PAUSE_PER_ALERT_MS per alert.
 */
const MIN_PAUSE_MS = 250;
const PAUSE_FACTOR = 20;
const MAX_PAUSE_PER_ALERT_MS = 1;
const MIN_RECHECK_MS = 5000;
const CHUNK_ROWS = 200;

/**
 * Returns the shortest pause before the next pass of this replica, in milliseconds; undefined if another replica holds the lock. Throws if
 * the database is unavailable.
 */
export async function runPass(options: PassOptions, orgId: string): Promise<number | undefined> {
  const { db, nowMs } = options;
  const beganMs = nowMs();
  const lockedUntil = new Date(beganMs + PASS_LOCK_MS);
  if (!(await claim(db, orgId, new Date(beganMs), lockedUntil))) return undefined;
  const began = performance.now();
  const channels = await db.selectFrom("channels").select(["id", "name"]).where("org_id", "=", orgId).where("enabled", "=", true).execute();
  const { nextAt, alerts, busyMs } = await runLocked(options, orgId, new Map(channels.map(({ id, name }) => [id, name])), lockedUntil);
  const longPauseMs = Math.min(PAUSE_FACTOR * (performance.now() - began), MAX_PAUSE_PER_ALERT_MS * alerts);
  const pauseMs = Math.max(MIN_PAUSE_MS, PAUSE_FACTOR * busyMs, longPauseMs);
  const dueAt = nextAt && new Date(Math.min(Math.max(nextAt.getTime(), nowMs() + pauseMs), nowMs() + MAX_DUE_MS));
  await release(db, orgId, lockedUntil, dueAt);
  return pauseMs;
}

interface PassResult {
  /** When the next pass is due; undefined: only after a change. */
  readonly nextAt: Date | undefined;
  readonly alerts: number;
  readonly busyMs: number;
}

async function claim(db: NotificationDb, orgId: string, now: Date, lockedUntil: Date): Promise<boolean> {
  const row = await db
    .updateTable("notification_turns")
    .set({ due_at: lockedUntil, locked_until: lockedUntil })
    .where("org_id", "=", orgId)
    .where(hasCome("due_at", now, MAX_DUE_MS))
    .where((eb) => eb.or([eb("locked_until", "is", null), hasCome("locked_until", now, PASS_LOCK_MS)]))
    .returning("org_id")
    .executeTakeFirst();
  return row !== undefined;
}

/** If something has changed in the meantime, the organisation stays due. */
async function release(db: NotificationDb, orgId: string, lockedUntil: Date, dueAt: Date | undefined): Promise<void> {
  await db
    .updateTable("notification_turns")
    .set(({ eb }) => ({
      locked_until: null,
      due_at: eb
        .case()
        .when("due_at", "<", lockedUntil)
        .then(eb.ref("due_at"))
        .else(dueAt ?? null)
        .end() as never,
    }))
    .where("org_id", "=", orgId)
    .where("locked_until", "=", lockedUntil)
    .execute();
}

async function runLocked(
  options: PassOptions,
  orgId: string,
  channels: ReadonlyMap<string, string>,
  lockedUntil: Date,
): Promise<PassResult> {
  const { db, nowMs } = options;
  const now = new Date(nowMs());
  // Read first, because the result of a delivery may change the state of its group.
  const pending = await readPending(db, orgId);
  const expired = await findRulesWithExpired(db, orgId, now);
  const completedUntil = expired.length > 0 ? await options.completedUntil(orgId, expired) : undefined;
  const alerts = await readAlerts(db, orgId, { now, completedUntil });
  const silences = await db.selectFrom("silences").selectAll().where("org_id", "=", orgId).where("ends_at", ">", now).execute();
  const states = await readStates(db, orgId);
  const routes = await readRoutes(db, orgId);
  const { inhibitRules, timeIntervals } = await readNamedSettings(db, orgId);
  const planned = await plan({
    alerts,
    routes,
    inhibitRules,
    mutedRouteIds: new Set(findMutedRoutes(routes, timeIntervals, now).keys()),
    channelIds: new Set(channels.keys()),
    silences: silences.filter(({ starts_at }) => starts_at <= now).map(({ matchers }) => matchers),
    states,
    ...pending,
    now,
  });
  await write(options, { orgId, channels, planned, lockedUntil, now });
  options.planned?.(planned.messages.length, planned.refused);
  const boundaries = silences.flatMap(({ starts_at, ends_at }) => [starts_at, ends_at]).filter((at) => at > now);
  const expiries = alerts.filter(({ status }) => status === "firing").map(({ expiresAt }) => expiresAt);
  // An expiry in the past waits for an evaluator that works, or for its next evaluation.
  const recheckMs = completedUntil ? Math.min(Math.max(options.intervalMs, MIN_RECHECK_MS), PASS_LOCK_MS) : PASS_LOCK_MS;
  const rechecks = expiries.map((at) => (at > now ? at : new Date(now.getTime() + recheckMs)));
  const nextMs = [planned.nextAt, ...(alerts.length > 0 ? [...boundaries, ...rechecks] : [])].reduce(
    (least, at) => Math.min(least, at?.getTime() ?? least),
    Number.POSITIVE_INFINITY,
  );
  const nextAt = planned.hasMore ? now : Number.isFinite(nextMs) ? new Date(nextMs) : undefined;
  return { nextAt, alerts: Math.max(alerts.length, states.size), busyMs: planned.busyMs };
}

interface PassDecisions {
  readonly orgId: string;
  /** Id → name. */
  readonly channels: ReadonlyMap<string, string>;
  readonly planned: Plan<ExpiringAlert>;
  readonly lockedUntil: Date;
  readonly now: Date;
}

type Delivery = ReturnType<typeof newDelivery>;

async function write(options: PassOptions, decisions: PassDecisions): Promise<void> {
  const { db } = options;
  const { orgId, planned, lockedUntil } = decisions;
  const messages = await buildDeliveries(options, decisions);
  const states = planned.changed.map(({ group, state }) => ({
    org_id: orgId,
    route_id: group.routeId,
    channel_id: group.channelId,
    group_key: group.groupKey,
    labels: JSON.stringify(group.labels),
    firing: JSON.stringify(state.firing),
    last_sent_at: state.lastSentAt,
    next_at: state.nextAt,
  }));
  // The groups whose messages are created now, then all others in chunks, so that other statements do not wait long.
  const notifiedKeys = new Set(planned.messages.map(({ group }) => keyOf(group)));
  const isNotified = (row: (typeof states)[number]) => notifiedKeys.has(stateKey(row.route_id, row.channel_id, row.group_key));
  const { now = [], later = [] } = Object.groupBy(states, (row) => (isNotified(row) ? "now" : "later"));
  await whileLocked(db, orgId, lockedUntil, async (trx) => {
    if (now.length > 0) await writeStates(trx, now);
    if (messages.length > 0) await trx.insertInto("deliveries").values(messages).execute();
  });
  for (const rows of chunks(later)) await whileLocked(db, orgId, lockedUntil, (trx) => writeStates(trx, rows));
  for (const keys of chunks(planned.removed)) await whileLocked(db, orgId, lockedUntil, (trx) => deleteStates(trx, orgId, keys));
  for (const fingerprints of chunks(planned.endedAlerts))
    await db
      .deleteFrom("alerts")
      .where("org_id", "=", orgId)
      .where("fingerprint", "in", fingerprints)
      .where(isOver(decisions.now))
      .execute();
}

/** An alert that has started to fire again since it was read is kept. */
function isOver(now: Date) {
  return sql<boolean>`(ends_at IS NOT NULL OR expires_at <= ${now} OR NOT EXISTS (
    SELECT 1 FROM rules WHERE rules.id = alerts.rule_id AND rules.org_id = alerts.org_id AND rules.enabled))`;
}

/** Runs `work` in a transaction. Throws if another replica has taken the lock of the organisation. */
async function whileLocked(
  db: NotificationDb,
  orgId: string,
  lockedUntil: Date,
  work: (trx: Transaction<NotificationTables>) => Promise<void>,
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    const row = await trx
      .selectFrom("notification_turns")
      .select("org_id")
      .where("org_id", "=", orgId)
      .where("locked_until", "=", lockedUntil)
      .forUpdate()
      .executeTakeFirst();
    if (!row) throw new Error("another replica has taken the lock of this organisation");
    await work(trx);
  });
}

async function buildDeliveries({ db, externalUrl }: PassOptions, { orgId, channels, planned, now }: PassDecisions): Promise<Delivery[]> {
  if (planned.messages.length === 0) return [];
  const { name } = await findOrg(db, orgId);
  const rows: Delivery[] = [];
  for (const content of planned.messages)
    rows.push(await buildDelivery(db, { content, org: { id: orgId, name }, channels, now, externalUrl }));
  return rows;
}

interface MessageContext {
  readonly content: GroupMessage<ExpiringAlert>;
  readonly org: { readonly id: string; readonly name: string };
  readonly channels: ReadonlyMap<string, string>;
  readonly now: Date;
  readonly externalUrl: string;
}

async function buildDelivery(db: NotificationDb, { content, org, channels, now, externalUrl }: MessageContext): Promise<Delivery> {
  const { group } = content;
  const first = [...content.firing, ...content.resolved].slice(0, MAX_ALERTS_PER_MESSAGE);
  const annotations = await readAnnotations(
    db,
    org.id,
    first.map(({ fingerprint }) => fingerprint),
  );
  const withAnnotations = (alerts: readonly ExpiringAlert[]) =>
    alerts.map((alert) => ({ ...alert, annotations: annotations.get(alert.fingerprint) ?? {} }));
  const message = composeMessage({
    id: randomUUID(),
    purpose: "alerts",
    org,
    channel: { id: group.channelId, name: channels.get(group.channelId) ?? "" },
    groupKey: `${group.routeId}:${group.groupKey}`,
    groupLabels: group.labels,
    firing: withAnnotations(content.firing),
    resolved: withAnnotations(content.resolved),
    externalUrl,
  });
  return newDelivery(message, { routeId: group.routeId, groupKey: group.groupKey, now });
}

async function findOrg(db: NotificationDb, orgId: string): Promise<{ readonly name: string }> {
  const orgs = db.$extendTables<{ orgs: { id: string; name: string } }>();
  return await orgs.selectFrom("orgs").select("name").where("id", "=", orgId).executeTakeFirstOrThrow();
}

function chunks<T>(rows: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(rows.length / CHUNK_ROWS) }, (_, number) =>
    rows.slice(number * CHUNK_ROWS, (number + 1) * CHUNK_ROWS),
  );
}
