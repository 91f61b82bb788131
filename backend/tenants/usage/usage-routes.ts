// Limits and usage of organisations. Invariant: only operators set limits, for any organisation; all users see the limits of their own
// organisation.
import type { FastifyInstance, FastifyRequest } from "fastify";
import { type Kysely, sql } from "kysely";
import { audit } from "../../auth/audit-log.ts";
import { callerOf, type Guards } from "../../http/request-identity.ts";
import { closedSchema, ID_PARAMS, listResponse, objectSchema, optionalSchema, UUID_SCHEMA } from "../../http/schemas.ts";
import { addHandlers, endpoint } from "../../http/route.ts";
import type { AccountTables } from "../../auth/sessions/account-tables.ts";
import { requireOrg } from "../accounts/orgs.ts";
import { dayOf, RETENTION_DAYS } from "./counter.ts";
import type { Limits, OrgLimits, UsageTables } from "./usage-limits.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

export interface UsageRoutesOptions {
  readonly db: Kysely<UsageTables & AccountTables>;
  readonly limits: OrgLimits;
  readonly guards: Pick<Guards, "user">;
  readonly now?: () => number;
}

const DAY_MS = 86_400_000;
const LIMIT = { type: "integer", minimum: 0 } as const;
const SETTABLE = { type: ["integer", "null"], minimum: 0, maximum: 1e15, default: null } as const;
const limits = objectSchema({ bytes_per_second: LIMIT, records_per_second: LIMIT, active_series: LIMIT });
const meaning =
  "For all replicas together; 0 is unlimited. Bytes are counted as decompressed or as stored, whichever is more. A series is active for 30 to 60 minutes after a sample.";

const SHARE = { type: ["number", "null"], description: "of the limit; null if it is unlimited" } as const;
/** Rows of one response: the organisations with the most data. */
const MAX_USAGE_ROWS = 3000;

const ROUTES = {
  all: {
    ...endpoint("GET", "/api/orgs/usage", "operator", "accounts"),
    summary: "Stored data of all organisations by signal, those with the most bytes first",
    description: `At most ${MAX_USAGE_ROWS} rows. The days include today, so a share is that of the time that has passed. ${meaning}`,
    query: optionalSchema({ days: { type: "integer", minimum: 1, maximum: RETENTION_DAYS, default: 30 } }),
    response: listResponse({
      org_id: UUID_SCHEMA,
      name: { type: "string" },
      signal: { type: "string", enum: ["metrics", "logs", "traces"] },
      bytes: { type: "integer" },
      records: { type: "integer" },
      active_series: { type: ["integer", "null"], description: "maximum of the days" },
      limits,
      bytes_share: { ...SHARE, description: `average rate of this signal: ${SHARE.description}` },
      records_share: SHARE,
      series_share: SHARE,
      share_of_all: { type: "number", description: "of the bytes of all organisations" },
    }),
  },
  usage: {
    ...endpoint("GET", "/api/usage", "viewer", "accounts"),
    summary: "Stored data of your organisation by day and signal, newest first",
    description: "Bytes are counted as decompressed or as stored, whichever is more. Counts are up to 30 seconds old; days are in UTC.",
    query: optionalSchema({ days: { type: "integer", minimum: 1, maximum: RETENTION_DAYS, default: 30 } }),
    response: listResponse({
      day: { type: "string", format: "date" },
      signal: { type: "string", enum: ["metrics", "logs", "traces"] },
      bytes: { type: "integer" },
      records: { type: "integer" },
      active_series: { type: ["integer", "null"], description: "maximum of the day, for metrics; null if there is no limit" },
    }),
  },
  own: {
    ...endpoint("GET", "/api/limits", "viewer", "accounts"),
    summary: "Limits of your organisation",
    description: meaning,
    response: { 200: limits },
  },
  get: {
    ...endpoint("GET", "/api/orgs/:id/limits", "operator", "accounts"),
    summary: "Limits of an organisation",
    description: meaning,
    params: ID_PARAMS,
    response: { 200: limits },
  },
  set: {
    ...endpoint("PUT", "/api/orgs/:id/limits", "operator", "accounts"),
    summary: "Set limits of an organisation; they normally apply within 5 seconds",
    description: `${meaning} A null or missing value means the default of the settings. Above a limit, ingest returns 429 over_quota, and the message names the limit.`,
    params: ID_PARAMS,
    body: closedSchema([], { bytes_per_second: SETTABLE, records_per_second: SETTABLE, active_series: SETTABLE }),
    response: { 200: limits },
  },
};

export function registerUsageRoutes(app: FastifyInstance, { db, limits: orgLimits, guards, now = Date.now }: UsageRoutesOptions): void {
  addHandlers(app, guards, ROUTES, {
    usage: async (request: FastifyRequest<{ Querystring: { days: number } }>) => {
      const since = dayOf(now() - (request.query.days - 1) * DAY_MS);
      const { orgId } = callerOf(request);
      const query = tenantDatabase(db, orgId).selectFrom("usage_days").select(["day", "signal", "bytes", "records", "active_series"]);
      const rows = query.where("org_id", "=", orgId).where("day", ">=", since);
      return await rows.orderBy("day", "desc").orderBy("signal").execute();
    },
    all: async (request: FastifyRequest<{ Querystring: { days: number } }>) =>
      await readUsageOfAll({ db, limits: orgLimits }, request.query.days, now()),
    own: async (request) => describeLimits(await orgLimits.read(callerOf(request).orgId)),
    get: async (request) => describeLimits(await orgLimits.read(await requireOrg(db, request))),
    set: async (request: FastifyRequest<{ Body: Record<keyof ReturnType<typeof describeLimits>, number | null> }>) => {
      const id = await requireOrg(db, request);
      const { bytes_per_second, records_per_second, active_series } = request.body;
      const merged = await orgLimits.set(id, { bytes_per_second, records_per_second, active_series });
      audit(request, "org.limits", { of_org_id: id, bytes_per_second, records_per_second, active_series }, id);
      return describeLimits(merged);
    },
  });
}

async function readUsageOfAll({ db, limits: orgLimits }: Pick<UsageRoutesOptions, "db" | "limits">, days: number, nowMs: number) {
  await orgLimits.refresh();
  const firstDay = dayOf(nowMs - (days - 1) * DAY_MS);
  const seconds = Math.max(1, (nowMs - Date.parse(firstDay)) / 1000);
  const since = db.selectFrom("usage_days").where("day", ">=", firstDay);
  const { all } = await since.select(sql<number>`COALESCE(SUM(bytes), 0)`.as("all")).executeTakeFirstOrThrow();
  const rows = await since
    .innerJoin("orgs", "orgs.id", "usage_days.org_id")
    .select(["orgs.id as org_id", "orgs.name", "signal"])
    .select([
      sql<number>`SUM(bytes)`.as("bytes"),
      sql<number>`SUM(records)`.as("records"),
      sql<number | null>`MAX(active_series)`.as("active_series"),
    ])
    .groupBy(["orgs.id", "orgs.name", "signal"])
    .orderBy("bytes", "desc")
    .limit(MAX_USAGE_ROWS)
    .execute();
  return rows.map((row) => {
    const { bytesPerSecond, recordsPerSecond, activeSeries } = orgLimits.of(row.org_id);
    return {
      ...row,
      limits: describeLimits({ bytesPerSecond, recordsPerSecond, activeSeries }),
      bytes_share: shareOf(row.bytes / seconds, bytesPerSecond),
      records_share: shareOf(row.records / seconds, recordsPerSecond),
      series_share: row.active_series === null ? null : shareOf(row.active_series, activeSeries),
      share_of_all: all === 0 ? 0 : row.bytes / all,
    };
  });
}

function shareOf(used: number, limit: number): number | null {
  return limit === 0 ? null : used / limit;
}

function describeLimits({ bytesPerSecond, recordsPerSecond, activeSeries }: Limits) {
  return { bytes_per_second: bytesPerSecond, records_per_second: recordsPerSecond, active_series: activeSeries };
}
