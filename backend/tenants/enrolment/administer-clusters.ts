// Administration of clusters: list with nodes and online state, remove. Invariant: removing a cluster revokes its keys at once; pages of the
// list are limited in clusters and in nodes.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { audit } from "../../auth/audit-log.ts";
import { callerOf } from "../../auth/request-identity.ts";
import {
  readId,
  ID_PARAMS,
  listResponse,
  notFound,
  NO_CONTENT,
  objectSchema,
  OPTIONAL_TIME_SCHEMA,
  UUID_SCHEMA,
} from "../../http/schemas.ts";
import { addRoute } from "../../http/route.ts";
import { readClusterPage } from "./cluster-page.ts";
import { COLLECTOR_SCHEMA, isOnline } from "./heartbeat.ts";
import { revokeKeysOf } from "./key-table.ts";
import { CURSOR_QUERY, linkNext, PAGE_ROWS, readCursor, type CursorQuery } from "../../http/list-page.ts";
import { currentKeyTimes } from "./key-holder.ts";
import type { EnrolmentDeps } from "./deps.ts";
import { removeTokensOf } from "./ingest-token-table.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

const common = { tag: "enrolment" } as const;
const text = { type: ["string", "null"] } as const;
const schemas = {
  list: {
    ...common,
    summary: "Clusters of your organisation, by name, with their nodes, by name",
    description: "Pages have 500 nodes; the header Link points to the next page, which continues a cluster that was cut.",
    query: CURSOR_QUERY,
    response: listResponse({
      cluster_id: UUID_SCHEMA,
      name: { type: "string" },
      online: { type: "boolean" },
      last_heartbeat: OPTIONAL_TIME_SCHEMA,
      key_created_at: OPTIONAL_TIME_SCHEMA,
      nodes: {
        type: "array",
        items: objectSchema({
          name: { type: "string" },
          online: { type: "boolean" },
          agent_version: text,
          last_heartbeat: OPTIONAL_TIME_SCHEMA,
          collector: COLLECTOR_SCHEMA,
        }),
      },
    }),
  },
  remove: { ...common, summary: "Remove a cluster and revoke its keys", params: ID_PARAMS, response: NO_CONTENT },
};

export function registerClusterAdministration(
  app: FastifyInstance,
  { db, guards, keys, ingestTokens, now, pageRows = PAGE_ROWS }: EnrolmentDeps,
): void {
  addRoute(app, guards, {
    method: "GET",
    path: "/api/clusters",
    access: "viewer",
    ...schemas.list,
    handler: async (request: FastifyRequest<CursorQuery>, reply: FastifyReply) => {
      const { orgId } = callerOf(request);
      const tenantDb = tenantDatabase(db, orgId);
      const { clusters, next } = await readClusterPage(tenantDb, orgId, readCursor(request, 3), pageRows);
      if (next) linkNext(request, reply, next);
      const ids = clusters.map(({ row }) => row.id);
      const keyTimes = await currentKeyTimes(tenantDb, orgId, "cluster", ids);
      return clusters.map(({ row, nodes }) => ({
        cluster_id: row.id,
        name: row.name,
        online: isOnline(row.last_heartbeat, row.heartbeat_interval_s, now()),
        last_heartbeat: row.last_heartbeat?.toISOString() ?? null,
        key_created_at: keyTimes.get(row.id)?.toISOString() ?? null,
        nodes: nodes.map(({ name, agent_version, last_heartbeat, collector }) => ({
          name,
          online: isOnline(last_heartbeat, row.heartbeat_interval_s, now()),
          agent_version,
          last_heartbeat: last_heartbeat.toISOString(),
          collector,
        })),
      }));
    },
  });

  addRoute(app, guards, {
    method: "DELETE",
    path: "/api/clusters/:id",
    access: "admin",
    ...schemas.remove,
    handler: async (request, reply) => {
      const id = readId(request, "cluster");
      const { orgId } = callerOf(request);
      const { hashes, tokens } = await tenantDatabase(db, orgId)
        .transaction()
        .execute(async (trx) => {
          const result = await trx.deleteFrom("clusters").where("id", "=", id).where("org_id", "=", orgId).executeTakeFirst();
          if (result.numDeletedRows === 0n) throw notFound("cluster");
          return { hashes: await revokeKeysOf(trx, orgId, id, new Date(now())), tokens: await removeTokensOf(trx, orgId, id) };
        });
      keys.forget(...hashes);
      ingestTokens.forget(...tokens);
      audit(request, "cluster.delete", { cluster_id: id, revoked_keys: hashes.length, removed_ingest_tokens: tokens.length });
      return await reply.code(204).send();
    },
  });
}
