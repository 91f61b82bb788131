// Stores the inhibition rules and time intervals of organisations, which have names. Invariants: every statement names the organisation; a
// name is unique for its kind; a time interval that a route names keeps its name and is not deleted.
import { randomUUID } from "node:crypto";
import type { Kysely, Transaction } from "kysely";
import { ApiError } from "../../errors.ts";
import { requireUniqueName } from "../../engines/relational/row-limits.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { closedSchema, invalidField, nameSchema, notFound, objectSchema, TIME_SCHEMA, UUID_SCHEMA } from "../../http/schemas.ts";
import { checkMatchers, MATCHER_SCHEMA, type Matcher, toMatcher } from "../model/matchers.ts";
import type { NotificationDb, NotificationTables } from "../model/notification-tables.ts";
import { changeOrganisation, checkExpressions } from "../model/organisation-rows.ts";
import {
  MAX_GROUP_LABELS,
  MAX_INHIBIT_RULES,
  MAX_MATCHERS,
  MAX_SETTING_BYTES,
  MAX_TIME_INTERVALS,
  MAX_TIME_RANGES,
} from "../notification-limits.ts";
import type { InhibitRule } from "./inhibition.ts";
import type { StoredRoute } from "./route-body.ts";
import { checkTimeInterval, compileTimeIntervals, TIME_INTERVAL_SCHEMA, type TimeInterval } from "./time-intervals.ts";

interface Bodies {
  inhibit_rule: InhibitRule;
  time_interval: { readonly time_intervals: readonly TimeInterval[] };
}
export type SettingKind = keyof Bodies;
export type Named<K extends SettingKind> = Bodies[K] & { readonly name: string };

const MATCHERS = { type: "array", minItems: 1, maxItems: MAX_MATCHERS, items: MATCHER_SCHEMA };
const INHIBIT_RULE = {
  name: { ...nameSchema(200), description: "unique in the organisation" },
  source_matchers: { ...MATCHERS, description: "the alert that inhibits others while it fires" },
  target_matchers: { ...MATCHERS, description: "the alerts that are not sent" },
  equal: {
    type: "array",
    maxItems: MAX_GROUP_LABELS,
    items: { type: "string", pattern: "^[a-zA-Z_][a-zA-Z0-9_]{0,127}$" },
    default: [],
    description: "labels that must have the same value in both alerts",
  },
};
const TIME_INTERVALS = {
  name: INHIBIT_RULE.name,
  time_intervals: {
    type: "array",
    minItems: 1,
    maxItems: MAX_TIME_RANGES,
    items: TIME_INTERVAL_SCHEMA,
    description: "one of them must contain the time",
  },
};
const stored = (properties: Record<string, object>) =>
  objectSchema(["id", "created_at", ...Object.keys(properties)], { id: UUID_SCHEMA, ...properties, created_at: TIME_SCHEMA });

/** By kind: the word for it, its limit, and its schemas. */
export const SETTINGS = {
  inhibit_rule: {
    noun: "inhibition rule",
    limit: MAX_INHIBIT_RULES,
    body: closedSchema(["name", "source_matchers", "target_matchers"], INHIBIT_RULE),
    response: stored(INHIBIT_RULE),
  },
  time_interval: {
    noun: "time interval",
    limit: MAX_TIME_INTERVALS,
    body: closedSchema(["name", "time_intervals"], TIME_INTERVALS),
    response: stored(TIME_INTERVALS),
  },
} as const;

type StoredSetting<K extends SettingKind> = Named<K> & { readonly id: string; readonly created_at: string };

export class NamedSettings<K extends SettingKind> {
  readonly #db: Kysely<NotificationTables>;
  readonly #kind: K;
  readonly #nowMs: () => number;

  constructor(db: Kysely<NotificationTables>, kind: K, nowMs: () => number) {
    this.#db = db;
    this.#kind = kind;
    this.#nowMs = nowMs;
  }

  /** By name. */
  async list(orgId: string): Promise<StoredSetting<K>[]> {
    const rows = await selectRows(tenantDatabase(this.#db, orgId), orgId).where("kind", "=", this.#kind).orderBy("name").execute();
    return rows.map(({ id, name, body, created_at: at }) => ({ ...(body as Bodies[K]), id, name, created_at: at.toISOString() }));
  }

  /** Creates, or replaces the one with this id. Throws ApiError `not_found`, `invalid_field`, `conflict`, `limit_reached`. */
  async write(orgId: string, sent: Named<K>, id?: string): Promise<StoredSetting<K>> {
    const { noun, limit } = SETTINGS[this.#kind];
    const { name, ...body } = sent;
    const matchers = checkBody(sent);
    const row = { kind: this.#kind, name, body: JSON.stringify(body) };
    const bytes = Buffer.byteLength(row.body);
    if (bytes > MAX_SETTING_BYTES) throw invalidField(this.#kind, `has ${bytes} bytes, more than ${MAX_SETTING_BYTES}`);
    return await this.#change(orgId, name, async (trx, now) => {
      const rows = await selectRows(trx, orgId).where("kind", "=", this.#kind).execute();
      const before = rows.find((existing) => existing.id === id);
      if (id !== undefined && !before) throw notFound(noun);
      if (before && before.name !== name) await requireUnused(trx, orgId, this.#kind, before.name);
      if (!before && rows.length >= limit)
        throw new ApiError("limit_reached", `an organisation has at most ${limit} ${noun}s: remove one first`);
      const created = { id: before?.id ?? randomUUID(), org_id: orgId, created_at: before?.created_at ?? now };
      if (before) await trx.updateTable("notification_settings").set(row).where("org_id", "=", orgId).where("id", "=", before.id).execute();
      else
        await trx
          .insertInto("notification_settings")
          .values({ ...created, ...row })
          .execute();
      await checkExpressions(trx, orgId, now, matchers);
      return { ...sent, id: created.id, created_at: created.created_at.toISOString() };
    });
  }

  /** Throws ApiError `not_found`, `conflict` if a route names the time interval. */
  async delete(orgId: string, id: string): Promise<void> {
    await this.#change(orgId, "", async (trx) => {
      const before = await selectRows(trx, orgId).where("kind", "=", this.#kind).where("id", "=", id).executeTakeFirst();
      if (!before) throw notFound(SETTINGS[this.#kind].noun);
      await requireUnused(trx, orgId, this.#kind, before.name);
      await trx.deleteFrom("notification_settings").where("org_id", "=", orgId).where("id", "=", id).execute();
    });
  }

  async #change<T>(orgId: string, name: string, change: (trx: Transaction<NotificationTables>, now: Date) => Promise<T>): Promise<T> {
    const now = new Date(this.#nowMs());
    return await requireUniqueName(SETTINGS[this.#kind].noun, name, () =>
      changeOrganisation(this.#db, orgId, now, (trx) => change(trx, now)),
    );
  }
}

/** Both kinds, for the plan of the messages. */
export async function readNamedSettings(db: NotificationDb, orgId: string) {
  const rows = await selectRows(db, orgId).execute();
  const bodies = <K extends SettingKind>(kind: K) =>
    rows.flatMap((row) => (row.kind === kind ? [[row.name, row.body as Bodies[K]] as const] : []));
  return { inhibitRules: bodies("inhibit_rule").map(([, rule]) => rule), timeIntervals: new Map(bodies("time_interval")) };
}

/** Ids of routes that do not notify at this time → the names of the time intervals that are the reason. Evaluates each interval once. */
export function findMutedRoutes(
  routes: readonly Pick<StoredRoute, "id" | "muteTimeIntervals" | "activeTimeIntervals">[],
  intervals: ReadonlyMap<string, Bodies["time_interval"]>,
  at: Date,
): ReadonlyMap<string, readonly string[]> {
  const current = new Set([...intervals].flatMap(([name, body]) => (compileTimeIntervals(body.time_intervals)(at) ? [name] : [])));
  const mutedBy = routes.map(({ id, muteTimeIntervals: mute, activeTimeIntervals: active }) => {
    const muting = mute.filter((name) => current.has(name));
    return [id, muting.length > 0 || active.some((name) => current.has(name)) ? muting : active] as const;
  });
  return new Map(mutedBy.filter(([, names]) => names.length > 0));
}

function selectRows(db: NotificationDb, orgId: string) {
  return db.selectFrom("notification_settings").selectAll().where("org_id", "=", orgId);
}

/** Checks what a schema cannot express, and returns the matchers. Throws ApiError `invalid_field`. */
function checkBody(body: Named<SettingKind>): Matcher[] {
  if ("time_intervals" in body) {
    for (const [at, interval] of body.time_intervals.entries()) checkTimeInterval(`time_intervals[${at}]`, interval);
    return [];
  }
  const [source, target] = [body.source_matchers, body.target_matchers].map((matchers) => matchers.map(toMatcher)) as [
    Matcher[],
    Matcher[],
  ];
  for (const matchers of [source, target]) checkMatchers(matchers, { anyAlert: true });
  return [...source, ...target];
}

async function requireUnused(trx: NotificationDb, orgId: string, kind: SettingKind, name: string): Promise<void> {
  if (kind !== "time_interval") return;
  const routes = await trx
    .selectFrom("routes")
    .select(["mute_time_intervals", "active_time_intervals"])
    .where("org_id", "=", orgId)
    .execute();
  const isUsed = routes.some((route) => [...route.mute_time_intervals, ...route.active_time_intervals].includes(name));
  if (isUsed) throw new ApiError("conflict", `a route uses the time interval ${name}: remove it from the route first`);
}
