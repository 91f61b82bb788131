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
  stateStatus?: StateStatus;
  /** Settings that remote configuration changed. */
  adjustment: Adjustment;
  running: RunningParts;
}

/** The parts of one identity; none until the agent knows which identity owns the state on this node. */
interface RunningParts {
  state?: ClaimedState;
  proxy?: Proxy;
  supervisor?: Supervisor;
  logFiles?: { status(): LogFilesStatus };
  logFilesWatchdog?: LogFilesWatchdog;
  unreadFiles?: UnreadFiles;
  effectiveConfig?: EffectiveConfig;
  clusterCollector?: ClusterCollector | undefined;
  monitors?: Monitors;
  logPolicies?: LogPolicies;
  remote?: RemoteConfigLoop;
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
      state: parts.stateStatus && { ...parts.stateStatus, owner: parts.running.state?.owner },
      heartbeat: parts.heartbeat?.status(),
      collector: parts.running.supervisor?.status(),
      clusterCollector: parts.running.clusterCollector?.status(),
      monitors: parts.running.monitors?.status(),
      logPolicies: parts.running.logPolicies?.status(),
      waitsFor: parts.running.effectiveConfig?.waitsFor,
      telemetry: parts.running.proxy?.status(),
      logFiles: parts.running.logFiles?.status(),
      failing: failingBeforeProxy(parts),
      remoteConfig: parts.running.remote?.status(),
    }),
    collectorHealthy: async () => (await parts.running.supervisor?.healthy()) ?? false,
    collectorMetricsUrl: () => parts.running.supervisor?.metricsUrl,
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
    const queue_percent = await readQueuePercent(parts.running.supervisor?.metricsUrl);
    const collector = parts.running.supervisor?.status();
    const problem = collector?.configError ?? parts.running.effectiveConfig?.waitsFor ?? failingBeforeProxy(parts)?.[0]?.error;
    const last_error = (problem ?? collector?.lastError)?.slice(0, 1000);
    return {
      node: settings.cluster?.nodeName ?? hostname(),
      agent_version: version,
      interval_s: Math.ceil(intervalMs() / 1000),
      ...(settings.cluster && { installation: installationOf(settings.cluster) }),
      ...(collector && {
        collector: { state: collector.state, restarts: collector.restarts, last_error, queue_percent, failing: failingSignals(parts) },
      }),
      ...(parts.running.remote && { config: parts.running.remote.status() }),
    };
  };
  const path = settings.cluster ? CLUSTER_HEARTBEAT_PATH : HOST_HEARTBEAT_PATH;
  const onOrg = (id: string, org: string): void => parts.running.state?.noteOrg(id, org);
  return new HeartbeatLoop({ path, identity, backend, intervalMs, body, onOrg, refusedKey, log });
}

function failingSignals(parts: Parts): string[] {
  const telemetry = Object.entries(parts.running.proxy?.status() ?? {});
  const proxied = telemetry.flatMap(([signal, { failingSince }]) => (failingSince === null ? [] : [signal]));
  return [...new Set([...proxied, ...(failingBeforeProxy(parts) ?? []).map(({ signal }) => signal)])];
}

/** Undefined if this agent collects no log files. */
function failingBeforeProxy({ running: { logFilesWatchdog, unreadFiles } }: Parts): FailingSignal[] | undefined {
  return logFilesWatchdog && [...logFilesWatchdog.failing(), ...(unreadFiles?.failing() ?? [])];
}

export interface Program {
  readonly identity: Identity;
  readonly program: string;
  readonly version: string;
}
