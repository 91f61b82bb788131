// The composition root of `run`. Invariants: parts start in the order health, upstream, identity, heartbeat, proxy, collector and stop in
// reverse, so that the collector's last flush still finds a proxy; nothing but a wrong setting or a taken port ends the process, least
// of all a backend that is away. Called by main.ts.
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { BackendClock } from "./clock.ts";
import { adjustable, collectorProgram, collectorVariables, nodeCollectorConfig } from "./collector/node-config.ts";
import { Supervisor } from "./collector/supervisor.ts";
import { type BackendApi, createBackendApi } from "./enrolment/backend-api.ts";
import { HeartbeatLoop } from "./enrolment/heartbeat.ts";
import type { AgentIdentity } from "./enrolment/identity.ts";
import { type AgentStatus, startHealthServer } from "./health.ts";
import { createLog, type Log } from "./log.ts";
import { CLUSTER_HEARTBEAT_PATH, HOST_HEARTBEAT_PATH } from "./protocol/enrolment.ts";
import { type Proxy, startProxy } from "./proxy/server.ts";
import { type Identity, readSettings, type Secrets, type Settings } from "./settings.ts";
import { createUpstream } from "./upstream.ts";

export interface Program {
  readonly identity: Identity;
  readonly program: string;
  readonly version: string;
}

/** Runs until TERM or INT, then stops in order. */
export async function run({ identity: kind, program, version }: Program): Promise<void> {
  const { settings, secrets } = readSettings(kind);
  const { log } = createLog(settings.logLevel, program);
  const stopped = stopSignal(log);
  const otelcol = collectorProgram(settings);
  const clock = new BackendClock(log);
  const parts: { identity?: AgentIdentity; heartbeat?: HeartbeatLoop; proxy?: Proxy; supervisor?: Supervisor } = {};
  const startedAt = new Date().toISOString();
  const status = (): AgentStatus => ({
    program,
    version,
    startedAt,
    signals: settings.signals,
    clockSkewS: clock.skewS(),
    identity: parts.identity?.status(),
    heartbeat: parts.heartbeat?.status(),
    collector: parts.supervisor?.status(),
    telemetry: parts.proxy?.status(),
  });

  await using started = new AsyncDisposableStack();
  started.use(
    await startHealthServer(settings.health, {
      status,
      collectorHealthy: async () => (await parts.supervisor?.healthy()) ?? false,
      collectorMetricsUrl: () => parts.supervisor?.metricsUrl,
    }),
  );
  const upstream = started.use(
    createUpstream({ ...settings, caFile: settings.backendCaFile, httpsProxy: secrets.httpsProxy, httpProxy: secrets.httpProxy }),
  );
  const backend = createBackendApi({ upstream, clock });
  const identity = started.use(await startIdentity(settings, secrets, version, backend, log));
  parts.identity = identity;
  parts.heartbeat = started.use(
    new HeartbeatLoop({
      path: settings.cluster ? CLUSTER_HEARTBEAT_PATH : HOST_HEARTBEAT_PATH,
      identity,
      backend,
      intervalMs: () => settings.heartbeatIntervalMs,
      body: () => heartbeatBody(settings, version, parts.supervisor),
      log,
    }),
  );
  parts.proxy = started.use(
    await startProxy({ listen: settings.proxy, upstream, credentials: identity, clock, compression: settings.compression, log }),
  );
  parts.supervisor = started.use(
    new Supervisor({
      program: otelcol,
      stateDir: settings.stateDir,
      memoryMib: settings.collectorMemoryMib,
      stopGraceMs: settings.collectorStopGraceMs,
      env: collectorVariables(settings),
      log,
    }),
  );
  await parts.supervisor.start(() => nodeCollectorConfig(settings, adjustable(settings)));
  log.info({ version, backend: settings.backendUrl, signals: settings.signals }, "the agent runs");
  await untilAborted(stopped);
}

async function startIdentity(settings: Settings, secrets: Secrets, version: string, backend: BackendApi, log: Log): Promise<AgentIdentity> {
  if (settings.cluster) {
    const { startClusterAgentIdentity } = await import("./enrolment/cluster-identity.ts");
    return startClusterAgentIdentity({
      cluster: settings.cluster,
      installToken: secrets.installToken,
      agentVersion: version,
      backend,
      log,
    });
  }
  const [{ CredentialsFile }, { startHostIdentity }] = await Promise.all([
    import("./credentials/file.ts"),
    import("./enrolment/register.ts"),
  ]);
  const host = { hostname: hostname(), machine_id: machineId(), agent_version: version };
  return startHostIdentity({
    file: new CredentialsFile(settings.host?.credentialsFile ?? ""),
    installToken: secrets.installToken,
    host,
    backend,
    log,
  });
}

/** What makes a host the same host across reinstallations of the agent; its name where the system has no id. */
function machineId(): string {
  try {
    return readFileSync("/etc/machine-id", "utf8").trim() || hostname();
  } catch {
    return hostname();
  }
}

function heartbeatBody(settings: Settings, version: string, supervisor: Supervisor | undefined) {
  const collector = supervisor?.status();
  return {
    node: settings.cluster?.nodeName ?? hostname(),
    agent_version: version,
    interval_s: Math.ceil(settings.heartbeatIntervalMs / 1000),
    ...(collector && {
      collector: {
        state: collector.state,
        restarts: collector.restarts,
        ...(collector.lastError !== null && { last_error: collector.lastError.slice(0, 1000) }),
      },
    }),
  };
}

function stopSignal(log: Log): AbortSignal {
  const stop = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    process.once(name, () => {
      log.info({ signal: name }, "stopping: collector first, then proxy; what is not sent stays in the disk queue");
      stop.abort();
    });
  }
  return stop.signal;
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    if (signal.aborted) done();
    else signal.addEventListener("abort", () => done(), { once: true });
  });
}
