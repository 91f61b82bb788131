// Stores the routes of organisations: which alerts are sent to which channels, in order. Invariants: every statement names the
// organisation; each organisation has one default route, which is last and cannot be deleted; positions are 0, 1, 2, …
import { randomUUID } from "node:crypto";
import type { Kysely, Selectable, Transaction } from "kysely";
import { ApiError } from "../../errors.ts";
import { notFound, invalidField } from "../../http/schemas.ts";
import { MAX_ROUTES } from "../notification-limits.ts";
import { toMatcher } from "../model/matchers.ts";
import { changeOrganisation, checkExpressions } from "../model/organisation-rows.ts";
import { readNamedSettings } from "./named-settings.ts";
import { type CheckedRoute, type StoredRoute } from "./route-body.ts";
import type { NotificationDb, NotificationTables, RoutesTable } from "../model/notification-tables.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

/** The default route of a new organisation. */
const DEFAULT: CheckedRoute = {
  matchers: [],
  channelIds: [],
  groupBy: ["alertname"],
  waitMs: 30_000,
  intervalMs: 300_000,
  repeatMs: 4 * 3_600_000,
  continues: false,
  muteTimeIntervals: [],
  activeTimeIntervals: [],
  position: undefined,
};

export class RouteStore {
  readonly #db: Kysely<NotificationTables>;
  readonly #nowMs: () => number;

  constructor(db: Kysely<NotificationTables>, nowMs: () => number = Date.now) {
    this.#db = db;
    this.#nowMs = nowMs;
  }

  /** Routes in order, the default route last; deleted channels are omitted. */
  async list(orgId: string): Promise<StoredRoute[]> {
    const tenantDb = tenantDatabase(this.#db, orgId);
    const rows = await findRows(tenantDb, orgId);
    if (rows.some(({ is_default }) => is_default)) return await withoutDeletedChannels(tenantDb, orgId, rows);
    await this.#change(orgId, async () => undefined);
    return await this.list(orgId);
  }

  /** Throws ApiError `invalid_field` for a channel that does not belong to the organisation, `limit_reached`. */
  async create(orgId: string, route: CheckedRoute): Promise<StoredRoute> {
    return await this.#change(orgId, async (trx, rows, now) => {
      if (rows.length > MAX_ROUTES)
        throw new ApiError("limit_reached", `an organisation has at most ${MAX_ROUTES} routes: remove one first`);
      const row = { id: randomUUID(), org_id: orgId, position: rows.length, is_default: false, created_at: now, ...columnsOf(route) };
      await checkReferences(trx, orgId, route);
      await trx.insertInto("routes").values(row).execute();
      await checkExpressions(trx, orgId, now, route.matchers.map(toMatcher));
      return await moveRoute(trx, orgId, row.id, route.position);
    });
  }

  /** Replaces the whole route. Throws ApiError `not_found`, and like `create`. */
  async replace(orgId: string, id: string, route: CheckedRoute): Promise<StoredRoute> {
    return await this.#change(orgId, async (trx, rows, now) => {
      const before = rows.find((row) => row.id === id);
      if (!before) throw notFound("route");
      if (before.is_default && route.matchers.length > 0)
        throw invalidField("matchers", "the default route takes unmatched alerts, and has no matchers");
      if (before.is_default && route.muteTimeIntervals.length + route.activeTimeIntervals.length > 0)
        throw invalidField("mute_time_intervals", "the default route has no time intervals, as in Alertmanager: add a route before it");
      if (before.is_default && route.continues) throw invalidField("continue", "the default route is the last one");
      await checkReferences(trx, orgId, route);
      await trx.updateTable("routes").set(columnsOf(route)).where("org_id", "=", orgId).where("id", "=", id).execute();
      await checkExpressions(trx, orgId, now, route.matchers.map(toMatcher));
      return await moveRoute(trx, orgId, id, before.is_default ? undefined : route.position);
    });
  }

  /** Throws ApiError `not_found`, `conflict` for the default route. */
  async delete(orgId: string, id: string): Promise<void> {
    await this.#change(orgId, async (trx, rows) => {
      const before = rows.find((row) => row.id === id);
      if (!before) throw notFound("route");
      if (before.is_default) throw new ApiError("conflict", "the default route cannot be deleted: remove its channels instead");
      await trx.deleteFrom("routes").where("org_id", "=", orgId).where("id", "=", id).execute();
      await moveRoute(trx, orgId, (rows.at(-1) as Row).id, undefined);
    });
  }

  async #change<T>(orgId: string, change: (trx: Transaction<NotificationTables>, rows: Row[], now: Date) => Promise<T>): Promise<T> {
    const now = new Date(this.#nowMs());
    return await changeOrganisation(this.#db, orgId, now, async (trx) => {
      const rows = await findRows(trx, orgId);
      if (!rows.some(({ is_default }) => is_default)) {
        const row = { id: randomUUID(), org_id: orgId, position: rows.length, is_default: true, created_at: now, ...columnsOf(DEFAULT) };
        await trx.insertInto("routes").values(row).execute();
        return await change(trx, await findRows(trx, orgId), now);
      }
      return await change(trx, rows, now);
    });
  }
}

type Row = Selectable<RoutesTable>;

/** The default route is last. */
async function findRows(db: NotificationDb, orgId: string): Promise<Row[]> {
  const rows = await db.selectFrom("routes").selectAll().where("org_id", "=", orgId).orderBy("position").orderBy("id").execute();
  return [...rows.filter(({ is_default }) => !is_default), ...rows.filter(({ is_default }) => is_default)];
}

/** Moves a route to the requested position, and renumbers all routes. */
async function moveRoute(
  trx: Transaction<NotificationTables>,
  orgId: string,
  id: string,
  position: number | undefined,
): Promise<StoredRoute> {
  const rows = await findRows(trx, orgId);
  const moved = rows.find((row) => row.id === id) as Row;
  const others = rows.filter((row) => row !== moved);
  const ordered = position === undefined ? rows : others.toSpliced(Math.min(position, others.length - 1), 0, moved);
  for (const [at, row] of ordered.entries())
    if (row.position !== at)
      await trx.updateTable("routes").set({ position: at }).where("org_id", "=", orgId).where("id", "=", row.id).execute();
  return toRoute({ ...moved, position: ordered.indexOf(moved) });
}

async function checkReferences(trx: Transaction<NotificationTables>, orgId: string, route: CheckedRoute): Promise<void> {
  const known = await findChannelIds(trx, orgId);
  const at = route.channelIds.findIndex((id) => !known.has(id));
  if (at >= 0) throw invalidField(`channel_ids[${at}]`, "not a channel of this organisation");
  const { timeIntervals } = await readNamedSettings(trx, orgId);
  for (const [field, names] of [
    ["mute_time_intervals", route.muteTimeIntervals],
    ["active_time_intervals", route.activeTimeIntervals],
  ] as const) {
    const unknown = names.findIndex((name) => !timeIntervals.has(name));
    if (unknown >= 0) throw invalidField(`${field}[${unknown}]`, "not a time interval of this organisation");
  }
}

async function findChannelIds(db: NotificationDb, orgId: string): Promise<ReadonlySet<string>> {
  const rows = await db.selectFrom("channels").select("id").where("org_id", "=", orgId).execute();
  return new Set(rows.map(({ id }) => id));
}

/** The routes in order; `channelIds` may contain deleted channels. */
export async function readRoutes(db: NotificationDb, orgId: string): Promise<StoredRoute[]> {
  return (await findRows(db, orgId)).map(toRoute);
}

async function withoutDeletedChannels(db: NotificationDb, orgId: string, rows: readonly Row[]): Promise<StoredRoute[]> {
  const known = await findChannelIds(db, orgId);
  return rows.map((row) => toRoute({ ...row, channel_ids: row.channel_ids.filter((id) => known.has(id)) }));
}

function columnsOf(route: CheckedRoute) {
  return {
    matchers: JSON.stringify(route.matchers),
    channel_ids: JSON.stringify(route.channelIds),
    group_by: JSON.stringify(route.groupBy),
    group_wait_seconds: route.waitMs / 1000,
    group_interval_seconds: route.intervalMs / 1000,
    repeat_interval_seconds: route.repeatMs / 1000,
    continue: route.continues,
    mute_time_intervals: JSON.stringify(route.muteTimeIntervals),
    active_time_intervals: JSON.stringify(route.activeTimeIntervals),
  };
}

function toRoute(row: Row): StoredRoute {
  return {
    id: row.id,
    position: row.position,
    matchers: row.matchers,
    channelIds: row.channel_ids,
    groupBy: row.group_by,
    waitMs: row.group_wait_seconds * 1000,
    intervalMs: row.group_interval_seconds * 1000,
    repeatMs: row.repeat_interval_seconds * 1000,
    continues: row.continue,
    muteTimeIntervals: row.mute_time_intervals,
    activeTimeIntervals: row.active_time_intervals,
    isDefault: row.is_default,
    createdAt: row.created_at,
  };
}
