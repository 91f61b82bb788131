// Writes heartbeats of the clusters and nodes of one organisation in a few statements. Invariant: a cluster has a limited number of nodes,
// whatever names its key sends; a node beyond the limit is refused without affecting the rest of the write.
import type { Kysely, Transaction } from "kysely";
import { ApiError } from "../../errors.ts";
import type { EnrolmentTables } from "./enrolment-tables.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

/** Autoscalers replace nodes: nodes without a heartbeat for this time are deleted when a new one appears. */
const FORGET_NODE_AFTER_MS = 24 * 60 * 60_000;

/** A heartbeat after clipping. */
export interface ClusterBeat {
  readonly clusterId: string;
  readonly at: Date;
  readonly intervalS: number;
  readonly installation: string | undefined;
  readonly node: string | undefined;
  readonly agentVersion: string | null;
  /** JSON text. */
  readonly collector: string;
  readonly configInForce: string | null;
  readonly configError: string | null;
}

/** The heartbeat of a node, with its key in the batch. */
interface NodeBeat extends ClusterBeat {
  readonly batchKey: string;
  readonly node: string;
}

interface Cluster {
  readonly id: string;
  readonly installation: string | null;
}

type Db = Transaction<EnrolmentTables>;

/** Returns the refused heartbeats, of nodes beyond `maxNodes` of their cluster. */
export async function writeClusterBeats(
  db: Kysely<EnrolmentTables>,
  orgId: string,
  beats: ReadonlyMap<string, ClusterBeat>,
  maxNodes: number,
): Promise<Map<string, ApiError>> {
  const byCluster = Map.groupBy([...beats], ([, { clusterId }]) => clusterId);
  const refused = new Map<string, ApiError>();
  await db.transaction().execute(async (trx) => {
    // The lock enforces the limit of nodes, and its order prevents deadlocks between replicas. Removed clusters are not found.
    const tenantTrx = tenantDatabase(trx, orgId);
    const clusters = await tenantTrx
      .selectFrom("clusters")
      .select(["id", "installation"])
      .where("id", "in", [...byCluster.keys()])
      .orderBy("id")
      .forUpdate()
      .execute();
    await writeClusters(tenantTrx, clusters, byCluster);
    const known = await findKnownNodes(tenantTrx, [...beats.values()]);
    const admitted: NodeBeat[] = [];
    for (const { id } of clusters) {
      const nodes = (byCluster.get(id) ?? []).flatMap(([batchKey, beat]) =>
        beat.node === undefined ? [] : [{ ...beat, batchKey, node: beat.node }],
      );
      const [knownBeats, newBeats] = [nodes.filter((beat) => known.has(nodeKey(beat))), nodes.filter((beat) => !known.has(nodeKey(beat)))];
      const free = newBeats.length === 0 ? 0 : await countFreeNodes(tenantTrx, id, nodes, maxNodes);
      admitted.push(...knownBeats, ...newBeats.slice(0, free));
      for (const { batchKey } of newBeats.slice(free)) refused.set(batchKey, tooManyNodes(maxNodes));
    }
    // Not by `tenantTrx`, because cluster_nodes has no org_id for it to check. These clusters were just read through it.
    if (admitted.length > 0) await writeNodes(trx, admitted);
  });
  return refused;
}

/** One statement per heartbeat interval. */
async function writeClusters(
  trx: Db,
  clusters: readonly Cluster[],
  byCluster: ReadonlyMap<string, [string, ClusterBeat][]>,
): Promise<void> {
  const newest = clusters.flatMap(({ id }) => (byCluster.get(id) ?? []).map(([, beat]) => beat).slice(-1));
  for (const [intervalS, beats] of Map.groupBy(newest, (beat) => beat.intervalS)) {
    await trx
      .updateTable("clusters")
      .set({ last_heartbeat: latestTime(beats), heartbeat_interval_s: intervalS })
      .where(
        "id",
        "in",
        beats.map((beat) => beat.clusterId),
      )
      .execute();
  }
  // Only for a cluster without an installation name: a key in overlap must not rename an installation.
  for (const { id } of clusters.filter((cluster) => cluster.installation === null)) {
    const installation = (byCluster.get(id) ?? []).find(([, beat]) => beat.installation !== undefined)?.[1].installation;
    if (installation === undefined) continue;
    await trx.updateTable("clusters").set({ installation }).where("id", "=", id).execute();
  }
}

async function findKnownNodes(trx: Db, beats: readonly ClusterBeat[]): Promise<Set<string>> {
  const names = [...new Set(beats.flatMap(({ node }) => node ?? []))];
  if (names.length === 0) return new Set();
  const ids = [...new Set(beats.map(({ clusterId }) => clusterId))];
  const rows = await trx
    .selectFrom("cluster_nodes")
    .select(["cluster_id", "name"])
    .where("cluster_id", "in", ids)
    .where("name", "in", names)
    .execute();
  return new Set(rows.map(({ cluster_id: clusterId, name }) => nodeKey({ clusterId, node: name })));
}

/** Deletes silent nodes that are not in `nodes`, then returns how many new nodes the cluster may have. */
async function countFreeNodes(trx: Db, clusterId: string, nodes: readonly NodeBeat[], maxNodes: number): Promise<number> {
  await trx
    .deleteFrom("cluster_nodes")
    .where("cluster_id", "=", clusterId)
    .where("last_heartbeat", "<", new Date(latestTime(nodes).getTime() - FORGET_NODE_AFTER_MS))
    .where(
      "name",
      "not in",
      nodes.map((beat) => beat.node),
    )
    .execute();
  const { count } = await trx
    .selectFrom("cluster_nodes")
    .select((select) => select.fn.countAll().as("count"))
    .where("cluster_id", "=", clusterId)
    .executeTakeFirstOrThrow();
  return Math.max(0, maxNodes - Number(count));
}

async function writeNodes(trx: Db, beats: readonly NodeBeat[]): Promise<void> {
  const rows = beats.map(({ clusterId, node, agentVersion, at, collector, configInForce, configError }) => ({
    cluster_id: clusterId,
    name: node,
    agent_version: agentVersion,
    last_heartbeat: at,
    collector,
    config_in_force: configInForce,
    config_error: configError,
  }));
  await trx
    .insertInto("cluster_nodes")
    .values(rows)
    .onConflict((conflict) =>
      conflict.columns(["cluster_id", "name"]).doUpdateSet((row) => ({
        agent_version: row.ref("excluded.agent_version"),
        last_heartbeat: row.ref("excluded.last_heartbeat"),
        collector: row.ref("excluded.collector"),
        config_in_force: row.ref("excluded.config_in_force"),
        config_error: row.ref("excluded.config_error"),
      })),
    )
    .execute();
}

function latestTime(beats: readonly ClusterBeat[]): Date {
  return new Date(Math.max(...beats.map(({ at }) => at.getTime())));
}

function nodeKey({ clusterId, node }: { clusterId: string; node: string }): string {
  return `${clusterId}/${node}`;
}

function tooManyNodes(maxNodes: number): ApiError {
  return new ApiError(
    "limit_reached",
    `this cluster already has ${maxNodes} nodes, which is the limit; silent nodes are replaced after a day`,
  );
}
