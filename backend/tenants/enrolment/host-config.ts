// GET /api/v1/agents/{id}/config: a host reads its remote configuration, which may contain intervals, log paths, signals and log level.
// Invariant: the id of another host is 404. Unknown fields and malformed values are refused when a configuration is written; the host
// validates it again with its own list of allowed paths.
import type { FastifyInstance } from "fastify";
import type { HostConfigResponse } from "../../../common/protocol/enrolment.ts";
import { signerOf } from "../../http/request-identity.ts";
import { FORBIDDEN_CHARACTERS, ID_PARAMS, notFound, objectSchema, readId } from "../../http/schemas.ts";
import { addRoute, endpoint } from "../../http/route.ts";
import type { EnrolmentDeps } from "./enrolment-tables.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

const interval = { type: "string", pattern: "^[1-9][0-9]{0,5}(ms|s|m|h)$", description: "a duration such as 500ms, 30s or 5m" } as const;

export const HOST_CONFIG_SCHEMA = {
  type: "object",
  additionalProperties: false,
  properties: {
    intervals: { type: "object", additionalProperties: false, properties: { metrics: interval, heartbeat: interval } },
    log_paths: {
      type: "array",
      maxItems: 100,
      uniqueItems: true,
      items: {
        type: "string",
        maxLength: 1000,
        pattern: `^/[^${FORBIDDEN_CHARACTERS}]*$`,
        description: "an absolute path without control characters",
      },
    },
    signals: { type: "array", uniqueItems: true, items: { type: "string", enum: ["metrics", "logs", "traces"] } },
    log_level: { type: "string", enum: ["debug", "info", "warn", "error"] },
  },
} as const;

export const HOST_CONFIG_RESPONSE_SCHEMA = objectSchema({ version: { type: "string" }, config: HOST_CONFIG_SCHEMA });

export function registerHostConfig(app: FastifyInstance, { db, guards }: EnrolmentDeps): void {
  addRoute(app, guards, {
    ...endpoint("GET", "/api/v1/agents/:id/config", { keys: ["host"] }, "enrolment"),
    summary: "Remote configuration of the host whose key signs the request",
    description: "Returns 304 if If-None-Match has the current version.",
    params: ID_PARAMS,
    response: { 200: HOST_CONFIG_RESPONSE_SCHEMA, 304: { type: "null" } },
    handler: async (request, reply) => {
      const id = readId(request, "host");
      const { hostId, orgId } = signerOf(request);
      if (id !== hostId) throw notFound("host");
      const row = await tenantDatabase(db, orgId)
        .selectFrom("hosts")
        .select(["config", "config_version"])
        .where("id", "=", id)
        .executeTakeFirst();
      if (!row) throw notFound("host");
      const version = String(row.config_version);
      void reply.header("etag", `"${version}"`).header("cache-control", "no-cache");
      if (matchesEtag(request.headers["if-none-match"], version)) return await reply.code(304).send();
      const response: HostConfigResponse = { version, config: row.config };
      return await reply.send(response);
    },
  });
}

/** RFC 9110, 13.1.2: a list of tags or `*`, compared weakly. */
export function matchesEtag(header: string | undefined, version: string): boolean {
  const tags = (header ?? "").split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  return tags.includes("*") || tags.includes(`"${version}"`);
}
