// The part of an agent that collects for its whole cluster while it holds the Lease for that. Invariant: the state of that collector lies
// beside the one of the node's, in the folder of the same identity, so that what it has not sent is sent when this agent leads again.
import { join } from "node:path";
import { ClusterCollector, COLLECTION_LEASE, STOP_GRACE_MS } from "../collector/cluster-collector.ts";
import { clusterConfigFromSettings } from "../collector/config-from-settings.ts";
import { collectorVariables } from "../collector/program.ts";
import { Supervisor } from "../collector/supervisor.ts";
import type { Log } from "../log.ts";
import type { Settings } from "../settings.ts";
import { kubernetesOf } from "./start-identity.ts";

/** Undefined where nothing is to be collected for the cluster. Disposed with `started`. */
export async function startClusterCollector(
  settings: Settings,
  program: string,
  stateFolder: string,
  log: Log,
  started: AsyncDisposableStack,
): Promise<ClusterCollector | undefined> {
  const { cluster } = settings;
  const stateDir = join(stateFolder, "cluster");
  const config = clusterConfigFromSettings(settings, stateDir);
  if (!cluster || config === undefined) return undefined;
  const { collectionLease, Lease } = await import("../identity/lease.ts");
  const lease = new Lease(started.use(await kubernetesOf(cluster)), {
    namespace: cluster.podNamespace,
    name: collectionLease(cluster.leaseName),
    identity: cluster.podUid,
    timing: COLLECTION_LEASE,
    log,
  });
  const ofCluster = log.child({ collects: "cluster" });
  const supervisor = (): Supervisor =>
    new Supervisor({
      program,
      stateDir,
      memoryMib: cluster.clusterCollectorMemoryMib,
      stopGraceMs: STOP_GRACE_MS,
      env: collectorVariables(settings),
      log: ofCluster,
    });
  return started.use(new ClusterCollector({ lease, supervisor, config, log: ofCluster }));
}
