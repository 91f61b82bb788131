// The parts of the agent that run now, what /status and heartbeats report of them, and the start of those that only some agents have: pods of
// the node, identity of a host or a cluster, collector for the cluster. Invariant: a part that does not run is undefined and not reported.
import { hostname } from "node:os";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { ClusterCollector, COLLECTION_LEASE, LEASE_REQUEST_MS, STOP_GRACE_MS } from "../collector/cluster-collector.ts";
import type { EffectiveConfig } from "../collector/effective-config.ts";
import type { Adjustment, RemoteConfigLoop } from "../collector/config/remote-config.ts";
import { Supervisor } from "../collector/supervision/supervisor.ts";
import { type AgentIdentity, installationOf, readMachineId } from "../identity/identity.ts";
import type { LogFiles } from "../collector/files/log-files.ts";
import type { LogFilesWatchdog } from "../collector/files/watchdog.ts";
import { CLUSTER_HEARTBEAT_PATH, type Heartbeat, HOST_HEARTBEAT_PATH } from "../../common/protocol/enrolment.ts";
import type { Proxy } from "../proxy/server.ts";
import { type ClusterSettings, type Identity, readInstallToken, type Secrets, type Settings } from "../settings.ts";
import type { ClaimedState, StateStatus } from "../state/state-dir.ts";
import { HeartbeatLoop, type HeartbeatOptions } from "../status/heartbeat.ts";
import type { HealthSource } from "../status/metrics.ts";
import type { BackendClock } from "../upstream/clock.ts";
import { asksAgentForPods, clusterConfigFromSettings } from "../collector/config/config-from-settings.ts";
import { EVENTS_FROM_VARIABLE, KUBECONFIG_VARIABLE } from "../collector/config/collector-config.ts";
import { OPT_OUT_ANNOTATION } from "../collector/config/fragments/kubernetes-attributes.ts";
import { SCRAPE_ANNOTATIONS } from "../collector/config/fragments/scraped-pods.ts";
import { type KnownPods, knownPods, relayedPods } from "../collector/known-pods.ts";
import type { Log } from "../log.ts";
import type { SlimOptions } from "../pods/node-pods.ts";
import type { KubernetesApi } from "../kubernetes/api.ts";
import type { TransportOptions } from "../kubernetes/transport.ts";
import type { BackendApi } from "../upstream/backend-api.ts";
import { EventsCheckpoint } from "../collector/events-checkpoint.ts";
import { collectorVariables } from "../collector/supervision/process.ts";

export interface Parts {
  identity?: AgentIdentity;
  heartbeat?: HeartbeatLoop;
  /** These are of one identity, and there is none of them while it is not known whose the state on this node is. */
  state?: ClaimedState | undefined;
  proxy?: Proxy | undefined;
  supervisor?: Supervisor | undefined;
  logFiles?: LogFiles | undefined;
  logFilesWatchdog?: LogFilesWatchdog | undefined;
  effectiveConfig?: EffectiveConfig | undefined;
  clusterCollector?: ClusterCollector | undefined;
  remote?: RemoteConfigLoop | undefined;
  stateStatus?: StateStatus;
  /** What remote configuration has in force. */
  adjustment: Adjustment;
}

export function healthSource({ program, version }: Program, settings: Settings, clock: BackendClock, parts: Parts): HealthSource {
  const startedAt = new Date().toISOString();
  return {
    status: () => ({
      program,
      version,
      startedAt,
      signals: parts.adjustment.signals ?? settings.signals,
      clockSkewS: clock.skewS(),
      identity: parts.identity?.status(),
      state: parts.stateStatus && { ...parts.stateStatus, owner: parts.state?.owner },
      heartbeat: parts.heartbeat?.status(),
      collector: parts.supervisor?.status(),
      clusterCollector: parts.clusterCollector?.status(),
      waitsFor: parts.effectiveConfig?.waitsFor,
      telemetry: parts.proxy?.status(),
      logFiles: parts.logFiles?.status(),
      failing: parts.logFilesWatchdog?.failing(),
      remoteConfig: parts.remote?.status(),
    }),
    collectorHealthy: async () => (await parts.supervisor?.healthy()) ?? false,
    collectorMetricsUrl: () => parts.supervisor?.metricsUrl,
  };
}

export function startHeartbeat(
  settings: Settings,
  version: string,
  { identity, backend, refusedKey, log }: Pick<HeartbeatOptions, "identity" | "backend" | "refusedKey" | "log">,
  parts: Parts,
): HeartbeatLoop {
  const intervalMs = (): number => parts.adjustment.heartbeatIntervalMs ?? settings.heartbeatIntervalMs;
  const body = (): Heartbeat => {
    const collector = parts.supervisor?.status();
    const last_error = (collector?.configError ?? parts.effectiveConfig?.waitsFor ?? collector?.lastError)?.slice(0, 1000);
    return {
      node: settings.cluster?.nodeName ?? hostname(),
      agent_version: version,
      interval_s: Math.ceil(intervalMs() / 1000),
      ...(settings.cluster && { installation: installationOf(settings.cluster) }),
      ...(collector && { collector: { state: collector.state, restarts: collector.restarts, last_error } }),
      ...(parts.remote && { config: parts.remote.status() }),
    };
  };
  const path = settings.cluster ? CLUSTER_HEARTBEAT_PATH : HOST_HEARTBEAT_PATH;
  const onOrg = (id: string, org: string): void => parts.state?.noteOrg(id, org);
  return new HeartbeatLoop({ path, identity, backend, intervalMs, body, onOrg, refusedKey, log });
}

export interface Program {
  readonly identity: Identity;
  readonly program: string;
  readonly version: string;
}

// Starts the parts that only some agents have: the identity of a host or a cluster, the pods of the node, the collector for the whole
// cluster. Invariants: a host agent never loads the Kubernetes API; the state of the cluster's collector is in the folder of the same
// identity, so what it has not sent is sent when this agent leads again.

export interface StartedPods {
  readonly known: KnownPods;
  readonly asksAgent: boolean;
  /** Of the collector of the node. */
  readonly env: Readonly<Record<string, string>>;
}

/** Undefined outside of a cluster. Disposed with `started`. */
export async function startPods(settings: Settings, log: Log, started: AsyncDisposableStack): Promise<StartedPods | undefined> {
  const { cluster } = settings;
  if (!cluster) return undefined;
  const api = started.use(await kubernetesOf(cluster));
  const asked = knownPods(api, cluster.nodeName);
  const direct = { known: asked, asksAgent: false, env: {} };
  if (!cluster.podRelay) return direct;
  const [{ NodePods }, { PodRelay }] = await Promise.all([import("../pods/node-pods.ts"), import("../pods/relay.ts")]);
  const pods = started.use(new NodePods({ api, nodeName: cluster.nodeName, kept: keptOfPods(cluster), log }));
  const relay = started.use(await PodRelay.start({ pods, nodeName: cluster.nodeName }));
  const file = join(settings.stateFolder ?? settings.stateDir, "pods.kubeconfig");
  try {
    writeFileSync(file, relay.kubeconfig, { mode: 0o600 });
  } catch (error) {
    // Safe: the same pods, by more watches.
    log.warn(
      { event: "pods.kubeconfig_failed", err: (error as Error).message },
      "cannot write the kubeconfig; the collector queries the API server directly",
    );
    return direct;
  }
  const relayed = relayedPods(pods);
  // Decided anew at each check: COLLECTOR_CONFIG_FILE changes while the agent runs.
  const known: KnownPods = { whyUnknown: (signal) => (asksAgentForPods(settings) ? relayed : asked).whyUnknown(signal) };
  return { known, asksAgent: true, env: { [KUBECONFIG_VARIABLE]: file } };
}

/** What the rendered configuration asks of a pod. */
export function keptOfPods({ podLabels, podAnnotations }: Pick<ClusterSettings, "podLabels" | "podAnnotations">): SlimOptions {
  return { labels: podLabels, annotations: [OPT_OUT_ANNOTATION, ...SCRAPE_ANNOTATIONS, ...podAnnotations] };
}

/** Stopped with `started`, so after the collector's last flush, which still needs it. */
export async function startIdentity(
  settings: Settings,
  secrets: Secrets,
  agentVersion: string,
  backend: BackendApi,
  log: Log,
  started: AsyncDisposableStack,
): Promise<AgentIdentity> {
  if (settings.cluster) {
    const { startClusterIdentity } = await import("../identity/cluster-identity.ts");
    const kubernetes = started.use(await kubernetesOf(settings.cluster));
    const parts = { settings: settings.cluster, kubernetes, agentVersion, backend, log };
    return started.use(await startClusterIdentity({ ...parts, installToken: () => readInstallToken() }));
  }
  const [{ CredentialsFile }, { startHostIdentity }] = await Promise.all([
    import("../credentials/file.ts"),
    import("../identity/host-identity.ts"),
  ]);
  const file = new CredentialsFile(settings.host?.credentialsFile ?? "");
  const systemId = readMachineId();
  // The name identifies the host if the system has no id.
  const host = { hostname: hostname(), machine_id: systemId ?? hostname(), agent_version: agentVersion };
  return started.use(startHostIdentity({ file, installToken: secrets.installToken, host, systemId, backend, log }));
}

/** Loaded by the cluster agent only. */
export async function kubernetesOf(cluster: ClusterSettings, options: TransportOptions = {}): Promise<KubernetesApi> {
  const { kubernetesInPod } = await import("../kubernetes/api.ts");
  return kubernetesInPod(cluster, options);
}

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
  const events = hasEvents ? new EventsCheckpoint(started.use(await kubernetesOf(cluster))) : undefined;
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
