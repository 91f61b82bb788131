// Routes for the retention and deletion of organisations. Invariant: only operators change retention or delete organisations; all users see
// the retention of their own organisation.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Kysely } from "kysely";
import { audit } from "../../auth/audit-log.ts";
import { callerOf, type Guards } from "../../http/request-identity.ts";
import type { Sessions } from "../../auth/sessions/session.ts";
import { ApiError } from "../../errors.ts";
import { addHandlers, endpoint } from "../../http/route.ts";
import {
  closedSchema,
  ID_PARAMS,
  listResponse,
  nameSchema,
  objectSchema,
  OPTIONAL_TIME_SCHEMA,
  TIME_SCHEMA,
  UUID_SCHEMA,
} from "../../http/schemas.ts";
import { requireOrg } from "../accounts/orgs.ts";
import type { LogRule } from "../../storage/removal/removal.ts";
import { MAX_ROWS_PER_ORG } from "../../engines/engine-limits.ts";
import { MAX_LOG_RULES, MAX_RETENTION_DAYS } from "../tenant-limits.ts";
import { beginDeletion, type DeletionTables } from "./deletion.ts";
import type { OrgRetention, Retention } from "./retention.ts";

export interface RemovalRoutesOptions {
  readonly db: Kysely<DeletionTables>;
  readonly retention: OrgRetention;
  readonly sessions: Pick<Sessions, "forget">;
  readonly guards: Pick<Guards, "user">;
  readonly now?: () => number;
}

const DAYS = { type: "integer", minimum: 1, maximum: MAX_RETENTION_DAYS } as const;
const SETTABLE = { ...DAYS, type: ["integer", "null"], default: null } as const;
const TEXT = nameSchema(256);
const logRule = closedSchema(["days"], { source: TEXT, level: TEXT, days: DAYS });
const LOG_RULES = { type: "array", maxItems: MAX_LOG_RULES, items: logRule } as const;
const retentionSchema = objectSchema({
  logs_days: { type: "integer" },
  traces_days: { type: "integer" },
  metrics_days: { type: "number" },
  log_rules: LOG_RULES,
});
const meaning =
  "Days by the time of the record. Logs and spans are removed in whole days, normally at most 28 hours after they expire. log_rules set a shorter retention for log records of a source, a level, or both. Metrics: older samples are dropped when they arrive, and only lookback windows reach further back; the installation's METRICS_RETENTION deletes them.";

const ROUTES = {
  own: {
    ...endpoint("GET", "/api/retention", "viewer", "accounts"),
    summary: "How long your organisation's telemetry is kept",
    description: meaning,
    response: { 200: retentionSchema },
  },
  get: {
    ...endpoint("GET", "/api/orgs/:id/retention", "operator", "accounts"),
    summary: "How long an organisation's telemetry is kept",
    description: meaning,
    params: ID_PARAMS,
    response: { 200: retentionSchema },
  },
  set: {
    ...endpoint("PUT", "/api/orgs/:id/retention", "operator", "accounts"),
    summary: "Set how long an organisation's telemetry is kept",
    description: `${meaning} A null or missing number means the setting of the installation; without log_rules there are none. The tables are raised before a longer retention is stored; if that fails, the response is 502 and nothing changes. Ingest and queries normally follow within 5 seconds; a shorter retention reaches the tables within an hour.`,
    params: ID_PARAMS,
    body: closedSchema([], {
      logs_days: SETTABLE,
      traces_days: SETTABLE,
      metrics_days: SETTABLE,
      log_rules: { ...LOG_RULES, default: [] },
    }),
    response: { 200: retentionSchema },
  },
  remove: {
    ...endpoint("DELETE", "/api/orgs/:id", "operator", "accounts"),
    summary: "Delete an organisation with all its data",
    description:
      "Users, keys and rules are removed immediately; all replicas normally refuse them within 5 seconds. Telemetry is normally erased within an hour: GET /api/deletions shows the remaining data. This cannot be undone.",
    params: ID_PARAMS,
    query: objectSchema({ name: nameSchema(200) }),
    response: { 202: objectSchema({ org_id: UUID_SCHEMA, name: { type: "string" }, requested_at: TIME_SCHEMA }) },
    errors: ["conflict"],
  },
  deletions: {
    ...endpoint("GET", "/api/deletions", "operator", "accounts"),
    summary: "Deleted organisations, newest first",
    description: `The newest ${MAX_ROWS_PER_ORG}. found: rows and series that the last pass found, by table; erased_at: set when nothing was found in any store for 20 minutes.`,
    response: listResponse({
      org_id: UUID_SCHEMA,
      name: { type: "string" },
      requested_by: { type: "string" },
      requested_at: TIME_SCHEMA,
      found: { type: "object", additionalProperties: { type: "integer" } },
      erased_at: OPTIONAL_TIME_SCHEMA,
    }),
  },
} as const;

interface RetentionBody {
  logs_days: number | null;
  traces_days: number | null;
  metrics_days: number | null;
  log_rules: LogRule[];
}

export function registerRemovalRoutes(app: FastifyInstance, options: RemovalRoutesOptions): void {
  const { db, retention, sessions, guards, now = Date.now } = options;
  addHandlers(app, guards, ROUTES, {
    own: async (request) => describe(await retention.read(callerOf(request).orgId)),
    get: async (request) => describe(await retention.read(await requireOrg(db, request))),
    set: async (request: FastifyRequest<{ Body: RetentionBody }>) => {
      const { logs_days, traces_days, metrics_days, log_rules } = request.body;
      const id = await requireOrg(db, request);
      const maxDays = retention.defaults.metricsDays;
      if ((metrics_days ?? 0) > maxDays)
        throw new ApiError("invalid_field", `metrics_days: the installation keeps metrics for ${maxDays} days (METRICS_RETENTION)`);
      const merged = await retention.set(id, { logs_days, traces_days, metrics_days, log_rules });
      audit(request, "org.retention", { of_org_id: id, logs_days, traces_days, metrics_days, log_rules }, id);
      return describe(merged);
    },
    remove: async (request: FastifyRequest<{ Querystring: { name: string } }>, reply: FastifyReply) => {
      const orgId = await requireOrg(db, request);
      const { name } = request.query;
      const at = new Date(now());
      for (const userId of await beginDeletion(db, { orgId, name, by: callerOf(request).email ?? "", at })) sessions.forget(userId);
      audit(request, "org.delete", { deleted_org_id: orgId, name });
      return await reply.code(202).send({ org_id: orgId, name, requested_at: at.toISOString() });
    },
    deletions: async () => {
      const columns = ["org_id", "name", "requested_by", "requested_at", "found", "erased_at"] as const;
      return await db.selectFrom("org_deletions").select(columns).orderBy("requested_at", "desc").limit(MAX_ROWS_PER_ORG).execute();
    },
  });
}

function describe({ logsDays, tracesDays, metricsDays, logRules }: Retention) {
  return { logs_days: logsDays, traces_days: tracesDays, metrics_days: metricsDays, log_rules: logRules };
}
