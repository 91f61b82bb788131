// POST /heartbeat: keeps a cluster, and the node that sent it, marked online. Invariant: which cluster it is comes from the key alone.
// Registered by routes.ts.
import type { FastifyInstance } from "fastify";
import { CLUSTER_HEARTBEAT_PATH, type Heartbeat, ORG_ID_HEADER } from "../../agent/protocol/enrolment.ts";
import { clipped, collectorOf, HEARTBEAT_SCHEMA, intervalOf } from "./heartbeat.ts";
import type { EnrolmentDeps } from "./routes.ts";
import { bodyIsOptional, NOTHING, signer } from "./schema.ts";

/** Nodes come and go with a cluster's autoscaler: those that are silent for this long are forgotten when another one appears. */
const NODE_FORGOTTEN_MS = 24 * 60 * 60_000;

const schema = {
  summary: "A cluster's agent is alive",
  description: "The body is optional and informational.",
  tags: ["enrolment"],
  security: [{ signature: [] }],
  body: HEARTBEAT_SCHEMA,
  response: NOTHING,
} as const;

export function registerClusterHeartbeat(app: FastifyInstance, { db, guards, now }: EnrolmentDeps): void {
  app.post<{ Body: Heartbeat }>(
    CLUSTER_HEARTBEAT_PATH,
    { schema, onRequest: guards.signed("cluster"), preValidation: bodyIsOptional },
    async (request, reply) => {
      const heartbeat = request.body;
      const id = signer(request).hostId;
      const at = new Date(now());
      await db
        .updateTable("clusters")
        .set({ last_heartbeat: at, heartbeat_interval_s: intervalOf(heartbeat) })
        .where("id", "=", id)
        .execute();
      const node = clipped(heartbeat.node, 253);
      if (node) await rememberNode(id, node, heartbeat, at);
      return await reply.code(204).header(ORG_ID_HEADER, signer(request).orgId).send();
    },
  );

  async function rememberNode(clusterId: string, name: string, heartbeat: Heartbeat, at: Date): Promise<void> {
    const report = {
      agent_version: clipped(heartbeat.agent_version, 100) ?? null,
      last_heartbeat: at,
      collector: JSON.stringify(collectorOf(heartbeat)),
    };
    const updated = await db
      .updateTable("cluster_nodes")
      .set(report)
      .where("cluster_id", "=", clusterId)
      .where("name", "=", name)
      .executeTakeFirst();
    if (updated.numUpdatedRows > 0n) return;
    const forgotten = new Date(at.getTime() - NODE_FORGOTTEN_MS);
    await db.deleteFrom("cluster_nodes").where("cluster_id", "=", clusterId).where("last_heartbeat", "<", forgotten).execute();
    await db
      .insertInto("cluster_nodes")
      .values({ cluster_id: clusterId, name, ...report })
      .onConflict((conflict) => conflict.columns(["cluster_id", "name"]).doUpdateSet(report))
      .execute();
  }
}
