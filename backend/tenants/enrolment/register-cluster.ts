// POST /api/clusters/register: the agent of a cluster exchanges an install token for an API key. Invariant: a known cluster_uid of the
// organisation keeps its cluster_id, and its older keys expire after the overlap. Another installation cannot replace one that is alive.
import { randomUUID } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import {
  ORG_ID_HEADER,
  REGISTER_CLUSTER_PATH,
  ROTATION_OVERLAP_MS,
  type RegisterClusterRequest,
} from "../../../common/protocol/enrolment.ts";
import type { Selectable, Transaction } from "kysely";
import { audit } from "../../auth/audit-log.ts";
import { ApiError } from "../../errors.ts";
import { nameSchema, TIME_SCHEMA, UUID_SCHEMA } from "../../http/schemas.ts";
import { addRoute } from "../../http/route.ts";
import { MAX_INSTALLATION_LENGTH } from "../limits.ts";
import { installTokenAccess, spendInstallToken, type Enrol } from "./install-token.ts";
import { findAliveHolder } from "./key-holder.ts";
import { mintKey, retireOtherKeys } from "./key-table.ts";
import type { EnrolmentDeps } from "./deps.ts";
import type { ClusterTable, EnrolmentTables } from "./table.ts";

const schema = {
  summary: "Register a cluster with an install token",
  description:
    "Needs the header Idempotency-Key. The same token with the same Idempotency-Key returns the same key until it has signed a request.",
  tag: "enrolment",
  body: {
    type: "object",
    additionalProperties: false,
    required: ["cluster_name", "cluster_uid", "agent_version"],
    properties: {
      cluster_name: nameSchema(200),
      cluster_uid: nameSchema(200),
      agent_version: nameSchema(100),
      installation: nameSchema(MAX_INSTALLATION_LENGTH),
    },
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
  const startedAt = deps.now();
  addRoute(app, deps.guards, {
    method: "POST",
    path: REGISTER_CLUSTER_PATH,
    access: installTokenAccess(deps.db, deps.now),
    ...schema,
    handler: async (request: FastifyRequest<{ Body: RegisterClusterRequest }>, reply: FastifyReply) => {
      const { cluster_name, cluster_uid, agent_version, installation } = request.body;
      const body = [REGISTER_CLUSTER_PATH, cluster_name, cluster_uid, agent_version, ...(installation === undefined ? [] : [installation])];
      const { row, rawKey, repeated } = await spendInstallToken(deps, request, body, enrolCluster(deps, request.body, startedAt));
      const subject = { org_id: row.org_id, cluster_id: row.owner_id, cluster_name, key_id: row.id, repeated };
      audit(request, "cluster.register", subject);
      void reply.header(ORG_ID_HEADER, row.org_id);
      return await reply.code(201).send({ cluster_id: row.owner_id, api_key: rawKey, key_created_at: row.created_at.toISOString() });
    },
  });
}

function enrolCluster(deps: EnrolmentDeps, request: RegisterClusterRequest, startedAt: number): Enrol {
  const { masterKeys, now } = deps;
  const { cluster_name, cluster_uid, installation = null } = request;
  return async (trx, orgId) => {
    const at = new Date(now());
    const fresh = { id: randomUUID(), org_id: orgId, name: cluster_name, cluster_uid, created_at: at, last_heartbeat: null };
    await trx
      .insertInto("clusters")
      .values({ ...fresh, installation })
      .onConflict((conflict) => conflict.columns(["org_id", "cluster_uid"]).doNothing())
      .execute();
    const cluster = await trx
      .selectFrom("clusters")
      .selectAll()
      .where("org_id", "=", orgId)
      .where("cluster_uid", "=", cluster_uid)
      .forUpdate()
      .executeTakeFirstOrThrow();
    await refuseSecondInstallation(trx, cluster, installation, { now: at.getTime(), startedAt });
    await trx.updateTable("clusters").set({ name: cluster_name, installation }).where("id", "=", cluster.id).execute();
    const minted = await mintKey(trx, masterKeys, { orgId, kind: "cluster", ownerId: cluster.id, node: cluster_name }, at);
    await retireOtherKeys(trx, minted.row, new Date(at.getTime() + ROTATION_OVERLAP_MS));
    return minted;
  };
}

/** Two installations of one cluster would retire each other's key. Agents without a name are accepted. The install token is not used up. */
async function refuseSecondInstallation(
  trx: Transaction<EnrolmentTables>,
  cluster: Selectable<ClusterTable>,
  installation: string | null,
  times: { now: number; startedAt: number },
): Promise<void> {
  const { installation: holder } = cluster;
  if (holder === null || installation === null || holder === installation) return;
  const alive = await findAliveHolder(trx, "cluster", cluster, times);
  if (!alive) return;
  throw new ApiError(
    "cluster_in_use",
    `another installation of the agent (${holder}) has this cluster's key: uninstall one of the two; this one gets a key when the other has been silent for ${alive.silentAfterS} s`,
    alive,
  );
}
