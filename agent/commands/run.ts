// The composition root of `run`. Invariants: parts start in the order health, upstream, identity, heartbeat, state, proxy, collector and
// stop in reverse, so that the collector's last flush still finds a proxy; proxy and collector live only as long as the identity whose
// state they have; nothing but a wrong setting or a taken port ends the process, least of all a backend that is away.
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { BackendClock } from "../upstream/clock.ts";
import { EffectiveConfig } from "../collector/effective-config.ts";
import { type KnownPods, knownPods } from "../collector/known-pods.ts";
import { logPathRules } from "../collector/config-from-settings.ts";
import { collectorProgram, collectorVariables } from "../collector/program.ts";
import { Supervisor } from "../collector/supervisor.ts";
import { type BackendApi, createBackendApi } from "../upstream/backend-api.ts";
import { HeartbeatLoop } from "../status/heartbeat.ts";
import type { CredentialSource } from "../credentials/store.ts";
import type { AgentIdentity } from "../identity/identity.ts";
import { installationOf } from "../identity/installation.ts";
import type { KubernetesApi } from "../kubernetes/api.ts";
import { type Adjustment, RemoteConfigLoop } from "../collector/remote-config.ts";
import { startHealthServer } from "../status/health.ts";
import type { HealthSource } from "../status/status.ts";
import { claimState, credentialsFor, untilAnother } from "../state/claim.ts";
import { type ClaimedState, StateDir, type StateStatus } from "../state/state-dir.ts";
import { createLog, type Log, type LogControl } from "../log.ts";
import { CLUSTER_HEARTBEAT_PATH, type Heartbeat, HOST_HEARTBEAT_PATH } from "../protocol/enrolment.ts";
import { type Proxy, startProxy } from "../proxy/server.ts";
import { type ClusterSettings, type Identity, readInstallToken, readSettings, type Secrets, type Settings } from "../settings.ts";
import { createUpstream, type Upstream } from "../upstream/pool.ts";

export interface Program {
  readonly identity: Identity;
  readonly program: string;
  readonly version: string;
}

interface Parts {
  identity?: AgentIdentity;
  heartbeat?: HeartbeatLoop;
  /** These five are of one identity, and there is none of them while it is not known whose the state on this node is. */
  state?: ClaimedState | undefined;
  proxy?: Proxy | undefined;
  supervisor?: Supervisor | undefined;
  effectiveConfig?: EffectiveConfig | undefined;
  remote?: RemoteConfigLoop | undefined;
  stateStatus?: StateStatus;
  /** What remote configuration has in force. */
  adjustment: Adjustment;
}

/** What all identities of one run share. */
interface Shared {
  readonly program: Program;
  readonly settings: Settings;
  readonly otelcol: string;
  readonly clock: BackendClock;
  readonly upstream: Upstream;
  readonly backend: BackendApi;
  readonly identity: AgentIdentity;
  readonly control: LogControl;
  readonly parts: Parts;
}

/** Runs until TERM or INT, then stops in order. */
export async function run(program: Program): Promise<void> {
  const { settings, secrets } = readSettings(program.identity);
  const control = createLog(settings.logLevel, program.program);
  const { log } = control;
  const stopped = stopSignal(log);
  const otelcol = collectorProgram(settings);
  const clock = new BackendClock(log);
  const parts: Parts = { adjustment: {} };

  await using started = new AsyncDisposableStack();
  started.use(await startHealthServer(settings.health, healthSource(program, settings, clock, parts)));
  const upstream = started.use(
    createUpstream({ ...settings, caFile: settings.backendCaFile, httpsProxy: secrets.httpsProxy, httpProxy: secrets.httpProxy }),
  );
  const backend = createBackendApi({ upstream, clock });
  const identity = await startIdentity(settings, secrets, program.version, backend, log, started);
  parts.identity = identity;
  parts.heartbeat = started.use(startHeartbeat(settings, program.version, identity, backend, parts, log));
  const stateDir = new StateDir({ root: settings.stateDir, ...whoAmI(settings), log });
  const tell = (status: StateStatus): void => void (parts.stateStatus = status);
  for (;;) {
    using state = await claimState({ stateDir, identity, log, tell }, stopped);
    if (!state) return;
    await runWith(state, { program, settings, otelcol, clock, upstream, backend, identity, control, parts }, stopped);
    if (stopped.aborted) return;
    log.warn(
      { folder: state.folder, was: state.owner, is: identity.current()?.id },
      "the identity of this agent is not the one of this state any more: it is kept, and not sent",
    );
  }
}

/** Proxy and collector on the state of one identity; until stopped, or until the identity is another. */
async function runWith(state: ClaimedState, shared: Shared, stopped: AbortSignal): Promise<void> {
  const { program, settings, otelcol, clock, upstream, backend, identity, control, parts } = shared;
  const { log } = control;
  await using started = new AsyncDisposableStack();
  started.defer(
    () =>
      void Object.assign(parts, {
        state: undefined,
        proxy: undefined,
        supervisor: undefined,
        effectiveConfig: undefined,
        remote: undefined,
      }),
  );
  parts.state = state;
  const credentials = credentialsFor(state, identity);
  parts.proxy = started.use(
    await startProxy({ listen: settings.proxy, upstream, credentials, clock, compression: settings.compression, log }),
  );
  const { collectorMemoryMib: memoryMib, collectorStopGraceMs: stopGraceMs } = settings;
  const stateDir = state.folder;
  const supervisor = new Supervisor({ program: otelcol, stateDir, memoryMib, stopGraceMs, env: collectorVariables(settings), log });
  parts.supervisor = started.use(supervisor);
  const enforce = (adjustment: Adjustment): void => {
    parts.adjustment = adjustment;
    control.setLevel(adjustment.logLevel ?? settings.logLevel);
  };
  const remote = remoteConfigLoop({ ...settings, stateFolder: stateDir }, backend, credentials, log, async (adjustment) => {
    await effectiveConfig.adjust(adjustment);
    enforce(adjustment);
  });
  enforce(remote?.adjustmentAtStart ?? {});
  const knownPods = settings.cluster && started.use(await podsOf(settings.cluster));
  const effectiveConfig = started.use(
    new EffectiveConfig({
      settings: { ...settings, stateFolder: stateDir },
      supervisor,
      adjustment: parts.adjustment,
      log,
      knownPods,
    }),
  );
  parts.effectiveConfig = effectiveConfig;
  await effectiveConfig.start();
  if (remote) parts.remote = started.use(remote);
  remote?.start();
  log.info({ version: program.version, backend: settings.backendUrl, signals: settings.signals }, "started");
  await untilAnother(state, identity, stopped);
}

/** Which installation this is, and what others that want its state are told. */
function whoAmI({ cluster, host }: Settings): { installation: string; holder: string } {
  if (!cluster) return { installation: `host:${host?.credentialsFile}`, holder: `process ${process.pid} on ${hostname()}` };
  const installation = installationOf(cluster);
  return { installation, holder: `pod ${cluster.podNamespace}/${hostname()}, Secret ${installation}, node ${cluster.nodeName}` };
}

function healthSource({ program, version }: Program, settings: Settings, clock: BackendClock, parts: Parts): HealthSource {
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
      waitsFor: parts.effectiveConfig?.waitsFor,
      telemetry: parts.proxy?.status(),
      remoteConfig: parts.remote?.status(),
    }),
    collectorHealthy: async () => (await parts.supervisor?.healthy()) ?? false,
    collectorMetricsUrl: () => parts.supervisor?.metricsUrl,
  };
}

function startHeartbeat(
  settings: Settings,
  version: string,
  identity: AgentIdentity,
  backend: BackendApi,
  parts: Parts,
  log: Log,
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
  return new HeartbeatLoop({ path, identity, backend, intervalMs, body, onOrg, log });
}

function remoteConfigLoop(
  settings: Settings,
  backend: BackendApi,
  credentials: CredentialSource,
  log: Log,
  apply: (adjustment: Adjustment) => Promise<void>,
): RemoteConfigLoop | undefined {
  const { host, signals, stateFolder = settings.stateDir } = settings;
  if (!host || host.remoteConfigIntervalMs === 0) return undefined;
  const rules = { ...logPathRules(settings, host), signals };
  const stateFile = join(stateFolder, "remote-config.json");
  return new RemoteConfigLoop({ stateFile, rules, backend, credentials, intervalMs: host.remoteConfigIntervalMs, apply, log });
}

/** Stopped with `started`, so after the collector's last flush, which still needs it. */
async function startIdentity(
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
  const host = { hostname: hostname(), machine_id: machineId(), agent_version: agentVersion };
  return started.use(startHostIdentity({ file, installToken: secrets.installToken, host, backend, log }));
}

/** Loaded by the cluster agent only. */
async function kubernetesOf(cluster: ClusterSettings): Promise<KubernetesApi> {
  const { kubernetesInPod } = await import("../kubernetes/in-pod.ts");
  return kubernetesInPod(cluster);
}

async function podsOf(cluster: ClusterSettings): Promise<KnownPods & AsyncDisposable> {
  const api = await kubernetesOf(cluster);
  return { ...knownPods(api, cluster.nodeName), [Symbol.asyncDispose]: () => api[Symbol.asyncDispose]() };
}

/** What makes a host the same host across reinstallations of the agent; its name where the system has no id. */
function machineId(): string {
  try {
    return readFileSync("/etc/machine-id", "utf8").trim() || hostname();
  } catch {
    return hostname();
  }
}

function stopSignal(log: Log): AbortSignal {
  const stop = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    process.once(name, () => {
      log.info({ signal: name }, "shutting down: collector first, then proxy; what is not sent stays in the disk queue");
      stop.abort();
    });
  }
  return stop.signal;
}
