// Starts the parts that only some agents need: the host or cluster identity, the watch on the node's pods, and the collector for
// cluster-wide data. Invariants: a host agent never loads the Kubernetes client; the cluster collector keeps its state in the folder of its
// identity, so any undelivered data is sent when this agent next becomes leader.
import { hostname } from "node:os";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { ClusterCollector, COLLECTION_LEASE, LEASE_REQUEST_MS, STOP_GRACE_MS } from "../collector/cluster-collector.ts";
import { Supervisor } from "../collector/supervision/supervisor.ts";
import { type AgentIdentity, readMachineId } from "../identity/identity.ts";
import { type ClusterSettings, readEnrolmentToken, type Settings } from "../settings.ts";
import { usesPodRelay, clusterConfigFromSettings } from "../collector/config/config-from-settings.ts";
import { ALLOCATOR_VARIABLE, EVENTS_FROM_VARIABLE, KUBECONFIG_VARIABLE } from "../collector/config/collector-config.ts";
import { HASH_LABEL, OPT_OUT_ANNOTATION } from "../collector/config/fragments/kubernetes-attributes.ts";
import { POD_POLICY_ANNOTATIONS } from "../collector/config/fragments/pod-log-policies.ts";
import { SCRAPE_ANNOTATIONS } from "../collector/config/fragments/scraped-pods.ts";
import { type KnownPods, knownPods, relayedPods } from "../collector/known-pods.ts";
import type { Log } from "../log.ts";
import type { LogPolicies } from "../policies/log-policies.ts";
import type { Monitors } from "../monitors/monitors.ts";
import type { NodePods, SlimOptions } from "../pods/node-pods.ts";
import type { KubernetesApi } from "../kubernetes/api.ts";
import type { TransportOptions } from "../kubernetes/transport.ts";
import type { BackendApi } from "../upstream/backend-api.ts";
import { EventsCheckpoint } from "../collector/events-checkpoint.ts";
import { collectorVariables } from "../collector/supervision/process.ts";

interface StartedPods {
  readonly known: KnownPods;
  readonly usesRelay: boolean;
  readonly monitors?: Monitors | undefined;
  readonly policies?: LogPolicies | undefined;
  /** Environment variables for the node's collector. */
  readonly env: Readonly<Record<string, string>>;
}

/** Returns undefined outside a cluster. `started` owns the parts and disposes of them. */
export async function startPods(settings: Settings, log: Log, started: AsyncDisposableStack): Promise<StartedPods | undefined> {
  const { cluster } = settings;
  if (!cluster) return undefined;
  const api = started.use(await connectKubernetes(cluster));
  const directPods = knownPods(api, cluster.nodeName);
  const hasPolicies = cluster.logPolicies && settings.signals.includes("logs");
  const hasMonitors = cluster.prometheusOperator && settings.signals.includes("metrics");
  // hasPolicies is not checked here and below, because settings.ts rejects LOG_POLICIES without POD_RELAY.
  if (!cluster.podRelay && !hasMonitors) return { known: directPods, usesRelay: false, env: {} };
  const [{ NodePods }, { PodRelay }] = await Promise.all([import("../pods/node-pods.ts"), import("../pods/relay.ts")]);
  const policies = hasPolicies ? started.use(await startPolicies(api, log)) : undefined;
  const pods = started.use(new NodePods({ api, nodeName: cluster.nodeName, keptFields: keptPodFields(cluster), policies, log }));
  const monitors = hasMonitors ? started.use(await startMonitors(api, pods, cluster, settings, log)) : undefined;
  const relay = started.use(await PodRelay.start({ pods, nodeName: cluster.nodeName, monitors }));
  const env = { [ALLOCATOR_VARIABLE]: relay.url };
  const direct = { known: directPods, usesRelay: false, env, monitors };
  if (!cluster.podRelay) return direct;
  const file = join(settings.stateFolder ?? settings.stateDir, "pods.kubeconfig");
  try {
    writeFileSync(file, relay.kubeconfig, { mode: 0o600 });
  } catch (error) {
    if (policies) throw new Error(`log policies need the kubeconfig: ${(error as Error).message}`, { cause: error });
    // The collector reads the same pods from the API server, at the cost of more watches.
    log.warn(
      { event: "pods.kubeconfig_failed", err: (error as Error).message },
      "cannot write the kubeconfig; the collector queries the API server directly",
    );
    return direct;
  }
  const relayed = relayedPods(pods);
  // Evaluated on each check, because COLLECTOR_CONFIG_FILE can change while the agent runs.
  const known: KnownPods = { whyUnknown: (signal) => (usesPodRelay(settings) ? relayed : directPods).whyUnknown(signal) };
  return { known, usesRelay: true, env: { ...env, [KUBECONFIG_VARIABLE]: file }, monitors, policies };
}

async function startPolicies(api: KubernetesApi, log: Log): Promise<LogPolicies> {
  const { LogPolicies } = await import("../policies/log-policies.ts");
  return new LogPolicies({ api, log });
}

async function startMonitors(
  api: KubernetesApi,
  pods: NodePods,
  { monitorsAcrossNamespaces: acrossNamespaces }: ClusterSettings,
  { metricsIntervalMs: intervalMs }: Settings,
  log: Log,
): Promise<Monitors> {
  const { Monitors } = await import("../monitors/monitors.ts");
  pods.start();
  return new Monitors({ api, pods, intervalMs, acrossNamespaces, log });
}

/** Returns the pod labels and annotations that the rendered configuration uses. */
export function keptPodFields(
  settings: Pick<ClusterSettings, "podLabels" | "podAnnotations"> & Partial<Pick<ClusterSettings, "prometheusOperator" | "logPolicies">>,
): SlimOptions {
  const { podLabels, podAnnotations, prometheusOperator = false, logPolicies = false } = settings;
  const policies = logPolicies ? POD_POLICY_ANNOTATIONS : [OPT_OUT_ANNOTATION];
  // Monitors and policies can select pods by any label.
  return {
    labels: prometheusOperator || logPolicies ? "all" : [HASH_LABEL, ...podLabels],
    annotations: [...policies, ...SCRAPE_ANNOTATIONS, ...podAnnotations],
  };
}

/** `started` disposes of the identity after the collector's last flush, which still needs it. */
export async function startIdentity(
  settings: Settings,
  agentVersion: string,
  backend: BackendApi,
  log: Log,
  started: AsyncDisposableStack,
): Promise<AgentIdentity> {
  if (settings.cluster) {
    const { startClusterIdentity } = await import("../identity/cluster-identity.ts");
    const kubernetes = started.use(await connectKubernetes(settings.cluster));
    const parts = { settings: settings.cluster, kubernetes, agentVersion, backend, log };
    return started.use(await startClusterIdentity({ ...parts, token: () => readEnrolmentToken() }));
  }
  const [{ CredentialsFile }, { HostIdentity }] = await Promise.all([
    import("../credentials/file.ts"),
    import("../identity/host-identity.ts"),
  ]);
  const file = new CredentialsFile(settings.host?.credentialsFile ?? "");
  const systemId = readMachineId();
  // Without a machine ID, the host name identifies the host.
  const host = { hostname: hostname(), machine_id: systemId ?? hostname(), agent_version: agentVersion };
  return started.use(new HostIdentity({ file, token: readEnrolmentToken, host, systemId, backend, log }));
}

/** Only the cluster agent may call this: it loads the Kubernetes client. */
async function connectKubernetes(cluster: ClusterSettings, options: TransportOptions = {}): Promise<KubernetesApi> {
  const { kubernetesInPod } = await import("../kubernetes/api.ts");
  return kubernetesInPod(cluster, options);
}

/** Returns undefined if the settings enable no cluster-wide collection. `started` owns the collector and disposes of it. */
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
  const api = started.use(await connectKubernetes(cluster, { timeoutMs: LEASE_REQUEST_MS }));
  const lease = new Lease(api, {
    namespace: cluster.podNamespace,
    name: collectionLease(cluster.leaseName),
    identity: cluster.podUid,
    timing: COLLECTION_LEASE,
    log,
  });
  const clusterLog = log.child({ collects: "cluster" });
  // Uses its own connections, because a slow list of events must not block requests for the Lease.
  const hasEvents = cluster.kubernetesEvents && settings.signals.includes("logs");
  const events = hasEvents ? new EventsCheckpoint(started.use(await connectKubernetes(cluster))) : undefined;
  const env = {
    ...collectorVariables(settings),
    // A getter, because the value is read on each start of the collector, including restarts after a crash.
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
      log: clusterLog,
    });
  return started.use(new ClusterCollector({ lease, name: cluster.podUid, supervisor, config, events, log: clusterLog }));
}
