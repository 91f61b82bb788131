// Builds the collector's configuration from the settings: selects the fragments that this agent needs, and merges the operator's
// COLLECTOR_CONFIG_FILE (the overlay).
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import type { Adjustment } from "./remote-config.ts";
import type { ClusterSettings, HostSettings, Settings } from "../../settings.ts";
import {
  ALLOCATOR_VARIABLE,
  clusterCollectorConfig,
  collectorConfig,
  type CollectorInput,
  KUBECONFIG_VARIABLE,
} from "./collector-config.ts";
import { POD_ATTRIBUTE_PROCESSORS, type KubernetesInput } from "./fragments/kubernetes-attributes.ts";
import type { NodeParsing } from "./fragments/file-lines.ts";
import { type NamespaceLogs, PODS_RECEIVER } from "./fragments/pod-logs.ts";
import type { LogPathRules } from "../files/log-paths.ts";
import { changesComponent, changesFileLogs, CollectorConfigError, namesFileReaders, renderCollectorConfig } from "./render.ts";

/** Inputs that are not settings. */
interface RuntimeInputs {
  /** Settings that the remote configuration overrides. */
  readonly adjustment?: Adjustment;
  /** Host agent: number of open log files. */
  readonly openLogFiles?: number;
  /** Cluster agent: false while the node's pods are unknown. Pod logs are not read then; OTLP is still accepted. */
  readonly knowsPods?: boolean;
  /** Cluster agent: log settings from namespace annotations. */
  readonly namespaceLogs?: readonly NamespaceLogs[];
  /** Cluster agent: false if the collector gets pods from the API server instead of the agent. Default: `usesPodRelay`. */
  readonly usesRelay?: boolean;
}

/** Returns the collector's configuration as YAML. Reads COLLECTOR_CONFIG_FILE. Throws CollectorConfigError. */
export function configFromSettings(
  settings: Settings,
  { adjustment = {}, openLogFiles = 0, knowsPods = true, namespaceLogs = [], usesRelay = usesPodRelay(settings) }: RuntimeInputs = {},
): string {
  // The collector may wait for pods only if the agent knows them: otherwise, it would hang while the Kubernetes API does not respond.
  const input = settings.cluster
    ? clusterInput(settings, settings.cluster, { waitForPods: knowsPods, usesRelay }, { adjustment, namespaceLogs })
    : hostInput(settings, adjustment, openLogFiles);
  const { cluster, collectorConfigFile: file, allowOtherExporters } = settings;
  if (cluster?.logPolicies && !usesRelay)
    throw new CollectorConfigError(
      "LOG_POLICIES cannot be combined with a COLLECTOR_CONFIG_FILE that changes how pods are looked up; remove one of them",
    );
  const overlay = file === undefined ? undefined : { text: readOverlay(file), allowOtherExporters };
  return renderCollectorConfig(collectorConfig(input), overlay, knowsPods ? [] : [PODS_RECEIVER]);
}

/**
 * Returns whether the node's collector gets pods from its agent instead of the API server. False if POD_RELAY is off, or if
 * COLLECTOR_CONFIG_FILE changes a processor that looks up pods, because that processor may then need fields that the agent does not keep.
 * Reads COLLECTOR_CONFIG_FILE.
 */
export function usesPodRelay({ cluster, collectorConfigFile: file }: Settings): boolean {
  if (!cluster?.podRelay) return false;
  try {
    return file === undefined || !changesComponent(readOverlay(file), "processors", POD_ATTRIBUTE_PROCESSORS);
  } catch {
    // An invalid file is never applied, and rendering reports the error.
    return true;
  }
}

/** Returns whether the collector reads the files that the settings select: COLLECTOR_CONFIG_FILE may select others. Reads that file. */
export function readsFilesAsRendered({ collectorConfigFile: file }: Settings): boolean {
  try {
    return file === undefined || !namesFileReaders(readOverlay(file));
  } catch {
    // The collector runs with an earlier configuration, which may have selected others.
    return false;
  }
}

/**
 * Returns the YAML for the cluster collector, which keeps its state in `stateDir`; undefined if it has nothing to collect.
 * COLLECTOR_CONFIG_FILE applies only to node collectors.
 */
export function clusterConfigFromSettings(settings: Settings, stateDir: string): string | undefined {
  const { cluster, signals } = settings;
  const state = cluster?.clusterState && signals.includes("metrics");
  const events = cluster?.kubernetesEvents === true && signals.includes("logs");
  if (!cluster || (!state && !events)) return undefined;
  const config = clusterCollectorConfig({
    ...commonInput({ ...settings, stateFolder: stateDir }, {}),
    memoryMib: cluster.clusterCollectorMemoryMib,
    resource: { "k8s.cluster.name": cluster.clusterName },
    state: state ? { intervalMs: Math.min(settings.metricsIntervalMs, MAX_STATE_INTERVAL_MS) } : undefined,
    events,
  });
  return renderCollectorConfig(config);
}

/**
 * If the node with the cluster collector is lost, the gap in the metrics must be shorter than 30 s: another agent acquires the Lease within
 * 14 s, and its collector first reports cluster state one interval after it starts (calculated in stand-by.test.ts).
 */
const MAX_STATE_INTERVAL_MS = 10_000;

/** Returns which log files the agent may read on this host. Its own state and credentials are always excluded. */
export function logPathRules(settings: Settings, host: HostSettings): LogPathRules {
  return { allowed: host.logPathsAllowed, forbidden: [settings.stateDir, host.credentialsFile] };
}

/** Returns the folder with the links through which the collector reads a host's log files. */
export function logFilesFolder({ stateFolder, stateDir }: Settings): string {
  return `${stateFolder ?? stateDir}/log-files`;
}

/** With more open log files than this, the collector polls them less often and reads fewer at once. */
export const MANY_LOG_FILES = 2000;

/**
 * Each pass costs the collector (v0.149) about 160 µs of CPU per file, even if the file is idle, so the poll interval grows with the number
 * of files: 2 s per 1,000 files, which is 8% of a core.
 */
export function filesPollIntervalMs(openFiles: number): number {
  if (openFiles <= MANY_LOG_FILES) return 1000;
  return Math.min(20_000, 1000 * Math.round(openFiles / 500));
}

function readOverlay(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new CollectorConfigError(`cannot read COLLECTOR_CONFIG_FILE: ${(error as Error).message}`, { cause: error });
  }
}

/** Paths of conditions (OTTL) on the resource, and texts, which are no paths. */
const NO_LINE = /"(?:[^"\\]|\\.)*"|\bresource\.\w+/g;

/**
 * Returns what of each line the collector has to parse: fields that the operator's conditions compare, or everything if the operator's own
 * components may read lines. Otherwise, the backend parses lines, which costs the node nothing.
 */
function nodeParsing({ redact, drop, collectorConfigFile: file }: Settings): NodeParsing {
  if (file !== undefined && changesFileLogs(readOverlay(file))) return "fields";
  const conditions = drop.logs.map((condition) => condition.replaceAll(NO_LINE, ""));
  // What is redacted may be a part of JSON, which cannot be parsed afterwards.
  if (redact.length > 0 || conditions.some((condition) => /severity|trace|span|time/i.test(condition))) return "fields";
  return conditions.some((condition) => /\b(?:log|body|attributes)\b/.test(condition)) ? "text" : "nothing";
}

function commonInput(settings: Settings, adjustment: Adjustment): Omit<CollectorInput, "resource" | "otlp" | "hostMetrics"> {
  return {
    proxy: settings.proxy,
    stateDir: settings.stateFolder ?? settings.stateDir,
    signals: adjustment.signals ?? settings.signals,
    queueBytes: settings.queueMib * 1024 * 1024,
    queueFsync: settings.queueFsync,
    memoryMib: settings.collectorMemoryMib,
    logLevel: adjustment.logLevel ?? settings.logLevel,
    compression: settings.compression,
    edits: { redact: settings.redact, drop: settings.drop, tracesSamplePercent: settings.tracesSamplePercent },
  };
}

function hostInput(settings: Settings, adjustment: Adjustment, openLogFiles: number): CollectorInput {
  const { logPaths = [], journal } = settings.host ?? {};
  return {
    ...commonInput(settings, adjustment),
    resource: { "host.name": hostname() },
    otlp: { grpc: settings.otlpGrpc, http: settings.otlpHttp },
    hostMetrics: {
      intervalMs: adjustment.metricsIntervalMs ?? settings.metricsIntervalMs,
      root: "/",
      hasHostNetwork: true,
      hasFileSystems: true,
    },
    files:
      (adjustment.logPaths ?? logPaths).length === 0
        ? undefined
        : {
            folder: logFilesFolder(settings),
            maxAgeMs: settings.logMaxAgeMs,
            pollIntervalMs: filesPollIntervalMs(openLogFiles),
            hasManyFiles: openLogFiles > MANY_LOG_FILES,
            multilineStart: settings.logMultilineStart,
            parsing: nodeParsing(settings),
            readsFields: settings.logFields,
          },
    journal: journal && { ...journal, maxAgeMs: settings.logMaxAgeMs, readsFields: settings.logFields },
  };
}

function clusterInput(
  settings: Settings,
  cluster: ClusterSettings,
  { waitForPods, usesRelay }: Pick<KubernetesInput, "waitForPods" | "usesRelay">,
  { adjustment, namespaceLogs }: { readonly adjustment: Adjustment; readonly namespaceLogs: readonly NamespaceLogs[] },
): CollectorInput {
  const { nodeName, nodeIp, kubeletTls: tls, serviceAccountDir, hostAccess } = cluster;
  const intervalMs = adjustment.metricsIntervalMs ?? settings.metricsIntervalMs;
  const { podLabels, podAnnotations } = cluster;
  const kubernetes = { nodeName, waitForPods, usesRelay, podLabels, podAnnotations };
  const kubeconfig = usesRelay ? `\${env:${KUBECONFIG_VARIABLE}}` : undefined;
  const kubelet = { intervalMs, nodeIp, tls, serviceAccountDir };
  return {
    ...commonInput(settings, adjustment),
    resource: { "k8s.node.name": nodeName, "k8s.cluster.name": cluster.clusterName },
    otlp: { grpc: settings.otlpGrpc, http: settings.otlpHttp, kubernetes: { ...kubernetes, trustsSenders: cluster.trustOtlpIdentity } },
    hostMetrics: { intervalMs, root: cluster.hostRoot, hasHostNetwork: false, hasFileSystems: hostAccess === "full" },
    kubelet,
    cadvisor: kubelet,
    workloadNames: cluster.workloadNames ? kubernetes : undefined,
    scrapedPods: cluster.scrapePods ? { intervalMs, nodeName, kubeconfig } : undefined,
    monitoredPods: cluster.prometheusOperator ? `\${env:${ALLOCATOR_VARIABLE}}` : undefined,
    podLogs: {
      kubernetes,
      ownPodUid: cluster.podUid,
      excludeNamespaces: cluster.excludeNamespaces,
      maxAgeMs: settings.logMaxAgeMs,
      multilineStart: settings.logMultilineStart,
      parsing: nodeParsing(settings),
      readsFields: settings.logFields,
      // Only pods from the agent have validated annotations.
      hasPolicies: cluster.logPolicies && usesRelay,
      namespaces: namespaceLogs,
    },
    // Without host access, no folder of the node is mounted.
    ...(hostAccess === "none" && { hostMetrics: undefined, podLogs: undefined }),
  };
}
