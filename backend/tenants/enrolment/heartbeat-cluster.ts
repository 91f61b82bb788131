// POST /heartbeat: marks a cluster and the sending node as online; cluster-beats.ts writes it. Invariant: the cluster is identified by the key
// alone.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { CLUSTER_HEARTBEAT_PATH, type Heartbeat, ORG_ID_HEADER } from "../../../common/protocol/enrolment.ts";
import { signerOf } from "../../auth/request-identity.ts";
import { NO_CONTENT } from "../../http/schemas.ts";
import { addRoute } from "../../http/route.ts";
import { MAX_HEARTBEAT_BYTES, MAX_INSTALLATION_LENGTH, MAX_NODES } from "../limits.ts";
import { type ClusterBeat, writeClusterBeats } from "./cluster-beats.ts";
import { HeartbeatBatcher } from "./heartbeat-batcher.ts";
import { clipped, collectorOf, HEARTBEAT_SCHEMA, intervalOf } from "./heartbeat.ts";
import type { EnrolmentDeps } from "./deps.ts";

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
