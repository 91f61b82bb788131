// Stores the alert changes that the evaluator reports. Invariants: an accepted alert is in the database, and its organisation is marked as
// due in the same transaction; an unchanged repetition writes nothing; the alerts of an organisation are limited.
import type { Transaction } from "kysely";
import type { AlertingTables } from "../../alerting/alert-rule-table.ts";
import { latestOf } from "../../engines/relational/due.ts";
import { MAX_ALERTS_PER_ORG, MAX_ALERT_BYTES_PER_ORG, MAX_ALERT_LIFE_MS } from "../notification-limits.ts";
import { splitAlerts, readAlert, type PostedAlert } from "./posted-alerts.ts";
import { markDue, type NotificationDb, type NotificationTables } from "../model/notification-tables.ts";

export interface IntakeOptions {
  readonly db: NotificationDb;
  /** False if an alert may have ended only because this machine was suspended. The evaluator repeats the end for a quarter of an hour. */
  readonly mayEnd: () => boolean;
  readonly dropped: (reason: DropReason, alerts: number) => void;
  /** Called when the dispatcher has something to evaluate. */
  readonly onChanged: () => void;
  readonly nowMs: () => number;
}

export type DropReason = "unknown_rule" | "too_many" | "not_ours";

/** Lifetime of an alert without an end, as in Alertmanager. */
const DEFAULT_LIFE_MS = 5 * 60_000;

interface StoredAlert {
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
    for await (const values of splitAlerts(body)) {
      const alerts = values.map(readAlert).filter((alert) => alert !== undefined);
      if (alerts.length < values.length) this.#options.dropped("not_ours", values.length - alerts.length);
      for (const [orgId, posted] of Map.groupBy(alerts, (alert) => alert.orgId)) await this.#takeOrganisation(orgId, posted);
    }
  }

  async #takeOrganisation(orgId: string, posted: readonly PostedAlert[]): Promise<void> {
    const { db, dropped, onChanged, nowMs } = this.#options;
    const ruleIds = await findRules(db, orgId, new Set(posted.map(({ ruleId }) => ruleId)));
    const alerts = keepLast(posted.filter(({ ruleId }) => ruleIds.has(ruleId)));
    const unknown = posted.filter(({ ruleId }) => !ruleIds.has(ruleId)).length;
    if (unknown > 0) dropped("unknown_rule", unknown);
    if (alerts.length === 0) return;
    const before = new Map((await findAlerts(db, orgId, alerts)).map((row) => [row.fingerprint, row]));
    const now = nowMs();
    const mayEnd = this.#options.mayEnd();
    const writes = alerts.flatMap((alert) => planWrite(alert, before.get(alert.fingerprint), { nowMs: now, mayEnd }) ?? []);
    if (writes.length === 0) return;
    const capacity = writes.some(({ isNew }) => isNew) ? await readCapacity(db, orgId) : { alerts: 0, bytes: 0 };
    const admitted = writes.filter(({ row, isNew }) => !isNew || ((capacity.alerts -= 1) >= 0 && (capacity.bytes -= row.bytes) >= 0));
    if (admitted.length < writes.length) dropped("too_many", writes.length - admitted.length);
    const hasChange = admitted.some(({ isChange }) => isChange);
    await db.transaction().execute(async (trx) => {
      await write(
        trx,
        admitted.map(({ row }) => row),
      );
      if (hasChange) await markDue(trx, orgId, new Date(now));
    });
    if (hasChange) onChanged();
  }
}

interface AlertWrite {
  readonly row: Row;
  readonly isNew: boolean;
  /** True if the alert began or ended. */
  readonly isChange: boolean;
}

/** Undefined if nothing has to be written. */
function planWrite(
  alert: PostedAlert,
  before: StoredAlert | undefined,
  { nowMs, mayEnd }: { readonly nowMs: number; readonly mayEnd: boolean },
): AlertWrite | undefined {
  const endsMs = alert.endsAt?.getTime() ?? nowMs + DEFAULT_LIFE_MS;
  const isOver = endsMs <= nowMs;
  const wasFiring = before?.ends_at === null;
  // It ended before any notification, or its end was already reported.
  if (isOver && (!wasFiring || !mayEnd)) return undefined;
  const expiresMs = isOver ? nowMs : Math.min(endsMs, nowMs + MAX_ALERT_LIFE_MS);
  const lifeMs = expiresMs - nowMs;
  const isStoredLongEnough =
    before && before.expires_at.getTime() - nowMs > lifeMs / 2 && before.expires_at <= latestOf(new Date(nowMs), lifeMs);
  if (!isOver && wasFiring && isStoredLongEnough) return undefined;
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

/** The last alert with each fingerprint, in an order that all writers share, which prevents deadlocks. */
function keepLast(alerts: readonly PostedAlert[]): PostedAlert[] {
  const byFingerprint = new Map(alerts.map((alert) => [alert.fingerprint, alert]));
  return [...byFingerprint.values()].toSorted((a, b) => (a.fingerprint < b.fingerprint ? -1 : 1));
}

async function findRules(db: NotificationDb, orgId: string, ids: ReadonlySet<string>): Promise<ReadonlySet<string>> {
  const rules = db.$extendTables<Pick<AlertingTables, "rules">>();
  const rows = await rules
    .selectFrom("rules")
    .select("id")
    .where("org_id", "=", orgId)
    .where("id", "in", [...ids])
    .execute();
  return new Set(rows.map(({ id }) => id));
}

async function findAlerts(db: NotificationDb, orgId: string, alerts: readonly PostedAlert[]): Promise<StoredAlert[]> {
  const fingerprints = alerts.map(({ fingerprint }) => fingerprint);
  return await db
    .selectFrom("alerts")
    .select(["fingerprint", "ends_at", "expires_at"])
    .where("org_id", "=", orgId)
    .where("fingerprint", "in", fingerprints)
    .execute();
}

async function readCapacity(db: NotificationDb, orgId: string): Promise<{ alerts: number; bytes: number }> {
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
        // A restarted evaluator reports a later start of an alert that never ended.
        starts_at: eb.case().when("alerts.ends_at", "is", null).then(eb.ref("alerts.starts_at")).else(eb.ref("excluded.starts_at")).end(),
        ends_at: eb.ref("excluded.ends_at"),
        expires_at: eb.ref("excluded.expires_at"),
        updated_at: eb.ref("excluded.updated_at"),
      })),
    )
    .execute();
}
