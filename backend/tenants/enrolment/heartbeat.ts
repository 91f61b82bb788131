// The body of both heartbeats. It is informational, so its content cannot make an agent appear offline. Invariant: unknown fields are ignored,
// long texts are truncated, and intervals are clamped; only wrong types are refused.
import { CLUSTER_HEARTBEAT_PATH, type Heartbeat, ORG_ID_HEADER } from "../../../common/protocol/enrolment.ts";
import { MAX_HEARTBEAT_BYTES, MAX_HEARTBEAT_INTERVAL_S, MAX_HEARTBEAT_TEXT_LENGTH, MAX_INSTALLATION_LENGTH, MAX_NODES } from "../limits.ts";
import type { CollectorReport } from "./table.ts";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { signerOf } from "../../auth/request-identity.ts";
import { NO_CONTENT } from "../../http/schemas.ts";
import { addRoute } from "../../http/route.ts";
import { type ClusterBeat, writeClusterBeats } from "./cluster-beats.ts";
import { HeartbeatBatcher } from "./heartbeat-batcher.ts";
import type { EnrolmentDeps } from "./deps.ts";

const DEFAULT_INTERVAL_S = 30;
/** An agent is online while its last heartbeat is younger than this many intervals. */
const ONLINE_INTERVALS = 3;

const text = { type: "string" } as const;
export const HEARTBEAT_SCHEMA = {
  type: "object",
  properties: {
    node: text,
    agent_version: text,
    interval_s: { type: "number" },
    collector: { type: "object", properties: { state: text, restarts: { type: "number" }, last_error: text } },
    installation: text,
    config: { type: "object", properties: { version: text, error: text } },
  },
} as const;

/** The collector state in lists. */
export const COLLECTOR_SCHEMA = {
  type: ["object", "null"],
  properties: { state: text, restarts: { type: "number" }, last_error: text },
} as const;

export function intervalOf(heartbeat: Heartbeat): number {
  return Math.round(Math.min(MAX_HEARTBEAT_INTERVAL_S, Math.max(1, heartbeat.interval_s ?? DEFAULT_INTERVAL_S)));
}

export function collectorOf({ collector }: Heartbeat): CollectorReport | null {
  if (!collector) return null;
  const { state, restarts, last_error } = collector;
  return { state: clipped(state, 50), restarts, last_error: clipped(last_error, MAX_HEARTBEAT_TEXT_LENGTH) };
}

/** Truncates a text and removes NUL, which the database refuses. */
export function clipped(value: string | undefined, maxLength: number): string | undefined {
  return value?.replaceAll("\0", "").slice(0, maxLength).toWellFormed();
}

export function isOnline(lastHeartbeat: Date | null, intervalS: number, now: number): boolean {
  return lastHeartbeat !== null && now - lastHeartbeat.getTime() < offlineAfterMs(intervalS);
}

export function offlineAfterMs(intervalS: number): number {
  return ONLINE_INTERVALS * intervalS * 1000;
}

const schema = {
  summary: "Heartbeat of a cluster's agent",
  description: "The body is optional and informational.",
  bodyIsOptional: true,
  tag: "enrolment",
  body: HEARTBEAT_SCHEMA,
  response: NO_CONTENT,
} as const;

export function registerClusterHeartbeat(app: FastifyInstance, { db, guards, now, maxNodes = MAX_NODES }: EnrolmentDeps): void {
  const beats = new HeartbeatBatcher<ClusterBeat>({ write: (some, orgId) => writeClusterBeats(db, orgId, some, maxNodes) });
  addRoute(app, guards, {
    method: "POST",
    path: CLUSTER_HEARTBEAT_PATH,
    access: { keys: ["cluster"] },
    ...schema,
    maxBodyBytes: MAX_HEARTBEAT_BYTES,
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
    intervalS: intervalOf(heartbeat),
    installation: clipped(heartbeat.installation, MAX_INSTALLATION_LENGTH) || undefined,
    node: clipped(heartbeat.node, 253) || undefined,
    agentVersion: clipped(heartbeat.agent_version, 100) ?? null,
    collector: JSON.stringify(collectorOf(heartbeat)),
  };
}
