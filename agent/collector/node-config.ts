// From settings to the collector's configuration: which fragments this agent needs, and the overlay that the operator merges over it.
// Called by run.ts, render-command.ts and diagnose.ts.
import { accessSync, constants, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { type Settings, SettingsError } from "../settings.ts";
import { collectorConfig, type CollectorInput } from "./config.ts";
import { renderCollectorConfig } from "./render.ts";

/** What remote configuration may change; settings otherwise. */
export type Adjustable = Pick<Settings, "signals" | "metricsIntervalMs" | "logLevel"> & {
  readonly logPaths: readonly string[];
  readonly excludedPaths: readonly string[];
};

export function adjustable(settings: Settings): Adjustable {
  const { signals, metricsIntervalMs, logLevel } = settings;
  return { signals, metricsIntervalMs, logLevel, logPaths: settings.host?.logPaths ?? [], excludedPaths: [] };
}

/** The YAML that the collector shall run. Reads COLLECTOR_CONFIG_FILE. Throws CollectorConfigError. */
export function nodeCollectorConfig(settings: Settings, adjusted: Adjustable = adjustable(settings)): string {
  const config = collectorConfig(settings.cluster ? clusterInput(settings, settings.cluster, adjusted) : hostInput(settings, adjusted));
  if (settings.collectorConfigFile === undefined) return renderCollectorConfig(config);
  const text = readFileSync(settings.collectorConfigFile, "utf8");
  return renderCollectorConfig(config, { text, allowOtherExporters: settings.allowOtherExporters });
}

/** Variables of the collector's allow-list environment that settings decide. */
export function collectorVariables({ cluster }: Settings): Record<string, string> {
  if (!cluster) return {};
  const { hostname, port } = new URL(cluster.kubernetesServer);
  return { KUBERNETES_SERVICE_HOST: hostname.replace(/^\[|\]$/g, ""), KUBERNETES_SERVICE_PORT: port || "443" };
}

/** The collector's program. Throws SettingsError when there is none. */
export function collectorProgram({ otelcolPath }: Settings): string {
  const found = otelcolPath.find((path) => isExecutable(path));
  if (found !== undefined) return found;
  throw new SettingsError(
    "OTELCOL_PATH: there is no collector on PATH or in the tool cache; install otelcol-contrib 0.149.0 and name it here",
  );
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function inputOf(settings: Settings, adjusted: Adjustable): Omit<CollectorInput, "resource" | "otlp" | "hostMetrics"> {
  return {
    proxy: settings.proxy,
    stateDir: settings.stateDir,
    signals: adjusted.signals,
    queueBytes: settings.queueMib * 1024 * 1024,
    memoryMib: settings.collectorMemoryMib,
    logLevel: adjusted.logLevel,
  };
}

function hostInput(settings: Settings, adjusted: Adjustable): CollectorInput {
  const ownFiles = [`${settings.stateDir}/**`, settings.host?.credentialsFile ?? ""].filter(Boolean);
  return {
    ...inputOf(settings, adjusted),
    resource: { "host.name": hostname() },
    otlp: { grpc: settings.otlpGrpc, http: settings.otlpHttp },
    hostMetrics: { intervalMs: adjusted.metricsIntervalMs, root: "/" },
    files: {
      paths: adjusted.logPaths,
      exclude: [...ownFiles, ...adjusted.excludedPaths],
      maxAgeMs: settings.logMaxAgeMs,
      multilineStart: settings.logMultilineStart,
    },
  };
}

function clusterInput(settings: Settings, cluster: NonNullable<Settings["cluster"]>, adjusted: Adjustable): CollectorInput {
  const { nodeName, nodeIp, kubeletTls: tls, serviceAccountDir } = cluster;
  const kubelet = { intervalMs: adjusted.metricsIntervalMs, nodeIp, tls, serviceAccountDir };
  return {
    ...inputOf(settings, adjusted),
    resource: { "k8s.node.name": nodeName, "k8s.cluster.name": cluster.clusterName },
    otlp: { grpc: settings.otlpGrpc, http: settings.otlpHttp, nodeName },
    hostMetrics: { intervalMs: adjusted.metricsIntervalMs, root: cluster.hostRoot },
    kubelet,
    cadvisor: kubelet,
    podLogs: {
      nodeName,
      ownPodUid: cluster.podUid,
      excludeNamespaces: cluster.excludeNamespaces,
      maxAgeMs: settings.logMaxAgeMs,
      multilineStart: settings.logMultilineStart,
    },
  };
}
