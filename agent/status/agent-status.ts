// The status of the agent as one value, from which /status, /readyz and /metrics are built. Invariant: it holds no secret.
import type { ClusterCollectorStatus } from "../collector/cluster-collector.ts";
import type { CollectorStatus } from "../collector/supervision/supervisor.ts";
import type { AgentIdentityStatus } from "../identity/identity.ts";
import type { LogFilesStatus } from "../collector/files/log-files-status.ts";
import type { FailingSignal } from "../collector/supervision/watchdog.ts";
import type { LogPolicyStatus } from "../policies/log-policies.ts";
import type { ProxyStatus } from "../proxy/server.ts";
import type { StateStatus } from "../state/state-dir.ts";
import type { HeartbeatStatus } from "./heartbeat.ts";
import type { Signal } from "../settings.ts";

/** Parts that have not started yet are undefined. */
export interface AgentStatus {
  readonly program: string;
  readonly version: string;
  readonly startedAt: string;
  readonly signals: readonly Signal[];
  readonly clockSkewS: number;
  readonly identity: AgentIdentityStatus | undefined;
  /** Which identity owns the state on this node, or why none does yet. */
  readonly state?: StateStatus | undefined;
  readonly heartbeat: HeartbeatStatus | undefined;
  readonly collector: CollectorStatus | undefined;
  /** The collector for the whole cluster; undefined if nothing is collected for it. */
  readonly clusterCollector?: ClusterCollectorStatus | undefined;
  /** Telemetry that is not collected for now, with the reason. */
  readonly waitsFor?: string | undefined;
  /** Cluster agent with LOG_POLICIES: effects of annotations, and which annotations are ignored. */
  readonly logPolicies?: LogPolicyStatus | undefined;
  /** Cluster agent with PROMETHEUS_OPERATOR: number of scrape jobs, objects beyond the limits, and why monitors are not scraped. */
  readonly monitors?: { readonly jobs: number; readonly dropped: number; readonly refused: Readonly<Record<string, string>> } | undefined;
  readonly telemetry: ProxyStatus | undefined;
  /** Files of a host, or of the node's pods. */
  readonly logFiles?: LogFilesStatus | undefined;
  /** Signals that fail before they reach the proxy, with reasons. */
  readonly failing?: readonly FailingSignal[] | undefined;
  /** Version of the remote configuration in use, and why a newer one is not. */
  readonly remoteConfig?: { readonly version: string | undefined; readonly error: string | undefined } | undefined;
}

export interface HealthSource {
  status(): AgentStatus;
  /** Sends a health check to the collector. */
  collectorHealthy(): Promise<boolean>;
  /** URL of the collector's own metrics; undefined while it does not run. */
  collectorMetricsUrl(): string | undefined;
}
