// POST /heartbeat: keeps a cluster, and the node that sent it, marked online. Invariant: which cluster it is comes from the key alone;
// a cluster has a bounded number of nodes, whatever names its key gives.
import type { FastifyInstance } from "fastify";
import { CLUSTER_HEARTBEAT_PATH, type Heartbeat, ORG_ID_HEADER } from "../../agent/protocol/enrolment.ts";
import { ApiError } from "../errors.ts";
import { clipped, collectorOf, HEARTBEAT_BYTES, HEARTBEAT_SCHEMA, intervalOf } from "./heartbeat.ts";
import type { EnrolmentDeps } from "./deps.ts";
import { bodyIsOptional, MAX_INSTALLATION, NOTHING, signer } from "./schema.ts";

/** Nodes come and go with a cluster's autoscaler: those that are silent for this long are forgotten when another one appears. */
const NODE_FORGOTTEN_MS = 24 * 60 * 60_000;
/** Kubernetes itself is made for as many. */
export const MAX_NODES = 5000;

const schema = {
  summary: "A cluster's agent is alive",
  description: "The body is optional and informational.",
  described: { bodyIsOptional: true },
  tags: ["enrolment"],
  security: [{ signature: [] }],
  body: HEARTBEAT_SCHEMA,
  response: NOTHING,
} as const;

export function registerClusterHeartbeat(app: FastifyInstance, { db, guards, now, maxNodes = MAX_NODES }: EnrolmentDeps): void {
  app.post<{ Body: Heartbeat }>(
    CLUSTER_HEARTBEAT_PATH,
    { schema, bodyLimit: HEARTBEAT_BYTES, onRequest: guards.signed("cluster"), preValidation: bodyIsOptional },
    async (request, reply) => {
      const heartbeat = request.body;
      const id = signer(request).hostId;
      const at = new Date(now());
      const installation = clipped(heartbeat.installation, MAX_INSTALLATION);
      await db
        .updateTable("clusters")
        .set({ last_heartbeat: at, heartbeat_interval_s: intervalOf(heartbeat) })
        // Of a cluster that was registered before installations named themselves; one that did is not renamed by a key in overlap.
        .$if(Boolean(installation), (update) =>
          update.set((is) => ({ installation: is.fn.coalesce(is.ref("installation"), is.val(installation ?? null)) })),
        )
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
    await db.transaction().execute(async (trx) => {
      // New nodes of one cluster come one after the other, so that the bound holds.
      await trx.selectFrom("clusters").select("id").where("id", "=", clusterId).forUpdate().execute();
      const forgotten = new Date(at.getTime() - NODE_FORGOTTEN_MS);
      await trx.deleteFrom("cluster_nodes").where("cluster_id", "=", clusterId).where("last_heartbeat", "<", forgotten).execute();
      const { nodes } = await trx
        .selectFrom("cluster_nodes")
        .select((select) => select.fn.countAll().as("nodes"))
        .where("cluster_id", "=", clusterId)
        .executeTakeFirstOrThrow();
      if (Number(nodes) >= maxNodes)
        throw new ApiError("limit_reached", `this cluster has ${maxNodes} nodes already; one that is silent for a day makes room`);
      await trx
        .insertInto("cluster_nodes")
        .values({ cluster_id: clusterId, name, ...report })
        .onConflict((conflict) => conflict.columns(["cluster_id", "name"]).doUpdateSet(report))
        .execute();
    });
  }
}
