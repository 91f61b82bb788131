// The alerts of an organisation as they stand now, for the dispatcher and for who reads them. Invariant: of one organisation; an alert is
// over when the evaluator said so, when its rule is gone, or when the evaluator has evaluated the rule since the time for which it promised
// that the alert fires, and did not speak of it.
import type { Transaction } from "kysely";
import type { AlertingTables } from "../../alerting/table.ts";
import type { EvaluatedUntil } from "../intake/acknowledged-evaluations.ts";
import type { Alert } from "../model/message.ts";
import type { NotificationDb } from "../model/table.ts";

const PAGE_ROWS = 1000;

export interface ReadAlertsOptions {
  readonly now: Date;
  /** Of before this is called; undefined: it is not known. */
  readonly evaluatedUntil: EvaluatedUntil | undefined;
  readonly withAnnotations?: boolean;
}

/** An alert, and when it is over without another word. */
export type KeptAlert = Alert & { readonly expiresAt: Date };

/** In the order of their fingerprints. None is silenced: that is for who knows the silences. */
export async function readAlerts(db: NotificationDb, orgId: string, options: ReadAlertsOptions): Promise<KeptAlert[]> {
  const rules = await rulesOf(db, orgId);
  const alerts: KeptAlert[] = [];
  for (let after = ""; ;) {
    const rows = await db
      .selectFrom("alerts")
      .select(["fingerprint", "rule_id", "labels", "starts_at", "ends_at", "expires_at"])
      .$if(options.withAnnotations === true, (query) => query.select("annotations"))
      .where("org_id", "=", orgId)
      .where("fingerprint", ">", after)
      .orderBy("fingerprint")
      .limit(PAGE_ROWS)
      .execute();
    for (const row of rows) {
      const endsAt = rules.has(row.rule_id) ? endOf(row, options) : (row.ends_at ?? options.now);
      alerts.push({
        fingerprint: row.fingerprint,
        ruleId: row.rule_id,
        labels: row.labels,
        annotations: row.annotations ?? {},
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

/** Rules of alerts for which the evaluator promised nothing any more. */
export async function rulesWithExpired(db: NotificationDb, orgId: string, now: Date): Promise<string[]> {
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

function endOf(
  row: { readonly rule_id: string; readonly ends_at: Date | null; readonly expires_at: Date },
  { now, evaluatedUntil }: ReadAlertsOptions,
): Date | undefined {
  if (row.ends_at) return row.ends_at;
  if (row.expires_at > now || evaluatedUntil === undefined) return undefined;
  return evaluatedUntil(row.rule_id) >= row.expires_at.getTime() ? row.expires_at : undefined;
}

async function rulesOf(db: NotificationDb, orgId: string): Promise<ReadonlySet<string>> {
  const rules = db as unknown as Transaction<AlertingTables>;
  const rows = await rules.selectFrom("rules").select("id").where("org_id", "=", orgId).where("enabled", "=", true).execute();
  return new Set(rows.map(({ id }) => id));
}

/** Of these alerts; the others have none. */
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
