// GET /api/v1/agents/{id}/config: a host asks for its own remote configuration. Invariant: another host's id is 404, whatever key
// signs.
import type { FastifyInstance } from "fastify";
import type { HostConfigResponse } from "../../agent/protocol/enrolment.ts";
import { signerOf } from "../auth/request-identity.ts";
import { idOf, ID_PARAMS, missing } from "../http/schemas.ts";
import { HOST_CONFIG_RESPONSE_SCHEMA } from "./host-config-schema.ts";
import type { EnrolmentDeps } from "./deps.ts";
import { tenantDatabase } from "../engines/relational/tenant-database.ts";

const schema = {
  summary: "Remote configuration of the host that signs",
  description: "Answers 304 when If-None-Match names the version in force.",
  tags: ["enrolment"],
  security: [{ signature: [] }],
  params: ID_PARAMS,
  response: { 200: HOST_CONFIG_RESPONSE_SCHEMA, 304: { type: "null" } },
} as const;

export function registerHostConfig(app: FastifyInstance, { db, guards }: EnrolmentDeps): void {
  app.get("/api/v1/agents/:id/config", { schema, onRequest: guards.signed("host") }, async (request, reply) => {
    const id = idOf(request, "host");
    const { hostId, orgId } = signerOf(request);
    if (id !== hostId) throw missing("host");
    const row = await tenantDatabase(db, orgId)
      .selectFrom("hosts")
      .select(["config", "config_version"])
      .where("id", "=", id)
      .executeTakeFirst();
    if (!row) throw missing("host");
    const version = String(row.config_version);
    void reply.header("etag", `"${version}"`).header("cache-control", "no-cache");
    if (matches(request.headers["if-none-match"], version)) return await reply.code(304).send();
    const answer: HostConfigResponse = { version, config: row.config };
    return await reply.send(answer);
  });
}

/** RFC 9110, 13.1.2: a list of tags or `*`, compared weakly. */
function matches(header: string | undefined, version: string): boolean {
  const tags = (header ?? "").split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  return tags.includes("*") || tags.includes(`"${version}"`);
}
