// Remote configuration of a cluster's agents: an administrator writes it for a share of the nodes, and raises the share; the agent of each
// node reads it; rollout-watch.ts stops a rollout if it makes nodes unhealthy. Invariants: the id of another cluster is 404; a node outside
// the share gets the previous configuration; a node in the share stays in it when the share grows.
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Kysely } from "kysely";
import type { ClusterConfig, ClusterConfigRequest, ClusterConfigResponse } from "../../../common/protocol/enrolment.ts";
import { audit } from "../../auth/audit-log.ts";
import { callerOf, signerOf } from "../../http/request-identity.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { addHandlers, endpoint } from "../../http/route.ts";
import { closedSchema, ID_PARAMS, notFound, objectSchema, readId } from "../../http/schemas.ts";
import { HOST_CONFIG_SCHEMA, matchesEtag } from "./host-config.ts";
import { findProblem, isInShare, readNodes, slowestIntervalS } from "./rollout-health.ts";
import type { EnrolmentDeps, EnrolmentTables } from "./enrolment-tables.ts";

const { log_paths: _, ...properties } = HOST_CONFIG_SCHEMA.properties;
export const CLUSTER_CONFIG_SCHEMA = { ...HOST_CONFIG_SCHEMA, properties } as const;

const percent = { type: "integer", minimum: 1, maximum: 100, description: "share of the nodes that use it; 100 if it is absent" } as const;
const version = { type: "string" } as const;

const ROUTES = {
  read: {
    ...endpoint("GET", "/api/clusters/:id/config", { keys: ["cluster"] }, "enrolment"),
    summary: "Remote configuration of the cluster whose key signs the request, for one of its nodes",
    description: "Returns 304 if If-None-Match has the current version for this node.",
    params: ID_PARAMS,
    query: closedSchema([], { node: { type: "string", maxLength: 253 } }),
    response: { 200: objectSchema({ version, config: CLUSTER_CONFIG_SCHEMA }), 304: { type: "null" } },
  },
  write: {
    ...endpoint("PUT", "/api/clusters/:id/config", "admin", "enrolment"),
    summary: "Replace a cluster's remote configuration, or raise the share of nodes that use it; agents apply it at their next poll",
    params: ID_PARAMS,
    body: closedSchema(["config"], { config: CLUSTER_CONFIG_SCHEMA, percent }),
    response: { 200: objectSchema({ version, percent, config: CLUSTER_CONFIG_SCHEMA }) },
  },
} as const;

/** Problems that a configuration causes appear within minutes; later ones have other causes, such as nodes that an autoscaler removes. */
const WATCH_MS = 60 * 60_000;

export function registerClusterConfig(app: FastifyInstance, { db, guards, now }: EnrolmentDeps): void {
  addHandlers(app, guards, ROUTES, {
    read: async (request: FastifyRequest<{ Querystring: { node?: string } }>, reply) => {
      const id = readId(request, "cluster");
      const { hostId, orgId } = signerOf(request);
      if (id !== hostId) throw notFound("cluster");
      const row = await findConfig(tenantDatabase(db, orgId), orgId, id);
      if (!row) throw notFound("cluster");
      const response: ClusterConfigResponse = isInShare(id, request.query.node ?? "", row.config_percent)
        ? { version: String(row.config_version), config: row.config }
        : { version: String(row.previous_version), config: row.previous_config };
      void reply.header("etag", `"${response.version}"`).header("cache-control", "no-cache");
      if (matchesEtag(request.headers["if-none-match"], response.version)) return await reply.code(304).send();
      return await reply.send(response);
    },
    write: async (request: FastifyRequest<{ Body: ClusterConfigRequest }>) => {
      const id = readId(request, "cluster");
      const { orgId } = callerOf(request);
      const { config, percent = 100 } = request.body;
      const stage = { orgId, id, config, percent, nowMs: now() };
      const tenantDb = tenantDatabase(db, orgId);
      const version = await tenantDb.transaction().execute(async (trx) => await writeConfig(trx, stage));
      audit(request, "cluster.config", { cluster_id: id, version, percent });
      return { version: String(version), percent, config };
    },
  });
}

async function findConfig(db: Kysely<EnrolmentTables>, orgId: string, id: string) {
  return await db
    .selectFrom("clusters")
    .select(["config", "config_version", "config_percent", "previous_config", "previous_version"])
    .select(["heartbeat_interval_s", "config_unhealthy_before"])
    .where("id", "=", id)
    .where("org_id", "=", orgId)
    .executeTakeFirst();
}

interface RolloutStage {
  readonly orgId: string;
  readonly id: string;
  readonly config: ClusterConfig;
  readonly percent: number;
  readonly nowMs: number;
}

/** An unchanged configuration keeps its version. One that had not reached all nodes never becomes the previous configuration. */
async function writeConfig(trx: Kysely<EnrolmentTables>, stage: RolloutStage): Promise<number> {
  const { orgId, id, config, percent, nowMs } = stage;
  await trx.selectFrom("clusters").select("id").where("id", "=", id).where("org_id", "=", orgId).forUpdate().execute();
  const row = await findConfig(trx, orgId, id);
  if (!row) throw notFound("cluster");
  const isSame = serialiseCanonically(row.config) === serialiseCanonically(config);
  const wasOnAll = row.config_percent === 100;
  const previous = isSame && row.config_percent > 0 ? row : { config_percent: 0, config_unhealthy_before: 0 };
  const intervalS = slowestIntervalS(row.heartbeat_interval_s, config, row.config);
  const newlyUnhealthy = await countUnhealthy(trx, stage, intervalS, previous.config_percent);
  const change = isSame
    ? {}
    : {
        config: JSON.stringify(config),
        config_version: row.config_version + 1,
        ...(wasOnAll && { previous_config: JSON.stringify(row.config), previous_version: row.config_version }),
      };
  const watch = {
    config_percent: percent,
    config_watched_until: new Date(nowMs + WATCH_MS),
    config_unhealthy_before: previous.config_unhealthy_before + newlyUnhealthy,
    config_stopped: null,
  };
  await trx
    .updateTable("clusters")
    .set({ ...change, ...watch })
    .where("id", "=", id)
    .where("org_id", "=", orgId)
    .execute();
  return isSame ? row.config_version : row.config_version + 1;
}

/** Counts the unhealthy nodes among those that this stage adds to the previous one. */
async function countUnhealthy(
  trx: Kysely<EnrolmentTables>,
  { id, percent, nowMs }: RolloutStage,
  intervalS: number,
  previousPercent: number,
) {
  const nodes = await readNodes(trx, id);
  const added = nodes.filter(({ name }) => isInShare(id, name, percent) && !isInShare(id, name, previousPercent));
  return added.filter((node) => findProblem(node, { percent, intervalS }, nowMs) !== undefined).length;
}

/** Sorts the fields, because databases return fields of JSON in their own order. */
function serialiseCanonically({ intervals = {}, signals, log_level: logLevel }: ClusterConfig): string {
  return JSON.stringify([intervals.metrics ?? null, intervals.heartbeat ?? null, signals ?? null, logLevel ?? null]);
}
