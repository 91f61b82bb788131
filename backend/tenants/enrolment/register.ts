// The agents of clusters and hosts exchange an install token, or a token of a trusted issuer, for an API key: POST /api/clusters/register
// and POST /api/v1/agents/register. Invariants: a known cluster_uid or machine_id of the organisation keeps its id, and a host its remote configuration; older keys expire
// after the overlap. Another installation of a cluster, or a clone of a host, gets no key while the first one is alive.
import { randomUUID } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Selectable, Transaction } from "kysely";
import {
  ORG_ID_HEADER,
  REGISTER_CLUSTER_PATH,
  REGISTER_HOST_PATH,
  type RegisterClusterRequest,
  type RegisterHostRequest,
  ROTATION_OVERLAP_MS,
} from "../../../common/protocol/enrolment.ts";
import { audit } from "../../auth/audit-log.ts";
import { ApiError } from "../../errors.ts";
import { closedSchema, nameSchema, objectSchema, TIME_SCHEMA, UUID_SCHEMA } from "../../http/schemas.ts";
import { addRoute, endpoint } from "../../http/route.ts";
import { requireName, requireOwnCluster, requireOwnHost } from "./identity-enrolment.ts";
import { type Enrol, enrolmentAccess, spendEnrolment } from "./install-token.ts";
import { findAliveHolder } from "./key-holder.ts";
import { mintKey, retireOtherKeys } from "./key-table.ts";
import type { ClusterTable, EnrolmentDeps, EnrolmentTables, HostTable } from "./enrolment-tables.ts";
import { MAX_INSTALLATION_LENGTH } from "../tenant-limits.ts";

interface Registration<Body> {
  readonly path: string;
  readonly noun: "cluster" | "host";
  /** Field of the response with the id. */
  readonly idField: "cluster_id" | "agent_id";
  readonly required: readonly (keyof Body & string)[];
  readonly properties: Readonly<Record<keyof Body & string, object>>;
  /** The values of the body. Only a request with the same values gets an earlier response again. */
  readonly values: (body: Body) => readonly string[];
  /** The name in the audit log. */
  readonly audited: (body: Body) => Readonly<Record<string, string>>;
  readonly enrol: (body: Body) => Enrol;
}

function addRegistration<Body>(app: FastifyInstance, deps: EnrolmentDeps, registration: Registration<Body>): void {
  const { path, noun, idField, required, properties, values, audited, enrol } = registration;
  addRoute(app, deps.guards, {
    ...endpoint("POST", path, enrolmentAccess(deps, `enrol_${noun}`), "enrolment"),
    errors: ["conflict", "forbidden"],
    summary: `Register a ${noun} with an install token, or a token of a trusted issuer`,
    description:
      "Needs the Idempotency-Key header. The same token, or another one of the same subject, with the same Idempotency-Key returns the same key until it has signed a request, for at most 24 hours.",
    body: closedSchema(required, properties),
    response: { 201: objectSchema({ [idField]: UUID_SCHEMA, api_key: { type: "string" }, key_created_at: TIME_SCHEMA }) },
    handler: async (request: FastifyRequest, reply: FastifyReply) => {
      const body = request.body as Body;
      const { row, rawKey, repeated } = await spendEnrolment(deps, request, [path, ...values(body)], enrol(body));
      const { id, org_id, owner_id, created_at } = row;
      const { enrolling } = request;
      const by = enrolling && { issuer_id: enrolling.issuerId, subject: enrolling.subject };
      audit(request, `${noun}.register`, { org_id, [idField]: owner_id, ...audited(body), key_id: id, repeated, ...by });
      void reply.header(ORG_ID_HEADER, org_id);
      return await reply.code(201).send({ [idField]: owner_id, api_key: rawKey, key_created_at: created_at.toISOString() });
    },
  });
}

export function registerRegisterCluster(app: FastifyInstance, deps: EnrolmentDeps): void {
  const startedAt = deps.now();
  addRegistration<RegisterClusterRequest>(app, deps, {
    path: REGISTER_CLUSTER_PATH,
    noun: "cluster",
    idField: "cluster_id",
    required: ["cluster_name", "cluster_uid", "agent_version"],
    properties: {
      cluster_name: nameSchema(200),
      cluster_uid: nameSchema(200),
      agent_version: nameSchema(100),
      installation: nameSchema(MAX_INSTALLATION_LENGTH),
    },
    values: ({ cluster_name, cluster_uid, agent_version, installation }) => [
      cluster_name,
      cluster_uid,
      agent_version,
      ...(installation === undefined ? [] : [installation]),
    ],
    audited: ({ cluster_name }) => ({ cluster_name }),
    enrol: (body) => enrolCluster(deps, body, startedAt),
  });
}

function enrolCluster(deps: EnrolmentDeps, request: RegisterClusterRequest, startedAt: number): Enrol {
  const { masterKeys, now } = deps;
  const { cluster_name, cluster_uid, installation = null } = request;
  return async (trx, orgId, by) => {
    if (by) requireName(by, cluster_name, "cluster_name");
    const at = new Date(now());
    const fresh = { id: randomUUID(), org_id: orgId, name: cluster_name, cluster_uid, created_at: at, last_heartbeat: null };
    await trx
      .insertInto("clusters")
      .values({ ...fresh, installation, issuer_id: by?.issuerId ?? null })
      .onConflict((conflict) => conflict.columns(["org_id", "cluster_uid"]).doNothing())
      .execute();
    const cluster = await trx
      .selectFrom("clusters")
      .selectAll()
      .where("org_id", "=", orgId)
      .where("cluster_uid", "=", cluster_uid)
      .forUpdate()
      .executeTakeFirstOrThrow();
    if (by) await requireOwnCluster(trx, by, cluster);
    await refuseSecondInstallation(trx, cluster, installation, { now: at.getTime(), startedAt });
    await trx
      .updateTable("clusters")
      .set({ name: cluster_name, installation, ...(by && { issuer_id: by.issuerId }) })
      .where("id", "=", cluster.id)
      .execute();
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

export function registerRegisterHost(app: FastifyInstance, deps: EnrolmentDeps): void {
  const startedAt = deps.now();
  addRegistration<RegisterHostRequest>(app, deps, {
    path: REGISTER_HOST_PATH,
    noun: "host",
    idField: "agent_id",
    required: ["hostname", "machine_id", "agent_version"],
    properties: { hostname: nameSchema(253), machine_id: nameSchema(200), agent_version: nameSchema(100) },
    values: ({ hostname, machine_id, agent_version }) => [hostname, machine_id, agent_version],
    audited: ({ hostname }) => ({ hostname }),
    enrol: (body) => enrolHost(deps, body, startedAt),
  });
}

function enrolHost({ masterKeys, now }: EnrolmentDeps, request: RegisterHostRequest, startedAt: number): Enrol {
  const { hostname, machine_id, agent_version } = request;
  return async (trx, orgId, by) => {
    if (by) requireName(by, hostname, "hostname");
    const at = new Date(now());
    const issuer = by && { issuer_id: by.issuerId, issuer_subject: by.subject };
    await trx
      .insertInto("hosts")
      .values({ id: randomUUID(), org_id: orgId, hostname, machine_id, agent_version, created_at: at, ...issuer })
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
    if (by) requireOwnHost(by, host);
    await refuseClone(trx, host, { now: at.getTime(), startedAt });
    await trx
      .updateTable("hosts")
      .set({ hostname, agent_version, ...issuer })
      .where("id", "=", host.id)
      .execute();
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
