// What organisations may send, and what they sent. Invariant: limits are set by operators alone, for any organisation; everybody sees those of
// the own one.
import type { FastifyInstance } from "fastify";
import type { Kysely } from "kysely";
import { audit } from "../auth/audit-log.ts";
import { callerOf, type Guards } from "../auth/request-identity.ts";
import { ApiError } from "../errors.ts";
import { ID_PARAMS, listOf, objectOf, uuidOf } from "../http/schemas.ts";
import type { AccountTables } from "../accounts/table.ts";
import { dayOf, KEPT_DAYS } from "./counter.ts";
import type { Limits, OrgLimits } from "./limits.ts";
import type { UsageTables } from "./table.ts";
import { tenantDatabase } from "../engines/relational/tenant-database.ts";

export interface UsageRoutesOptions {
  readonly db: Kysely<UsageTables & AccountTables>;
  readonly limits: OrgLimits;
  readonly guards: Pick<Guards, "user">;
  /** Unix milliseconds. */
  readonly now?: () => number;
}

const DAY_MS = 86_400_000;
const common = { tags: ["accounts"], security: [{ session: [] }] };
const LIMIT = { type: "integer", minimum: 0 } as const;
const SETTABLE = { type: ["integer", "null"], minimum: 0, maximum: 1e15, default: null } as const;
const limits = objectOf({ bytes_per_second: LIMIT, records_per_second: LIMIT, active_series: LIMIT });
const meaning =
  "Of each replica; 0 is unlimited. Bytes as decompressed or as stored, whichever is more. Active series had a sample within the last half hour to hour.";

const schemas = {
  usage: {
    ...common,
    summary: "What your organisation sent and was stored, by day and signal, newest first",
    description: "Bytes as decompressed or as stored, whichever is more. Up to half a minute late; days are those of UTC.",
    querystring: { type: "object", properties: { days: { type: "integer", minimum: 1, maximum: KEPT_DAYS, default: 30 } } },
    response: listOf({
      day: { type: "string", format: "date" },
      signal: { type: "string", enum: ["metrics", "logs", "traces"] },
      bytes: { type: "integer" },
      records: { type: "integer" },
      active_series: { type: ["integer", "null"], description: "the most of the day, of metrics; null where no limit of them is set" },
    }),
  },
  own: { ...common, summary: "What your organisation may send", description: meaning, response: { 200: limits } },
  get: { ...common, summary: "What an organisation may send", description: meaning, params: ID_PARAMS, response: { 200: limits } },
  set: {
    ...common,
    summary: "Set what an organisation may send; in force within 5 seconds",
    description: `${meaning} What is null or left out is the default of the settings. Over it ingest is 429 over_quota, which names the limit.`,
    params: ID_PARAMS,
    body: {
      type: "object",
      additionalProperties: false,
      properties: { bytes_per_second: SETTABLE, records_per_second: SETTABLE, active_series: SETTABLE },
    },
    response: { 200: limits },
  },
};

interface ById {
  Params: { id: string };
}

export function registerUsageRoutes(app: FastifyInstance, { db, limits: orgLimits, guards, now = Date.now }: UsageRoutesOptions): void {
  const viewer = guards.user("viewer");
  const operator = guards.user("operator");

  app.get<{ Querystring: { days: number } }>("/api/usage", { schema: schemas.usage, onRequest: viewer }, async (request) => {
    const since = dayOf(now() - (request.query.days - 1) * DAY_MS);
    const { orgId } = callerOf(request);
    const query = tenantDatabase(db, orgId).selectFrom("usage_days").select(["day", "signal", "bytes", "records", "active_series"]);
    const own = query.where("org_id", "=", orgId).where("day", ">=", since);
    return await own.orderBy("day", "desc").orderBy("signal").execute();
  });

  app.get("/api/limits", { schema: schemas.own, onRequest: viewer }, async (request) =>
    shown(await orgLimits.read(callerOf(request).orgId)),
  );

  app.get<ById>("/api/orgs/:id/limits", { schema: schemas.get, onRequest: operator }, async (request) =>
    shown(await orgLimits.read(await existing(request.params.id))),
  );

  app.put<ById & { Body: Record<keyof ReturnType<typeof shown>, number | null> }>(
    "/api/orgs/:id/limits",
    { schema: schemas.set, onRequest: operator },
    async (request) => {
      const id = await existing(request.params.id);
      const { bytes_per_second, records_per_second, active_series } = request.body;
      const set = {
        bytesPerSecond: bytes_per_second ?? undefined,
        recordsPerSecond: records_per_second ?? undefined,
        activeSeries: active_series ?? undefined,
      };
      const merged = await orgLimits.set(id, set);
      audit(request, "org.limits", { of_org_id: id, bytes_per_second, records_per_second, active_series }, id);
      return shown(merged);
    },
  );

  async function existing(text: string): Promise<string> {
    const id = uuidOf(text);
    const row =
      id === undefined ? undefined : await tenantDatabase(db, id).selectFrom("orgs").select("id").where("id", "=", id).executeTakeFirst();
    if (!row) throw new ApiError("not_found", "there is no such organisation");
    return row.id;
  }
}

function shown({ bytesPerSecond, recordsPerSecond, activeSeries }: Limits) {
  return { bytes_per_second: bytesPerSecond, records_per_second: recordsPerSecond, active_series: activeSeries };
}
