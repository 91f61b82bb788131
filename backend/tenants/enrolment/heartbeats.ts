// The heartbeats of agents: POST /heartbeat marks a cluster and the sending node as online, POST /ingest/agents/heartbeat a host, with the
// remote configuration that it uses. Invariants: the cluster or host is identified by the key alone. The body is informational, so its
// content cannot make an agent appear offline: unknown fields are ignored, long texts are truncated, intervals are clamped; only wrong
// types are refused.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Kysely } from "kysely";
import { CLUSTER_HEARTBEAT_PATH, type Heartbeat, HOST_HEARTBEAT_PATH, ORG_ID_HEADER } from "../../../common/protocol/enrolment.ts";
import { signerOf } from "../../http/request-identity.ts";
import { NO_CONTENT, optionalSchema } from "../../http/schemas.ts";
import { addRoute } from "../../http/route.ts";
import type { ApiError } from "../../errors.ts";
import {
  MAX_HEARTBEAT_BYTES,
  MAX_HEARTBEAT_INTERVAL_S,
  MAX_HEARTBEAT_TEXT_LENGTH,
  MAX_INSTALLATION_LENGTH,
  MAX_NODES,
} from "../tenant-limits.ts";
import { HeartbeatBatcher } from "./heartbeat-batcher.ts";
import type { CollectorReport, EnrolmentDeps, EnrolmentTables } from "./enrolment-tables.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { type ClusterBeat, writeClusterBeats } from "./cluster-beats.ts";

const DEFAULT_INTERVAL_S = 30;
/** An agent is online while its last heartbeat is younger than this many intervals. */
const ONLINE_INTERVALS = 3;
const MAX_SIGNALS = 3;

const text = { type: "string" } as const;
const COLLECTOR_FIELDS = {
  state: text,
  restarts: { type: "number" },
  last_error: text,
  queue_percent: { type: "number", description: "how full the fullest disk queue is" },
  failing: { type: "array", items: text, description: "signals that are not delivered" },
} as const;
const HEARTBEAT_SCHEMA = optionalSchema({
  node: text,
  agent_version: text,
  interval_s: { type: "number" },
  collector: { type: "object", properties: COLLECTOR_FIELDS },
  installation: text,
  config: { type: "object", properties: { version: text, error: text } },
});

export const COLLECTOR_SCHEMA = {
  type: ["object", "null"],
  properties: COLLECTOR_FIELDS,
} as const;

function readIntervalS(heartbeat: Heartbeat): number {
  return Math.round(Math.min(MAX_HEARTBEAT_INTERVAL_S, Math.max(1, heartbeat.interval_s ?? DEFAULT_INTERVAL_S)));
}

function readCollector({ collector }: Heartbeat): CollectorReport | null {
  if (!collector) return null;
  const { state, restarts, last_error, queue_percent, failing } = collector;
  return {
    state: clipText(state, 50),
    restarts,
    last_error: clipText(last_error, MAX_HEARTBEAT_TEXT_LENGTH),
    queue_percent,
    ...(failing && { failing: failing.slice(0, MAX_SIGNALS).map((signal) => clipText(signal, 50) ?? "") }),
  };
}

/** Truncates a text and removes NUL, which the database refuses. */
function clipText(value: string | undefined, maxLength: number): string | undefined {
  return value?.replaceAll("\0", "").slice(0, maxLength).toWellFormed();
}

export function isOnline(lastHeartbeat: Date | null, intervalS: number, now: number): boolean {
  return lastHeartbeat !== null && now - lastHeartbeat.getTime() < offlineAfterMs(intervalS);
}

export function offlineAfterMs(intervalS: number): number {
  return ONLINE_INTERVALS * intervalS * 1000;
}

const HEARTBEAT_ROUTE = {
  method: "POST",
  description: "The body is optional.",
  bodyIsOptional: true,
  tag: "enrolment",
  body: HEARTBEAT_SCHEMA,
  response: NO_CONTENT,
  maxBodyBytes: MAX_HEARTBEAT_BYTES,
} as const;

export function registerClusterHeartbeat(app: FastifyInstance, { db, guards, now, maxNodes = MAX_NODES }: EnrolmentDeps): void {
  const beats = new HeartbeatBatcher<ClusterBeat>({ write: (batch, orgId) => writeClusterBeats(db, orgId, batch, maxNodes) });
  addRoute(app, guards, {
    ...HEARTBEAT_ROUTE,
    path: CLUSTER_HEARTBEAT_PATH,
    access: { keys: ["cluster"] },
    summary: "Heartbeat of a cluster's agent",
    handler: async (request: FastifyRequest<{ Body: Heartbeat }>, reply: FastifyReply) => {
      const { hostId: clusterId, orgId } = signerOf(request);
      const beat = toBeat(clusterId, request.body, new Date(now()));
      await beats.add(orgId, `${clusterId}/${beat.node ?? ""}`, beat);
      return await reply.code(204).header(ORG_ID_HEADER, orgId).send();
    },
  });
}

function toBeat(clusterId: string, heartbeat: Heartbeat, at: Date): ClusterBeat {
  return {
    clusterId,
    at,
    intervalS: readIntervalS(heartbeat),
    installation: clipText(heartbeat.installation, MAX_INSTALLATION_LENGTH) || undefined,
    node: clipText(heartbeat.node, 253) || undefined,
    agentVersion: clipText(heartbeat.agent_version, 100) ?? null,
    collector: JSON.stringify(readCollector(heartbeat)),
    configInForce: clipText(heartbeat.config?.version, 50) ?? null,
    configError: clipText(heartbeat.config?.error, 1000) ?? null,
  };
}

/** A batch has one statement per host. */
const MAX_HOSTS_PER_WRITE = 50;

type HostRow = ReturnType<typeof toHostRow>;

export function registerHostHeartbeat(app: FastifyInstance, { db, guards, now }: EnrolmentDeps): void {
  const beats = new HeartbeatBatcher<HostRow>({
    maxRows: MAX_HOSTS_PER_WRITE,
    write: (batch, orgId) => writeHosts(tenantDatabase(db, orgId), batch),
  });
  addRoute(app, guards, {
    ...HEARTBEAT_ROUTE,
    path: HOST_HEARTBEAT_PATH,
    access: { keys: ["host"] },
    summary: "Heartbeat of a host's agent",
    handler: async (request: FastifyRequest<{ Body: Heartbeat }>, reply: FastifyReply) => {
      const { hostId, orgId } = signerOf(request);
      await beats.add(orgId, hostId, toHostRow(request.body, new Date(now())));
      return await reply.code(204).header(ORG_ID_HEADER, orgId).send();
    },
  });
}

function toHostRow(heartbeat: Heartbeat, at: Date) {
  const collector = readCollector(heartbeat);
  const version = clipText(heartbeat.agent_version, 100);
  return {
    last_heartbeat: at,
    heartbeat_interval_s: readIntervalS(heartbeat),
    collector: collector && JSON.stringify(collector),
    config_in_force: clipText(heartbeat.config?.version, 50) ?? null,
    config_error: clipText(heartbeat.config?.error, 1000) ?? null,
    ...(version && { agent_version: version }),
  };
}

/** In a fixed order, which prevents deadlocks between replicas. */
async function writeHosts(db: Kysely<EnrolmentTables>, rows: ReadonlyMap<string, HostRow>): Promise<Map<string, ApiError>> {
  await db.transaction().execute(async (trx) => {
    for (const [id, row] of [...rows].toSorted(([a], [b]) => (a < b ? -1 : 1)))
      await trx.updateTable("hosts").set(row).where("id", "=", id).execute();
  });
  return new Map();
}
