// The part of an agent that collects for its whole cluster while it holds the Lease for that. Invariant: the state of that collector lies
// beside the one of the node's, in the folder of the same identity, so that what it has not sent is sent when this agent leads again.
import { join } from "node:path";
import { ClusterCollector, COLLECTION_LEASE, LEASE_REQUEST_MS, STOP_GRACE_MS } from "../collector/cluster-collector.ts";
import { EVENTS_FROM_VARIABLE } from "../collector/config.ts";
import { clusterConfigFromSettings } from "../collector/config-from-settings.ts";
import { EventsPlace } from "../collector/events-place.ts";
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
  const api = started.use(await kubernetesOf(cluster, { timeoutMs: LEASE_REQUEST_MS }));
  const lease = new Lease(api, {
    namespace: cluster.podNamespace,
    name: collectionLease(cluster.leaseName),
    identity: cluster.podUid,
    timing: COLLECTION_LEASE,
    log,
  });
  const ofCluster = log.child({ collects: "cluster" });
  // A way of its own: a list of events that takes too long must not take the connections of the Lease with it.
  const hasEvents = cluster.kubernetesEvents && settings.signals.includes("logs");
  const events = hasEvents ? new EventsPlace(started.use(await kubernetesOf(cluster))) : undefined;
  const env = {
    ...collectorVariables(settings),
    // Of each start of the collector, also of one after a crash.
    get [EVENTS_FROM_VARIABLE]() {
      return events?.version ?? "";
    },
  };
  const supervisor = (): Supervisor =>
    new Supervisor({
      program,
      stateDir,
      memoryMib: cluster.clusterCollectorMemoryMib,
      stopGraceMs: STOP_GRACE_MS,
      env,
      log: ofCluster,
    });
  return started.use(new ClusterCollector({ lease, name: cluster.podUid, supervisor, config, events, log: ofCluster }));
}
