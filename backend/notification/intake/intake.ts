// Stores changes of alerts that the evaluator reports. Invariants: an accepted alert is in the database, and its organisation is marked as
// due in the same transaction; an unchanged repetition writes nothing; the alerts of an organisation are limited.
import type { Transaction } from "kysely";
import type { AlertingTables } from "../../alerting/table.ts";
import { MAX_ALERTS_PER_ORG, MAX_ALERT_BYTES_PER_ORG, MAX_ALERT_LIFE_MS } from "../limits.ts";
import { splitAlerts, readAlert, type PostedAlert } from "./posted-alerts.ts";
import { markDue, type NotificationDb, type NotificationTables } from "../model/table.ts";

export interface IntakeOptions {
  readonly db: NotificationDb;
  /** False if an alert may have ended only because this machine was suspended. The evaluator repeats the end for a quarter of an hour. */
  readonly mayEnd: () => boolean;
  readonly dropped: (reason: DropReason, alerts: number) => void;
  /** Called when the dispatcher has something to evaluate. */
  readonly changed: () => void;
  readonly nowMs: () => number;
}

/** Why an alert was not stored. */
export type DropReason = "unknown_rule" | "too_many" | "not_ours";

/** Lifetime of an alert without an end, as in Alertmanager. */
const DEFAULT_LIFE_MS = 5 * 60_000;

interface Known {
  readonly fingerprint: string;
  readonly ends_at: Date | null;
  readonly expires_at: Date;
}

type Row = NotificationTables["alerts"];

export class Intake {
  readonly #options: IntakeOptions;

  constructor(options: IntakeOptions) {
    this.#options = options;
  }

  /**
   * Processes a request of the evaluator. Throws ApiError `malformed_body`, or an error if the database is unavailable; some alerts may
   * then be stored already.
   */
  async take(body: Buffer): Promise<void> {
    for await (const piece of splitAlerts(body)) {
      const alerts = piece.map(readAlert).filter((alert) => alert !== undefined);
      if (alerts.length < piece.length) this.#options.dropped("not_ours", piece.length - alerts.length);
      for (const [orgId, own] of Map.groupBy(alerts, (alert) => alert.orgId)) await this.#takeOf(orgId, own);
    }
  }

  async #takeOf(orgId: string, posted: readonly PostedAlert[]): Promise<void> {
    const { db, dropped, changed, nowMs } = this.#options;
    const known = await rulesAmong(db, orgId, new Set(posted.map(({ ruleId }) => ruleId)));
    const alerts = lastOfEach(posted.filter(({ ruleId }) => known.has(ruleId)));
    const unknown = posted.filter(({ ruleId }) => !known.has(ruleId)).length;
    if (unknown > 0) dropped("unknown_rule", unknown);
    if (alerts.length === 0) return;
    const before = new Map((await rowsOf(db, orgId, alerts)).map((row) => [row.fingerprint, row]));
    const now = nowMs();
    const mayEnd = this.#options.mayEnd();
    const news = alerts.flatMap((alert) => newsOf(alert, before.get(alert.fingerprint), { nowMs: now, mayEnd }) ?? []);
    if (news.length === 0) return;
    const room = news.some(({ isNew }) => isNew) ? await roomOf(db, orgId) : { alerts: 0, bytes: 0 };
    const kept = news.filter(({ row, isNew }) => !isNew || ((room.alerts -= 1) >= 0 && (room.bytes -= row.bytes) >= 0));
    if (kept.length < news.length) dropped("too_many", news.length - kept.length);
    const hasChange = kept.some(({ isChange }) => isChange);
    await db.transaction().execute(async (trx) => {
      await write(
        trx,
        kept.map(({ row }) => row),
      );
      if (hasChange) await markDue(trx, orgId, new Date(now));
    });
    if (hasChange) changed();
  }
}

interface News {
  readonly row: Row;
  readonly isNew: boolean;
  /** True if the alert began or ended. */
  readonly isChange: boolean;
}

/** Undefined if nothing has to be written. */
function newsOf(
  alert: PostedAlert,
  before: Known | undefined,
  { nowMs, mayEnd }: { readonly nowMs: number; readonly mayEnd: boolean },
): News | undefined {
  const endsMs = alert.endsAt?.getTime() ?? nowMs + DEFAULT_LIFE_MS;
  const isOver = endsMs <= nowMs;
  const wasFiring = before?.ends_at === null;
  // It ended before any notification, or its end was already reported.
  if (isOver && (!wasFiring || !mayEnd)) return undefined;
  const expiresMs = isOver ? nowMs : Math.min(endsMs, nowMs + MAX_ALERT_LIFE_MS);
  const lifeMs = expiresMs - nowMs;
  if (!isOver && wasFiring && before.expires_at.getTime() - nowMs > lifeMs / 2) return undefined;
  const row: Row = {
    org_id: alert.orgId,
    fingerprint: alert.fingerprint,
    rule_id: alert.ruleId,
    labels: alert.labels as never,
    annotations: alert.annotations as never,
    bytes: alert.bytes,
    starts_at: alert.startsAt,
    ends_at: isOver ? new Date(endsMs) : null,
    expires_at: new Date(expiresMs),
    updated_at: new Date(nowMs),
  };
  return { row, isNew: !before, isChange: isOver || !wasFiring };
}

/** In an order that all writers share, which prevents deadlocks. */
function lastOfEach(alerts: readonly PostedAlert[]): PostedAlert[] {
  const byFingerprint = new Map(alerts.map((alert) => [alert.fingerprint, alert]));
  return [...byFingerprint.values()].toSorted((one, other) => (one.fingerprint < other.fingerprint ? -1 : 1));
}

async function rulesAmong(db: NotificationDb, orgId: string, ids: ReadonlySet<string>): Promise<ReadonlySet<string>> {
  const rules = db.$extendTables<Pick<AlertingTables, "rules">>();
  const rows = await rules
    .selectFrom("rules")
    .select("id")
    .where("org_id", "=", orgId)
    .where("id", "in", [...ids])
    .execute();
  return new Set(rows.map(({ id }) => id));
}

async function rowsOf(db: NotificationDb, orgId: string, alerts: readonly PostedAlert[]): Promise<Known[]> {
  const fingerprints = alerts.map(({ fingerprint }) => fingerprint);
  return await db
    .selectFrom("alerts")
    .select(["fingerprint", "ends_at", "expires_at"])
    .where("org_id", "=", orgId)
    .where("fingerprint", "in", fingerprints)
    .execute();
}

async function roomOf(db: NotificationDb, orgId: string): Promise<{ alerts: number; bytes: number }> {
  const { count, bytes } = await db
    .selectFrom("alerts")
    .select(({ fn }) => [fn.countAll<string>().as("count"), fn.sum<string | null>("bytes").as("bytes")])
    .where("org_id", "=", orgId)
    .executeTakeFirstOrThrow();
  return { alerts: MAX_ALERTS_PER_ORG - Number(count), bytes: MAX_ALERT_BYTES_PER_ORG - Number(bytes ?? 0) };
}

async function write(trx: Transaction<NotificationTables>, rows: readonly Row[]): Promise<void> {
  const values = rows.map((row) => ({ ...row, labels: JSON.stringify(row.labels), annotations: JSON.stringify(row.annotations) }));
  await trx
    .insertInto("alerts")
    .values(values)
    .onConflict((conflict) =>
      conflict.columns(["org_id", "fingerprint"]).doUpdateSet((eb) => ({
        annotations: eb.ref("excluded.annotations") as never,
        bytes: eb.ref("excluded.bytes"),
        starts_at: eb.ref("excluded.starts_at"),
        ends_at: eb.ref("excluded.ends_at"),
        expires_at: eb.ref("excluded.expires_at"),
        updated_at: eb.ref("excluded.updated_at"),
      })),
    )
    .execute();
}
