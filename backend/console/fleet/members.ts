// Reads the clusters and hosts of the fleet, and detects old keys of clusters.
import type { ApiResponses } from "../../client/api.ts";
import { wholeList } from "../state/api.ts";

export type Cluster = ApiResponses["GET /api/clusters"][number];
export type Host = ApiResponses["GET /api/v1/agents"][number];
export type Collector = NonNullable<Host["collector"]>;

/** The agents of a cluster renew its key after 30 days by default (KEY_ROTATION_DAYS): twice that age means that they did not. Hosts keep theirs. */
const OLD_KEY_MS = 60 * 86_400_000;

export async function readFleet(signal: AbortSignal): Promise<{ clusters: Cluster[]; hosts: Host[] }> {
  const [clusters, hosts] = await Promise.all([wholeList<Cluster>("/api/clusters", signal), wholeList<Host>("/api/v1/agents", signal)]);
  return { clusters: mergeClusterPages(clusters.rows), hosts: silentFirst(hosts.rows) };
}

export function isOldKey(keyCreatedAt: string | null, atMs: number): boolean {
  return keyCreatedAt !== null && atMs - Date.parse(keyCreatedAt) > OLD_KEY_MS;
}

/** Joins the parts of clusters with many nodes, which the API returns on several pages. */
function mergeClusterPages(clusters: readonly Cluster[]): Cluster[] {
  const byId = new Map<string, Cluster>();
  for (const cluster of clusters) {
    const before = byId.get(cluster.cluster_id);
    byId.set(cluster.cluster_id, before ? { ...cluster, nodes: [...before.nodes, ...cluster.nodes] } : cluster);
  }
  return silentFirst([...byId.values()]);
}

function silentFirst<T extends { readonly online: boolean; readonly last_heartbeat: string | null }>(members: readonly T[]): T[] {
  return members.toSorted((a, b) => Number(a.online) - Number(b.online) || (a.last_heartbeat ?? "").localeCompare(b.last_heartbeat ?? ""));
}
