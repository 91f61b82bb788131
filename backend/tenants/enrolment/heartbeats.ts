// The heartbeats of agents: POST /heartbeat marks a cluster and the sending node as online, POST /ingest/agents/heartbeat a host, with the
// remote configuration that it uses. Invariants: the cluster or host is identified by the key alone. The body is informational, so its
// content cannot make an agent appear offline: unknown fields are ignored, long texts are truncated, intervals are clamped; only wrong
// types are refused.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Kysely } from "kysely";
import { HOST_HEARTBEAT_PATH, type Heartbeat, ORG_ID_HEADER } from "../../../common/protocol/enrolment.ts";
import { signerOf } from "../../auth/request-identity.ts";
import { NO_CONTENT } from "../../http/schemas.ts";
import { addRoute } from "../../http/route.ts";
import type { ApiError } from "../../errors.ts";
import { MAX_HEARTBEAT_BYTES } from "../limits.ts";
import { HeartbeatBatcher } from "./heartbeat-batcher.ts";
import { clipped, collectorOf, HEARTBEAT_SCHEMA, intervalOf } from "./heartbeat.ts";
import type { EnrolmentDeps } from "./deps.ts";
import type { EnrolmentTables } from "./table.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

const schema = {
  summary: "Heartbeat of a host's agent",
  description: "The body is optional and informational.",
  bodyIsOptional: true,
  tag: "enrolment",
  body: HEARTBEAT_SCHEMA,
  response: NO_CONTENT,
} as const;

/** Each host is a statement. */
const HOSTS_OF_A_WRITE = 50;

type HostRow = ReturnType<typeof rowOf>;

export function registerHostHeartbeat(app: FastifyInstance, { db, guards, now }: EnrolmentDeps): void {
  const beats = new HeartbeatBatcher<HostRow>({
    maxRows: HOSTS_OF_A_WRITE,
    write: (some, orgId) => writeHosts(tenantDatabase(db, orgId), some),
  });
  addRoute(app, guards, {
    method: "POST",
    path: HOST_HEARTBEAT_PATH,
    access: { keys: ["host"] },
    ...schema,
    maxBodyBytes: MAX_HEARTBEAT_BYTES,
    handler: async (request: FastifyRequest<{ Body: Heartbeat }>, reply: FastifyReply) => {
      const { hostId, orgId } = signerOf(request);
      await beats.add(orgId, hostId, rowOf(request.body, new Date(now())));
      return await reply.code(204).header(ORG_ID_HEADER, orgId).send();
    },
  });
}

function rowOf(heartbeat: Heartbeat, at: Date) {
  const collector = collectorOf(heartbeat);
  const version = clipped(heartbeat.agent_version, 100);
  return {
    last_heartbeat: at,
    heartbeat_interval_s: intervalOf(heartbeat),
    collector: collector && JSON.stringify(collector),
    config_in_force: clipped(heartbeat.config?.version, 50) ?? null,
    config_error: clipped(heartbeat.config?.error, 1000) ?? null,
    ...(version && { agent_version: version }),
  };
}

/** In a fixed order, which prevents deadlocks between replicas. */
async function writeHosts(db: Kysely<EnrolmentTables>, rows: ReadonlyMap<string, HostRow>): Promise<Map<string, ApiError>> {
  await db.transaction().execute(async (trx) => {
    for (const [id, row] of [...rows].toSorted(([first], [second]) => (first < second ? -1 : 1)))
      await trx.updateTable("hosts").set(row).where("id", "=", id).execute();
  });
  return new Map();
}
