// Stores messages to be delivered. Invariants: one replica at a time claims a message, and another can claim it only after the first has
// been silent for CLAIM_MS; only the replica that holds the claim writes the result of an attempt.
import type { Transaction } from "kysely";
import { hasCome, latestOf } from "../../engines/relational/due.ts";
import { MAX_MESSAGES_PER_MINUTE } from "../notification-limits.ts";
import type { Message } from "../model/message.ts";
import { markDue, type NotificationDb, type NotificationTables } from "../model/notification-tables.ts";

export interface ClaimedDelivery {
  readonly id: string;
  readonly orgId: string;
  readonly channelId: string;
  readonly routeId: string | null;
  readonly groupKey: string;
  readonly message: Message;
  /** Including this one. */
  readonly attempts: number;
  readonly createdAt: Date;
  readonly lockedUntil: Date;
}

/**
 * Longer than an attempt takes plus the clock differences between replicas; short enough that users can wait for messages of a killed
 * replica.
 */
export const CLAIM_MS = 45_000;
/** A message waits at most this long for its next attempt: the longest backoff, and then for the limit of its organisation. */
const MAX_WAIT_MS = 360_000;
const MINUTE_MS = 60_000;

/** The row of a message that is to be sent now. `routeId` is null for heartbeats. */
export function newDelivery(message: Message, { routeId, groupKey, now }: { routeId: string | null; groupKey: string; now: Date }) {
  return {
    id: message.id,
    org_id: message.org.id,
    channel_id: message.channelId,
    route_id: routeId,
    group_key: groupKey,
    rule_ids: JSON.stringify([...new Set(message.alerts.map(({ ruleId }) => ruleId))]),
    message: JSON.stringify(message),
    status: "pending" as const,
    attempts: 0,
    next_at: now,
    locked_until: null,
    http_status: null,
    error: null,
    created_at: now,
    delivered_at: null,
  };
}

export interface WaitingChannel {
  readonly orgId: string;
  readonly channelId: string;
  readonly nextAt: Date;
}

/** Channels that have a message that no replica is sending, longest waiting first. `busy`: organisations that have reached their limit. */
export async function findWaitingChannels(
  db: NotificationDb,
  now: Date,
  limit: number,
  busy: readonly string[],
): Promise<WaitingChannel[]> {
  const rows = await db
    .selectFrom("deliveries")
    .select(({ fn }) => ["org_id", "channel_id", fn.min("next_at").as("next_at")])
    .where("status", "=", "pending")
    .where((eb) => eb.or([eb("locked_until", "is", null), hasCome("locked_until", now, CLAIM_MS)]))
    .$if(busy.length > 0, (query) => query.where("org_id", "not in", busy))
    .groupBy(["org_id", "channel_id"])
    .orderBy("next_at")
    .limit(limit)
    .execute();
  return rows.map((row) => {
    // SQLite does not know the type of computed columns.
    const nextAt = new Date(row.next_at);
    return { orgId: row.org_id, channelId: row.channel_id, nextAt: nextAt > latestOf(now, MAX_WAIT_MS) ? now : nextAt };
  });
}

/** Undefined if there is none, or if the organisation has reached its limit for this minute. */
export async function claim(
  db: NotificationDb,
  { orgId, channelId }: Omit<WaitingChannel, "nextAt">,
  now: Date,
): Promise<ClaimedDelivery | undefined> {
  const lockedUntil = new Date(now.getTime() + CLAIM_MS);
  return await db.transaction().execute(async (trx) => {
    const row = await trx
      .updateTable("deliveries")
      .set(({ eb }) => ({ locked_until: lockedUntil, attempts: eb("attempts", "+", 1) }))
      .where("id", "=", (eb) =>
        eb
          .selectFrom("deliveries")
          .select("id")
          .where("org_id", "=", orgId)
          .where("channel_id", "=", channelId)
          .where("status", "=", "pending")
          .where(hasCome("next_at", now, MAX_WAIT_MS))
          .where((or) => or.or([or("locked_until", "is", null), hasCome("locked_until", now, CLAIM_MS)]))
          .orderBy("next_at")
          .orderBy("created_at")
          .limit(1)
          .forUpdate()
          .skipLocked(),
      )
      .returningAll()
      .executeTakeFirst();
    if (!row) return undefined;
    const freeAt = await countMessage(trx, orgId, now);
    if (freeAt) {
      await postpone(trx, { orgId, from: now, until: freeAt, id: row.id });
      return undefined;
    }
    return {
      id: row.id,
      orgId,
      channelId,
      routeId: row.route_id,
      groupKey: row.group_key,
      message: row.message as Message,
      attempts: row.attempts,
      createdAt: row.created_at,
      lockedUntil,
    };
  });
}

/** Counts a message against the limit of its organisation. Undefined if it is allowed now; otherwise, when the next one is. */
async function countMessage(trx: Transaction<NotificationTables>, orgId: string, now: Date): Promise<Date | undefined> {
  const row = await trx.selectFrom("notification_turns").selectAll().where("org_id", "=", orgId).forUpdate().executeTakeFirst();
  const minuteMs = row?.minute_at?.getTime() ?? 0;
  const isNew = Math.abs(now.getTime() - minuteMs) >= MINUTE_MS;
  const count = isNew ? 0 : (row?.minute_count ?? 0);
  if (count >= MAX_MESSAGES_PER_MINUTE) return new Date(minuteMs + MINUTE_MS);
  const columns = { minute_at: isNew ? now : (row?.minute_at ?? now), minute_count: count + 1 };
  await trx
    .insertInto("notification_turns")
    .values({ org_id: orgId, due_at: null, locked_until: null, ...columns })
    .onConflict((conflict) => conflict.column("org_id").doUpdateSet(columns))
    .execute();
  return undefined;
}

/** Postpones all due messages of the organisation; the claim of `id` is released. */
async function postpone(
  trx: Transaction<NotificationTables>,
  { orgId, from, until, id }: { orgId: string; from: Date; until: Date; id: string },
): Promise<void> {
  await trx
    .updateTable("deliveries")
    .set(({ eb }) => ({ locked_until: null, attempts: eb("attempts", "-", 1) }))
    .where("org_id", "=", orgId)
    .where("id", "=", id)
    .execute();
  await trx
    .updateTable("deliveries")
    .set({ next_at: until })
    .where("org_id", "=", orgId)
    .where("status", "=", "pending")
    .where("next_at", "<=", from)
    .where("locked_until", "is", null)
    .execute();
}

export async function settleDelivered(
  db: NotificationDb,
  claimed: ClaimedDelivery,
  httpStatus: number | undefined,
  now: Date,
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await endDelivery(trx, claimed, { status: "delivered", delivered_at: now, http_status: httpStatus ?? null, error: null });
    // These were postponed only because of the channel.
    await otherMessages(trx, claimed).set({ next_at: now }).where("next_at", ">", now).where("attempts", "=", 0).execute();
    await markDue(trx, claimed.orgId, now);
  });
}

export interface Failure {
  readonly httpStatus: number | undefined;
  readonly error: string;
}

/** `channelAt`: until then, the channel's other messages are postponed too. */
export async function settleRetry(
  db: NotificationDb,
  claimed: ClaimedDelivery,
  { httpStatus, error }: Failure,
  { messageAt, channelAt }: { readonly messageAt: Date; readonly channelAt: Date },
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    // The message that failed comes after the others.
    const nextAt = new Date(Math.max(messageAt.getTime(), channelAt.getTime() + 1));
    await whileClaimed(trx, claimed)
      .set({ locked_until: null, http_status: httpStatus ?? null, error, next_at: nextAt })
      .execute();
    await otherMessages(trx, claimed).set({ next_at: channelAt }).where("next_at", "<", channelAt).execute();
  });
}

/** `resendsFiring`: alerts that still fire are sent to the channel again. */
export async function settleFailed(
  db: NotificationDb,
  claimed: ClaimedDelivery,
  failure: Failure,
  { now, resendsFiring }: { now: Date; resendsFiring: boolean },
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await endDelivery(trx, claimed, { status: "failed", http_status: failure.httpStatus ?? null, error: failure.error });
    // Locks the organisation before its groups, the same order as in the dispatcher's passes.
    await markDue(trx, claimed.orgId, now);
    if (resendsFiring && claimed.routeId !== null)
      await trx
        .updateTable("alert_groups")
        .set({ firing: "{}", last_sent_at: null, next_at: now })
        .where("org_id", "=", claimed.orgId)
        .where("route_id", "=", claimed.routeId)
        .where("channel_id", "=", claimed.channelId)
        .where("group_key", "=", claimed.groupKey)
        .execute();
  });
}

/** An update of the delivery that does nothing if its claim has expired. */
function whileClaimed(trx: Transaction<NotificationTables>, { id, orgId, lockedUntil }: ClaimedDelivery) {
  return trx.updateTable("deliveries").where("org_id", "=", orgId).where("id", "=", id).where("locked_until", "=", lockedUntil);
}

type DeliveryResult = Partial<Record<"status" | "delivered_at" | "http_status" | "error", unknown>>;

async function endDelivery(trx: Transaction<NotificationTables>, claimed: ClaimedDelivery, result: DeliveryResult): Promise<void> {
  await whileClaimed(trx, claimed)
    .set({ ...result, locked_until: null, message: null } as never)
    .execute();
}

/** The channel's other messages that no replica is sending. */
function otherMessages(trx: Transaction<NotificationTables>, { orgId, channelId, id }: ClaimedDelivery) {
  return trx
    .updateTable("deliveries")
    .where("org_id", "=", orgId)
    .where("channel_id", "=", channelId)
    .where("id", "<>", id)
    .where("status", "=", "pending")
    .where("locked_until", "is", null);
}

/** Releases the claims of this process's previous run. Only for a database that no other process uses. */
export async function releaseClaims(db: NotificationDb, now: Date): Promise<void> {
  await db
    .updateTable("deliveries")
    .set({ locked_until: null })
    .where("status", "=", "pending")
    .where("locked_until", "is not", null)
    .execute();
  await db.updateTable("notification_turns").set({ locked_until: null, due_at: now }).where("locked_until", "is not", null).execute();
}
