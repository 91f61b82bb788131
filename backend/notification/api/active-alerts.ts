// Lists the firing alerts of an organisation with their receivers and silences, for Alertmanager's API. Invariants: alerts of other
// organisations are never included; the response is limited in bytes, and a header says if alerts are missing.
import type { Selectable } from "kysely";
import { MAX_ACTIVE_ALERTS_BYTES } from "../notification-limits.ts";
import { compileMatchers } from "../model/matchers.ts";
import type { StoredRoute } from "../routing/route-body.ts";
import { createInhibitor, type InhibitRule } from "../routing/inhibition.ts";
import { compileRoutes } from "../routing/plan.ts";
import type { StoredSilence } from "../routing/silences.ts";
import type { AlertsTable, NotificationDb } from "../model/notification-tables.ts";
import { TimeSlices } from "../../admission/time-slices.ts";

/** In the format of Alertmanager. */
export type ActiveAlert = ReturnType<typeof describeAlert>;

export interface RoutedAlert {
  readonly alert: ActiveAlert;
  /** Routes that match it. */
  readonly routes: readonly StoredRoute[];
  /** Approximate size of the alert as JSON. */
  readonly bytes: number;
}

export interface ActiveAlertsOptions {
  readonly orgId: string;
  readonly now: Date;
  readonly routes: readonly StoredRoute[];
  /** Active silences. */
  readonly silences: readonly StoredSilence[];
  readonly inhibitRules: readonly InhibitRule[];
  /** Id → name of enabled channels. */
  readonly channels: ReadonlyMap<string, string>;
  readonly filter: (alert: ActiveAlert) => boolean;
}

/** Estimated size of an alert without its labels and annotations, and of each silence that matches it. */
const [FIXED_BYTES, SILENCE_BYTES] = [500, 40];
const PAGE_ROWS = 200;

/** Sorted by fingerprint. `isCut`: there are more alerts. */
export async function findActiveAlerts(
  db: NotificationDb,
  options: ActiveAlertsOptions,
): Promise<{ alerts: RoutedAlert[]; isCut: boolean }> {
  const { orgId, now, filter, channels } = options;
  const compileSlices = new TimeSlices();
  const findRoutes = await compileRoutes(options.routes, compileSlices);
  const silencers = await compileSlices.map(options.silences, ({ id, matchers }) => ({ id, matches: compileMatchers(matchers) }));
  const firing = options.inhibitRules.length === 0 ? [] : await firingAlerts(db, orgId, now).select(["fingerprint", "labels"]).execute();
  const inhibitedBy = await createInhibitor(options.inhibitRules, firing, compileSlices);
  const nameBytes = new Map([...channels.values()].map((name) => [name, Buffer.byteLength(JSON.stringify({ name })) + 1]));
  const alerts: RoutedAlert[] = [];
  let sum = 0;
  for (let after = ""; ;) {
    const page = firingAlerts(db, orgId, now).selectAll().where("fingerprint", ">", after).orderBy("fingerprint");
    const rows = await page.limit(PAGE_ROWS).execute();
    const slices = new TimeSlices();
    for (const row of rows) {
      if (slices.isOver) await slices.next();
      const routes = findRoutes(row.labels);
      const silencedBy = silencers.filter(({ matches }) => matches(row.labels)).map(({ id }) => id);
      const names = new Set(routes.flatMap(({ channelIds }) => channelIds.flatMap((id) => channels.get(id) ?? [])));
      const alert = describeAlert(row, { silencedBy, inhibitedBy: inhibitedBy(row.labels) }, [...names]);
      if (!filter(alert)) continue;
      let bytes = row.bytes + FIXED_BYTES + SILENCE_BYTES * silencedBy.length;
      for (const name of names) bytes += nameBytes.get(name) ?? 0;
      if ((sum += bytes) > MAX_ACTIVE_ALERTS_BYTES) return { alerts, isCut: true };
      alerts.push({ alert, routes, bytes });
    }
    if (rows.length < PAGE_ROWS) return { alerts, isCut: false };
    after = rows.at(-1)?.fingerprint ?? "";
  }
}

function firingAlerts(db: NotificationDb, orgId: string, now: Date) {
  return db.selectFrom("alerts").where("org_id", "=", orgId).where("ends_at", "is", null).where("expires_at", ">", now);
}

function describeAlert(
  row: Selectable<AlertsTable>,
  { silencedBy, inhibitedBy }: { silencedBy: readonly string[]; inhibitedBy: string | undefined },
  receivers: readonly string[],
) {
  const state: "active" | "suppressed" = silencedBy.length > 0 || inhibitedBy !== undefined ? "suppressed" : "active";
  const mutedBy: readonly string[] = [];
  return {
    fingerprint: row.fingerprint,
    labels: row.labels,
    annotations: row.annotations,
    startsAt: row.starts_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
    endsAt: row.expires_at.toISOString(),
    generatorURL: "",
    receivers: receivers.map((name) => ({ name })),
    status: { state, silencedBy, inhibitedBy: inhibitedBy === undefined ? [] : [inhibitedBy], mutedBy },
  };
}
