// POST /api/clusters/register: a cluster's agent trades an install token for an API key. Invariant: a cluster_uid that the
// organisation already has keeps its cluster_id, and its older keys end within the overlap. Registered by routes.ts.
import { randomUUID } from "node:crypto";
import type { FastifyInstance } from "fastify";
import { ORG_ID_HEADER, REGISTER_CLUSTER_PATH, ROTATION_OVERLAP_MS, type RegisterClusterRequest } from "../../agent/protocol/enrolment.ts";
import { audit } from "../accounts/audit.ts";
import { installTokenGuard, spendInstallToken, type Enrol } from "./install-token.ts";
import { mintKey, retireOtherKeys } from "./key-table.ts";
import type { EnrolmentDeps } from "./routes.ts";
import { nameSchema, TIME_SCHEMA, UUID_SCHEMA } from "./schema.ts";

const schema = {
  summary: "Register a cluster with an install token",
  description:
    "Needs the header Idempotency-Key. The same token with the same Idempotency-Key answers the same key until it has signed a request.",
  tags: ["enrolment"],
  security: [{ installToken: [] }],
  body: {
    type: "object",
    additionalProperties: false,
    required: ["cluster_name", "cluster_uid", "agent_version"],
    properties: { cluster_name: nameSchema(200), cluster_uid: nameSchema(200), agent_version: nameSchema(100) },
  },
  response: {
    201: {
      type: "object",
      required: ["cluster_id", "api_key", "key_created_at"],
      properties: { cluster_id: UUID_SCHEMA, api_key: { type: "string" }, key_created_at: TIME_SCHEMA },
    },
  },
} as const;

export function registerRegisterCluster(app: FastifyInstance, deps: EnrolmentDeps): void {
  const onRequest = installTokenGuard(deps.db, deps.now);
  app.post<{ Body: RegisterClusterRequest }>(REGISTER_CLUSTER_PATH, { schema, onRequest }, async (request, reply) => {
    const { cluster_name, cluster_uid, agent_version } = request.body;
    const body = [REGISTER_CLUSTER_PATH, cluster_name, cluster_uid, agent_version];
    const { row, rawKey, repeated } = await spendInstallToken(deps, request, body, enrolCluster(deps, request.body));
    const subject = { org_id: row.org_id, cluster_id: row.owner_id, cluster_name, key_id: row.id, repeated };
    audit(request, "cluster.register", subject);
    void reply.header(ORG_ID_HEADER, row.org_id);
    return await reply.code(201).send({ cluster_id: row.owner_id, api_key: rawKey, key_created_at: row.created_at.toISOString() });
  });
}

function enrolCluster({ masterKeys, now }: EnrolmentDeps, { cluster_name, cluster_uid }: RegisterClusterRequest): Enrol {
  return async (trx, orgId) => {
    const at = new Date(now());
    const cluster = await trx
      .insertInto("clusters")
      .values({ id: randomUUID(), org_id: orgId, name: cluster_name, cluster_uid, created_at: at, last_heartbeat: null })
      .onConflict((conflict) => conflict.columns(["org_id", "cluster_uid"]).doUpdateSet({ name: cluster_name }))
      .returning("id")
      .executeTakeFirstOrThrow();
    const minted = await mintKey(trx, masterKeys, { orgId, kind: "cluster", ownerId: cluster.id, node: cluster_name }, at);
    await retireOtherKeys(trx, minted.row, new Date(at.getTime() + ROTATION_OVERLAP_MS));
    return minted;
  };
}
