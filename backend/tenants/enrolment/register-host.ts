// POST /api/v1/agents/register: the agent of a host exchanges an install token for an API key. Invariant: a known machine_id of the organisation
// keeps its agent_id and remote configuration. A clone of a host (same machine_id) gets no key while that host is alive.
import { randomUUID } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Selectable, Transaction } from "kysely";
import { ORG_ID_HEADER, REGISTER_HOST_PATH, ROTATION_OVERLAP_MS, type RegisterHostRequest } from "../../../common/protocol/enrolment.ts";
import { audit } from "../../auth/audit-log.ts";
import { ApiError } from "../../errors.ts";
import { nameSchema, TIME_SCHEMA, UUID_SCHEMA } from "../../http/schemas.ts";
import { addRoute } from "../../http/route.ts";
import { installTokenAccess, spendInstallToken, type Enrol } from "./install-token.ts";
import { findAliveHolder } from "./key-holder.ts";
import { mintKey, retireOtherKeys } from "./key-table.ts";
import type { EnrolmentDeps } from "./deps.ts";
import type { EnrolmentTables, HostTable } from "./table.ts";

const schema = {
  summary: "Register a host with an install token",
  description:
    "Needs the header Idempotency-Key. The same token with the same Idempotency-Key returns the same key until it has signed a request.",
  tag: "enrolment",
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
  const startedAt = deps.now();
  addRoute(app, deps.guards, {
    method: "POST",
    path: REGISTER_HOST_PATH,
    access: installTokenAccess(deps.db, deps.now),
    ...schema,
    handler: async (request: FastifyRequest<{ Body: RegisterHostRequest }>, reply: FastifyReply) => {
      const { hostname, machine_id, agent_version } = request.body;
      const body = [REGISTER_HOST_PATH, hostname, machine_id, agent_version];
      const { row, rawKey, repeated } = await spendInstallToken(deps, request, body, enrolHost(deps, request.body, startedAt));
      audit(request, "host.register", { org_id: row.org_id, agent_id: row.owner_id, hostname, key_id: row.id, repeated });
      void reply.header(ORG_ID_HEADER, row.org_id);
      return await reply.code(201).send({ agent_id: row.owner_id, api_key: rawKey, key_created_at: row.created_at.toISOString() });
    },
  });
}

function enrolHost({ masterKeys, now }: EnrolmentDeps, request: RegisterHostRequest, startedAt: number): Enrol {
  const { hostname, machine_id, agent_version } = request;
  return async (trx, orgId) => {
    const at = new Date(now());
    await trx
      .insertInto("hosts")
      .values({ id: randomUUID(), org_id: orgId, hostname, machine_id, agent_version, created_at: at })
      .onConflict((conflict) => conflict.columns(["org_id", "machine_id"]).doNothing())
      .execute();
    // The lock makes sure that only the first of several clones that register concurrently gets the key.
    const host = await trx
      .selectFrom("hosts")
      .selectAll()
      .where("org_id", "=", orgId)
      .where("machine_id", "=", machine_id)
      .forUpdate()
      .executeTakeFirstOrThrow();
    await refuseClone(trx, host, { now: at.getTime(), startedAt });
    await trx.updateTable("hosts").set({ hostname, agent_version }).where("id", "=", host.id).execute();
    const minted = await mintKey(trx, masterKeys, { orgId, kind: "host", ownerId: host.id, node: hostname }, at);
    await retireOtherKeys(trx, minted.row, new Date(at.getTime() + ROTATION_OVERLAP_MS));
    return minted;
  };
}

/** Two hosts with one machine id would retire each other's key. The install token is not used up. */
async function refuseClone(
  trx: Transaction<EnrolmentTables>,
  host: Selectable<HostTable>,
  times: { now: number; startedAt: number },
): Promise<void> {
  const alive = await findAliveHolder(trx, "host", host, times);
  if (!alive) return;
  throw new ApiError(
    "host_in_use",
    `the host ${host.hostname} is alive and has the same machine id: if this host is a clone, create a new id as root ` +
      "(`rm /etc/machine-id; systemd-machine-id-setup`) and restart the agent; if it is the same host, reinstalled, " +
      `it gets a key when the earlier agent has been silent for ${alive.silentAfterS} s`,
    alive,
  );
}
