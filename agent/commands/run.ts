// Composition root of `run`. Invariants: parts start in the order health, upstream, identity, heartbeat, state, proxy, collector and stop
// in reverse, so that the collector's last flush still finds a proxy; proxy and collector run only while the identity that owns their state
// is current; only a wrong setting or a port in use ends the process, never an unavailable backend.
import { hostname } from "node:os";
import { join } from "node:path";
import { logFilesFolder, logPathRules } from "../collector/config/config-from-settings.ts";
import { OFFSETS_FILE } from "../collector/config/fragments/host-logs.ts";
import { logFileRules } from "../collector/files/log-paths.ts";
import { LogFiles } from "../collector/files/log-files.ts";
import type { LogFileRules } from "../collector/files/open-files.ts";
import { EffectiveConfig } from "../collector/effective-config.ts";
import { FILES_TOKEN_VARIABLE, START_VARIABLE } from "../collector/config/collector-config.ts";
import { collectorProgram, collectorVariables } from "../collector/supervision/process.ts";
import { type Adjustment, RemoteConfigLoop } from "../collector/config/remote-config.ts";
import { readOffsets } from "../collector/supervision/stored-offsets.ts";
import { Supervisor } from "../collector/supervision/supervisor.ts";
import type { CredentialSource } from "../credentials/credential-store.ts";
import { type AgentIdentity, installationOf } from "../identity/identity.ts";
import { createLog, type Log, type LogControl } from "../log.ts";
import { startProxy } from "../proxy/server.ts";
import { StoredBatches } from "../collector/files/stored-batches.ts";
import { type HostSettings, readSettings, type Settings } from "../settings.ts";
import { claimState, credentialsFor, waitForIdentityChange } from "../state/claim.ts";
import { type ClaimedState, StateDir, type StateStatus } from "../state/state-dir.ts";
import { startHealthServer } from "../status/health.ts";
import { type BackendApi, createBackendApi } from "../upstream/backend-api.ts";
import { BackendClock } from "../upstream/clock.ts";
import { createUpstream, type Upstream } from "../upstream/pool.ts";
import { RefusedKey } from "../upstream/refused-key.ts";
import { healthSource, type Parts, type Program, startHeartbeat } from "./running-parts.ts";
import { startClusterCollector, startIdentity, startPods } from "./start-parts.ts";
import { watchLogFiles } from "./watch-log-files.ts";

/** Shared by all identities of one run. */
interface Shared {
  readonly program: Program;
  readonly settings: Settings;
  readonly otelcol: string;
  readonly clock: BackendClock;
  readonly upstream: Upstream;
  readonly refusedKey: RefusedKey;
  readonly backend: BackendApi;
  readonly identity: AgentIdentity;
  readonly control: LogControl;
  readonly parts: Parts;
}

/** Runs until TERM, INT or HUP, then stops in order. */
export async function run(program: Program): Promise<void> {
  const { settings, secrets } = readSettings(program.identity);
  const control = createLog(settings.logLevel, program.program);
  const { log } = control;
  const stopped = stopSignal(log);
  const otelcol = collectorProgram(settings);
  const clock = new BackendClock(log);
  const parts: Parts = { adjustment: {}, running: {} };

  await using started = new AsyncDisposableStack();
  started.use(await startHealthServer(settings.health, healthSource(program, settings, clock, parts)));
  const upstream = started.use(
    createUpstream({ ...settings, caFile: settings.backendCaFile, httpsProxy: secrets.httpsProxy, httpProxy: secrets.httpProxy }),
  );
  const backend = createBackendApi({ upstream, clock });
  const identity = await startIdentity(settings, program.version, backend, log, started);
  parts.identity = identity;
  const refusedKey = new RefusedKey();
  parts.heartbeat = started.use(startHeartbeat(settings, program.version, { identity, backend, refusedKey, log }, parts));
  const stateDir = new StateDir({ root: settings.stateDir, ...describeHolder(settings), log });
  const report = (status: StateStatus): void => void (parts.stateStatus = status);
  for (;;) {
    using state = await claimState({ stateDir, identity, log, report }, stopped);
    if (!state) return;
    await runWith(state, { program, settings, otelcol, clock, upstream, refusedKey, backend, identity, control, parts }, stopped);
    if (stopped.aborted) return;
    log.warn(
      { event: "state.other_identity", folder: state.folder, was: state.owner, is: identity.current()?.id },
      "this agent's identity changed while it ran; the state of the previous identity is kept and not sent",
    );
  }
}

/** Runs proxy and collector on the state of one identity, until stopped or until the identity changes. */
async function runWith(state: ClaimedState, shared: Shared, stopped: AbortSignal): Promise<void> {
  const { program, settings, otelcol, backend, identity, control, parts } = shared;
  const { log } = control;
  await using started = new AsyncDisposableStack();
  started.defer(() => void (parts.running = {}));
  const { running } = parts;
  running.state = state;
  const credentials = credentialsFor(state, identity);
  const storedBatches = started.use(new StoredBatches({ folder: state.folder, log }));
  const { proxy: listen, compression } = settings;
  running.proxy = started.use(await startProxy({ ...shared, listen, credentials, compression, storedBatches, log }));
  const { collectorMemoryMib: memoryMib, collectorStopGraceMs: stopGraceMs } = settings;
  const stateDir = state.folder;
  const identitySettings = { ...settings, stateFolder: stateDir };
  const pods = await startPods(identitySettings, log, started);
  const env = { ...collectorVariables(settings), ...pods?.env, [FILES_TOKEN_VARIABLE]: storedBatches.token };
  const logFiles = settings.host && started.use(openLogFiles(identitySettings, settings.host, log));
  const endsWithAgent = settings.host !== undefined;
  const onStart = (): Record<string, string> => {
    pods?.monitors?.collectorStarts();
    return { [START_VARIABLE]: String(storedBatches.collectorStarts()) };
  };
  const onExit = (): void => storedBatches.collectorEnded();
  const supervisor = new Supervisor({ program: otelcol, stateDir, memoryMib, stopGraceMs, env, endsWithAgent, onStart, onExit, log });
  running.supervisor = started.use(supervisor);
  watchLogFiles(identitySettings, logFiles, { supervisor, parts, log }, started);
  const applyAdjustment = (adjustment: Adjustment): void => {
    parts.adjustment = adjustment;
    control.setLevel(adjustment.logLevel ?? settings.logLevel);
  };
  const remote = remoteConfigLoop(identitySettings, backend, credentials, log, async (adjustment) => {
    await effectiveConfig.adjust(adjustment);
    applyAdjustment(adjustment);
  });
  applyAdjustment(remote?.adjustmentAtStart ?? {});
  const { adjustment } = parts;
  const effectiveConfig = started.use(
    new EffectiveConfig({
      settings: identitySettings,
      supervisor,
      adjustment,
      log,
      knownPods: pods?.known,
      usesRelay: pods?.usesRelay,
      policies: pods?.policies,
      logFiles,
    }),
  );
  Object.assign(running, { effectiveConfig, monitors: pods?.monitors, logPolicies: pods?.policies });
  await effectiveConfig.start();
  running.clusterCollector = await startClusterCollector(settings, otelcol, stateDir, log, started);
  if (remote) running.remote = started.use(remote);
  remote?.start();
  log.info({ event: "agent.started", version: program.version, backend: settings.backendUrl, signals: settings.signals }, "started");
  await waitForIdentityChange(state, identity, stopped);
}

function openLogFiles(settings: Settings, host: HostSettings, log: Log): LogFiles {
  const { logMaxAgeMs: maxAgeMs, stateFolder = settings.stateDir } = settings;
  const rules = (): LogFileRules => logFileRules(logPathRules(settings, host));
  const offsetsFile = join(stateFolder, OFFSETS_FILE);
  return new LogFiles({ folder: logFilesFolder(settings), offsetsFile, readOffsets, rules, maxAgeMs, log });
}

/** Returns the installation, and the name of this agent that other agents see if they claim the same state. */
function describeHolder({ cluster, host }: Settings): { installation: string; holder: string } {
  if (!cluster) return { installation: `host:${host?.credentialsFile}`, holder: `process ${process.pid} on ${hostname()}` };
  const installation = installationOf(cluster);
  return { installation, holder: `pod ${cluster.podNamespace}/${hostname()}, Secret ${installation}, node ${cluster.nodeName}` };
}

function remoteConfigLoop(
  settings: Settings,
  backend: BackendApi,
  credentials: CredentialSource,
  log: Log,
  apply: (adjustment: Adjustment) => Promise<void>,
): RemoteConfigLoop | undefined {
  const { host, cluster, signals, remoteConfigIntervalMs: intervalMs, stateFolder = settings.stateDir } = settings;
  if (intervalMs === 0) return undefined;
  // The backend must not choose the paths of a cluster's log files.
  const rules = { ...(host ? logPathRules(settings, host) : { allowed: [], forbidden: [] }), signals };
  const stateFile = join(stateFolder, "remote-config.json");
  return new RemoteConfigLoop({ stateFile, rules, backend, credentials, node: cluster?.nodeName, intervalMs, apply, log });
}

function stopSignal(log: Log): AbortSignal {
  const stop = new AbortController();
  // A terminal that is closed sends HUP.
  for (const name of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
    process.once(name, () => {
      log.info(
        { event: "agent.stopping", signal: name },
        "shutting down: collector first, then proxy; unsent data stays in the disk queue",
      );
      stop.abort();
    });
  }
  return stop.signal;
}
