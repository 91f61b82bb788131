// POST /api/v1/agents/register: a host's agent trades an install token for an API key. Invariant: a machine_id that the organisation
// already has keeps its agent_id and its remote configuration.
import { randomUUID } from "node:crypto";
import type { FastifyInstance } from "fastify";
import { ORG_ID_HEADER, REGISTER_HOST_PATH, ROTATION_OVERLAP_MS, type RegisterHostRequest } from "../../agent/protocol/enrolment.ts";
import { audit } from "../auth/audit-log.ts";
import { nameSchema, TIME_SCHEMA, UUID_SCHEMA } from "../http/schemas.ts";
import { installTokenGuard, spendInstallToken, type Enrol } from "./install-token.ts";
import { mintKey, retireOtherKeys } from "./key-table.ts";
import type { EnrolmentDeps } from "./deps.ts";

const schema = {
  summary: "Register a host with an install token",
  description:
    "Needs the header Idempotency-Key. The same token with the same Idempotency-Key answers the same key until it has signed a request.",
  tags: ["enrolment"],
  security: [{ installToken: [] }],
  body: {
    type: "object",
    additionalProperties: false,
    required: ["hostname", "machine_id", "agent_version"],
    properties: { hostname: nameSchema(253), machine_id: nameSchema(200), agent_version: nameSchema(100) },
  },
  response: {
    201: {
      type: "object",
      required: ["agent_id", "api_key", "key_created_at"],
      properties: { agent_id: UUID_SCHEMA, api_key: { type: "string" }, key_created_at: TIME_SCHEMA },
    },
  },
} as const;

export function registerRegisterHost(app: FastifyInstance, deps: EnrolmentDeps): void {
  const onRequest = installTokenGuard(deps.db, deps.now);
  app.post<{ Body: RegisterHostRequest }>(REGISTER_HOST_PATH, { schema, onRequest }, async (request, reply) => {
    const { hostname, machine_id, agent_version } = request.body;
    const body = [REGISTER_HOST_PATH, hostname, machine_id, agent_version];
    const { row, rawKey, repeated } = await spendInstallToken(deps, request, body, enrolHost(deps, request.body));
    audit(request, "host.register", { org_id: row.org_id, agent_id: row.owner_id, hostname, key_id: row.id, repeated });
    void reply.header(ORG_ID_HEADER, row.org_id);
    return await reply.code(201).send({ agent_id: row.owner_id, api_key: rawKey, key_created_at: row.created_at.toISOString() });
  });
}

function enrolHost({ masterKeys, now }: EnrolmentDeps, { hostname, machine_id, agent_version }: RegisterHostRequest): Enrol {
  return async (trx, orgId) => {
    const at = new Date(now());
    const host = await trx
      .insertInto("hosts")
      .values({ id: randomUUID(), org_id: orgId, hostname, machine_id, agent_version, created_at: at })
      .onConflict((conflict) => conflict.columns(["org_id", "machine_id"]).doUpdateSet({ hostname, agent_version }))
      .returning("id")
      .executeTakeFirstOrThrow();
    const minted = await mintKey(trx, masterKeys, { orgId, kind: "host", ownerId: host.id, node: hostname }, at);
    await retireOtherKeys(trx, minted.row, new Date(at.getTime() + ROTATION_OVERLAP_MS));
    return minted;
  };
}
