// Writes heartbeats of one organisation's clusters and their nodes: a few statements, however many they are. Invariant: a cluster has a
// bounded number of nodes, whatever names its key gives; a node that finds no room is refused, and nothing else of the same write.
import type { Kysely, Transaction } from "kysely";
import { ApiError } from "../errors.ts";
import type { EnrolmentTables } from "./table.ts";
import { tenantDatabase } from "../engines/relational/tenant-database.ts";

/** Nodes come and go with a cluster's autoscaler: those that are silent for this long are forgotten when another one appears. */
const NODE_FORGOTTEN_MS = 24 * 60 * 60_000;
/** Kubernetes itself is made for as many. */
export const MAX_NODES = 5000;

/** A heartbeat as it is kept: clipped, in bounds. */
export interface ClusterBeat {
  readonly clusterId: string;
  readonly at: Date;
  readonly intervalS: number;
  readonly installation: string | undefined;
  readonly node: string | undefined;
  readonly agentVersion: string | null;
  /** JSON text. */
  readonly collector: string;
}

/** With the name under which it waits to be written. */
interface NodeBeat extends ClusterBeat {
  readonly of: string;
  readonly node: string;
}

interface Cluster {
  readonly id: string;
  readonly installation: string | null;
}

type Db = Transaction<EnrolmentTables>;

/** Answers the heartbeats of nodes beyond `maxNodes` of their cluster. */
export async function writeClusterBeats(
  db: Kysely<EnrolmentTables>,
  orgId: string,
  beats: ReadonlyMap<string, ClusterBeat>,
  maxNodes: number,
): Promise<Map<string, ApiError>> {
  const byCluster = Map.groupBy([...beats], ([, { clusterId }]) => clusterId);
  const refused = new Map<string, ApiError>();
  await db.transaction().execute(async (trx) => {
    // New nodes of one cluster come one after the other, so that the bound holds; in one order, so that replicas never wait for each
    // other. A cluster that was removed meanwhile is not among them.
    const own = tenantDatabase(trx, orgId);
    const clusters = await own
      .selectFrom("clusters")
      .select(["id", "installation"])
      .where("id", "in", [...byCluster.keys()])
      .orderBy("id")
      .forUpdate()
      .execute();
    await writeClusters(own, clusters, byCluster);
    const known = await knownNodes(own, [...beats.values()]);
    const kept: NodeBeat[] = [];
    for (const { id } of clusters) {
      const nodes = (byCluster.get(id) ?? []).flatMap(([of, beat]) => (beat.node === undefined ? [] : [{ ...beat, of, node: beat.node }]));
      const [old, fresh] = [nodes.filter((beat) => known.has(nodeKey(beat))), nodes.filter((beat) => !known.has(nodeKey(beat)))];
      const room = fresh.length === 0 ? 0 : await roomBeside(own, id, nodes, maxNodes);
      kept.push(...old, ...fresh.slice(0, room));
      for (const { of } of fresh.slice(room)) refused.set(of, full(maxNodes));
    }
    // Not by `own`, which cannot check whose cluster a new row names: these are of the clusters that it has just read.
    if (kept.length > 0) await writeNodes(trx, kept);
  });
  return refused;
}

/** One statement for all that name the same interval. */
async function writeClusters(
  trx: Db,
  clusters: readonly Cluster[],
  byCluster: ReadonlyMap<string, [string, ClusterBeat][]>,
): Promise<void> {
  const newest = clusters.flatMap(({ id }) => (byCluster.get(id) ?? []).map(([, beat]) => beat).slice(-1));
  for (const [intervalS, beats] of Map.groupBy(newest, (beat) => beat.intervalS)) {
    await trx
      .updateTable("clusters")
      .set({ last_heartbeat: latest(beats), heartbeat_interval_s: intervalS })
      .where(
        "id",
        "in",
        beats.map((beat) => beat.clusterId),
      )
      .execute();
  }
  // Of a cluster that was registered before installations named themselves; one that did is not renamed by a key in overlap.
  for (const { id } of clusters.filter((cluster) => cluster.installation === null)) {
    const named = (byCluster.get(id) ?? []).find(([, beat]) => beat.installation !== undefined)?.[1];
    if (named?.installation === undefined) continue;
    await trx.updateTable("clusters").set({ installation: named.installation }).where("id", "=", id).execute();
  }
}

async function knownNodes(trx: Db, beats: readonly ClusterBeat[]): Promise<Set<string>> {
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

/** How many new nodes the cluster may have, once those that have been silent for long, and are not of `nodes`, are forgotten. */
async function roomBeside(trx: Db, clusterId: string, nodes: readonly NodeBeat[], maxNodes: number): Promise<number> {
  await trx
    .deleteFrom("cluster_nodes")
    .where("cluster_id", "=", clusterId)
    .where("last_heartbeat", "<", new Date(latest(nodes).getTime() - NODE_FORGOTTEN_MS))
    .where(
      "name",
      "not in",
      nodes.map((beat) => beat.node),
    )
    .execute();
  const { there } = await trx
    .selectFrom("cluster_nodes")
    .select((select) => select.fn.countAll().as("there"))
    .where("cluster_id", "=", clusterId)
    .executeTakeFirstOrThrow();
  return Math.max(0, maxNodes - Number(there));
}

async function writeNodes(trx: Db, beats: readonly NodeBeat[]): Promise<void> {
  const rows = beats.map(({ clusterId, node, agentVersion, at, collector }) => ({
    cluster_id: clusterId,
    name: node,
    agent_version: agentVersion,
    last_heartbeat: at,
    collector,
  }));
  await trx
    .insertInto("cluster_nodes")
    .values(rows)
    .onConflict((conflict) =>
      conflict.columns(["cluster_id", "name"]).doUpdateSet((row) => ({
        agent_version: row.ref("excluded.agent_version"),
        last_heartbeat: row.ref("excluded.last_heartbeat"),
        collector: row.ref("excluded.collector"),
      })),
    )
    .execute();
}

function latest(beats: readonly ClusterBeat[]): Date {
  return new Date(Math.max(...beats.map(({ at }) => at.getTime())));
}

function nodeKey({ clusterId, node }: { clusterId: string; node: string }): string {
  return `${clusterId}/${node}`;
}

function full(maxNodes: number): ApiError {
  return new ApiError("limit_reached", `this cluster has ${maxNodes} nodes already; one that is silent for a day makes room`);
}
