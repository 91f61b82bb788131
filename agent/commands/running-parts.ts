// The running parts of the agent, and what /status and heartbeats report about them. Invariant: a part that does not run is undefined and
// not reported.
import { hostname } from "node:os";
import { ClusterCollector } from "../collector/cluster-collector.ts";
import type { EffectiveConfig } from "../collector/effective-config.ts";
import type { Adjustment, RemoteConfigLoop } from "../collector/config/remote-config.ts";
import { readQueuePercent } from "../collector/supervision/queue-state.ts";
import { Supervisor } from "../collector/supervision/supervisor.ts";
import { type AgentIdentity, installationOf } from "../identity/identity.ts";
import type { LogPolicies } from "../policies/log-policies.ts";
import type { Monitors } from "../monitors/monitors.ts";
import type { LogFilesStatus } from "../collector/files/log-files-status.ts";
import type { UnreadFiles } from "../collector/supervision/unread-files.ts";
import type { FailingSignal, LogFilesWatchdog } from "../collector/supervision/watchdog.ts";
import { CLUSTER_HEARTBEAT_PATH, type Heartbeat, HOST_HEARTBEAT_PATH } from "../../common/protocol/enrolment.ts";
import type { Proxy } from "../proxy/server.ts";
import type { Identity, Settings } from "../settings.ts";
import type { ClaimedState, StateStatus } from "../state/state-dir.ts";
import { HeartbeatLoop, type HeartbeatOptions } from "../status/heartbeat.ts";
import type { HealthSource } from "../status/agent-status.ts";
import type { BackendClock } from "../upstream/clock.ts";

export interface Parts {
  identity?: AgentIdentity;
  heartbeat?: HeartbeatLoop;
  /** The following parts belong to one identity; undefined until the agent knows which identity owns the state on this node. */
  state?: ClaimedState | undefined;
  proxy?: Proxy | undefined;
  supervisor?: Supervisor | undefined;
  logFiles?: { status(): LogFilesStatus } | undefined;
  logFilesWatchdog?: LogFilesWatchdog | undefined;
  unreadFiles?: UnreadFiles | undefined;
  effectiveConfig?: EffectiveConfig | undefined;
  clusterCollector?: ClusterCollector | undefined;
  monitors?: Monitors | undefined;
  logPolicies?: LogPolicies | undefined;
  remote?: RemoteConfigLoop | undefined;
  stateStatus?: StateStatus;
  /** Settings that remote configuration changed. */
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
      monitors: parts.monitors?.status(),
      logPolicies: parts.logPolicies?.status(),
      waitsFor: parts.effectiveConfig?.waitsFor,
      telemetry: parts.proxy?.status(),
      logFiles: parts.logFiles?.status(),
      failing: failingBeforeProxy(parts),
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
  const body = async (): Promise<Heartbeat> => {
    const queue_percent = await readQueuePercent(parts.supervisor?.metricsUrl);
    const collector = parts.supervisor?.status();
    const problem = collector?.configError ?? parts.effectiveConfig?.waitsFor ?? failingBeforeProxy(parts)?.[0]?.error;
    const last_error = (problem ?? collector?.lastError)?.slice(0, 1000);
    return {
      node: settings.cluster?.nodeName ?? hostname(),
      agent_version: version,
      interval_s: Math.ceil(intervalMs() / 1000),
      ...(settings.cluster && { installation: installationOf(settings.cluster) }),
      ...(collector && {
        collector: { state: collector.state, restarts: collector.restarts, last_error, queue_percent, failing: failingSignals(parts) },
      }),
      ...(parts.remote && { config: parts.remote.status() }),
    };
  };
  const path = settings.cluster ? CLUSTER_HEARTBEAT_PATH : HOST_HEARTBEAT_PATH;
  const onOrg = (id: string, org: string): void => parts.state?.noteOrg(id, org);
  return new HeartbeatLoop({ path, identity, backend, intervalMs, body, onOrg, refusedKey, log });
}

function failingSignals(parts: Parts): string[] {
  const telemetry = Object.entries(parts.proxy?.status() ?? {});
  const proxied = telemetry.flatMap(([signal, { failingSince }]) => (failingSince === null ? [] : [signal]));
  return [...new Set([...proxied, ...(failingBeforeProxy(parts) ?? []).map(({ signal }) => signal)])];
}

/** Undefined if this agent collects no log files. */
function failingBeforeProxy({ logFilesWatchdog, unreadFiles }: Parts): FailingSignal[] | undefined {
  return logFilesWatchdog && [...logFilesWatchdog.failing(), ...(unreadFiles?.failing() ?? [])];
}

export interface Program {
  readonly identity: Identity;
  readonly program: string;
  readonly version: string;
}
