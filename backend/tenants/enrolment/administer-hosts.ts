// Serves the administration of hosts: lists hosts with their online state and configuration, replaces the remote configuration of a host,
// and removes a host. The API calls hosts agents (`/api/v1/agents`, `agent_id`). Invariant: a stored configuration contains only intervals,
// log paths, signals and log level.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { sql } from "kysely";
import type { HostConfig } from "../../../common/protocol/enrolment.ts";
import { audit } from "../../auth/audit-log.ts";
import { callerOf } from "../../http/request-identity.ts";
import { readId, ID_PARAMS, listResponse, notFound, OPTIONAL_TIME_SCHEMA, UUID_SCHEMA } from "../../http/schemas.ts";
import { addHandlers, endpoint } from "../../http/route.ts";
import { COLLECTOR_SCHEMA, isOnline } from "./heartbeats.ts";
import { HOST_CONFIG_RESPONSE_SCHEMA, HOST_CONFIG_SCHEMA } from "./host-config.ts";
import { CURSOR_QUERY, type CursorQuery, readPage } from "../../http/list-page.ts";
import { registerRemoval } from "./administer-removal.ts";
import { currentKeyTimes } from "./key-holder.ts";
import type { EnrolmentDeps } from "./enrolment-tables.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

const nullableText = { type: ["string", "null"] } as const;
const ROUTES = {
  list: {
    ...endpoint("GET", "/api/v1/agents", "viewer", "enrolment"),
    summary: "Hosts of your organisation, by name",
    description: "Pages have 500 entries; the Link header points to the next page.",
    query: CURSOR_QUERY,
    response: listResponse({
      agent_id: UUID_SCHEMA,
      hostname: { type: "string" },
      online: { type: "boolean" },
      last_heartbeat: OPTIONAL_TIME_SCHEMA,
      key_created_at: OPTIONAL_TIME_SCHEMA,
      agent_version: nullableText,
      collector: COLLECTOR_SCHEMA,
      config: {
        type: "object",
        properties: { version: { type: "string" }, in_force: nullableText, error: nullableText, config: HOST_CONFIG_SCHEMA },
      },
    }),
  },
  config: {
    ...endpoint("PUT", "/api/v1/agents/:id/config", "admin", "enrolment"),
    summary: "Replace a host's remote configuration; the host applies it at its next poll",
    params: ID_PARAMS,
    body: HOST_CONFIG_SCHEMA,
    response: { 200: HOST_CONFIG_RESPONSE_SCHEMA },
  },
};

export function registerHostAdministration(app: FastifyInstance, deps: EnrolmentDeps): void {
  const { db, guards, now, pageRows } = deps;
  addHandlers(app, guards, ROUTES, {
    list: async (request: FastifyRequest<CursorQuery>, reply: FastifyReply) => {
      const { orgId } = callerOf(request);
      const tenantDb = tenantDatabase(db, orgId);
      const query = tenantDb.selectFrom("hosts").selectAll().where("org_id", "=", orgId);
      const hosts = await readPage(request, reply, query, { sortedBy: "hostname", limit: pageRows });
      const ids = hosts.map((host) => host.id);
      const keyTimes = await currentKeyTimes(tenantDb, orgId, "host", ids);
      return hosts.map((host) => ({
        agent_id: host.id,
        hostname: host.hostname,
        online: isOnline(host.last_heartbeat, host.heartbeat_interval_s, now()),
        last_heartbeat: host.last_heartbeat?.toISOString() ?? null,
        key_created_at: keyTimes.get(host.id)?.toISOString() ?? null,
        agent_version: host.agent_version,
        collector: host.collector,
        config: { version: String(host.config_version), in_force: host.config_in_force, error: host.config_error, config: host.config },
      }));
    },
    config: async (request: FastifyRequest<{ Body: HostConfig }>) => {
      const id = readId(request, "host");
      const { orgId } = callerOf(request);
      const updated = await tenantDatabase(db, orgId)
        .updateTable("hosts")
        .set({ config: JSON.stringify(request.body), config_version: sql<number>`config_version + 1` })
        .where("id", "=", id)
        .where("org_id", "=", orgId)
        .returning(["config", "config_version"])
        .executeTakeFirst();
      if (!updated) throw notFound("host");
      audit(request, "host.config", { agent_id: id, version: updated.config_version });
      return { version: String(updated.config_version), config: updated.config };
    },
  });

  registerRemoval(app, deps, { path: "/api/v1/agents/:id", kind: "host", idField: "agent_id" });
}
