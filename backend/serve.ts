// The composition root of `serve`: engines → stores → routes → listeners. Stop is the reverse: not ready, no new requests, what was taken
// is finished and flushed, engines close. Only this file wires.
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { sql } from "kysely";
import { registerAccountRoutes } from "./accounts/routes.ts";
import { createUserGuard, Sessions } from "./accounts/session.ts";
import { bootstrap, loadSecrets } from "./bootstrap.ts";
import { forwardAlerting } from "./alerting/forward.ts";
import { startAlerting } from "./alerting/start.ts";
import { createSignedGuard } from "./auth/signed-requests.ts";
import { KeyCache } from "./enrolment/key-cache.ts";
import type { MasterKeys } from "./enrolment/master-key.ts";
import { registerEnrolmentRoutes } from "./enrolment/routes.ts";
import { type ClickHouse, openClickHouse } from "./engines/clickhouse/client.ts";
import { applyRetention, migrate as migrateClickHouse } from "./engines/clickhouse/migrate.ts";
import { openDatabase, type Database } from "./engines/postgres/database.ts";
import { migrate as migrateDatabase } from "./engines/postgres/migrate.ts";
import { type EmbeddedVictoriaMetrics, startVictoriaMetrics } from "./engines/victoria-metrics/embedded.ts";
import { type EmbeddedEvaluator, startEvaluator } from "./engines/vmalert/embedded.ts";
import { startHealth } from "./observability/health.ts";
import { registerIngestRoutes } from "./ingest/routes.ts";
import { openOtlpDecoder } from "./ingest/otlp-decoder.ts";
import { createOtlpIngest } from "./ingest/otlp-ingest.ts";
import { createLog, type Log } from "./observability/log.ts";
import { registerLogRoutes } from "./logs/routes.ts";
import { ClickHouseLogStore } from "./logs/store.ts";
import { createExpositionIngest } from "./ingest/exposition-ingest.ts";
import { registerMetricsRoutes } from "./metrics/routes.ts";
import { VictoriaMetricsStore } from "./metrics/store.ts";
import { createObservations, type Observations } from "./observability/own-metrics.ts";
import { Answers } from "./http/answers.ts";
import type { Guards } from "./auth/request-identity.ts";
import { closeRoutes, createApp } from "./http/app.ts";
import { listenMore, sharing } from "./http/listeners.ts";
import { loggable, type ListenAddress, type Secrets, type Settings } from "./settings.ts";
import { cannotListen } from "./startup-error.ts";
import { registerTraceRoutes } from "./traces/routes.ts";
import { ClickHouseSpanStore } from "./traces/store.ts";

export type Role = "api" | "alerting";

/** What every part of one running backend shares. */
interface Running extends Opening {
  readonly masterKeys: MasterKeys;
  readonly keyCache: KeyCache;
  readonly sessions: Sessions;
  readonly observations: Observations;
  readonly database: Database;
  readonly guards: Guards;
  readonly metrics: VictoriaMetricsStore;
  /** vmalert, when it is a child of this process. */
  readonly evaluator: EmbeddedEvaluator | undefined;
  /** Of the role `api`. */
  readonly telemetry: Telemetry | undefined;
  /** One per engine, for /readyz. */
  readonly checks: Record<string, () => Promise<void>>;
}

interface Opening {
  readonly settings: Settings;
  readonly secrets: Secrets;
  readonly log: Log;
  readonly stack: AsyncDisposableStack;
  readonly stopping: AbortSignal;
  readonly roles: readonly Role[];
}

/** Runs until SIGTERM or SIGINT, and ends in order. Throws SettingsError or StartError for what is the operator's to mend. */
export async function serve({ settings, secrets, roles }: Pick<Opening, "settings" | "secrets" | "roles">): Promise<void> {
  const log = createLog(settings.logLevel);
  const stopping = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => stopping.abort(signal));
  await using stack = new AsyncDisposableStack();
  log.info({ settings: loggable(settings), roles }, "starting");
  const running = await openEngines({ settings, secrets, log, stack, stopping: stopping.signal, roles });
  const alerting = roles.includes("alerting") ? await openAlerting(running) : undefined;
  if (running.telemetry) await openApi(running, running.telemetry, settings.alertingUrl ?? alerting);
  await using _health = await startHealth({
    listen: settings.health,
    checks: running.checks,
    registry: running.observations.registry,
    onChecked: (engine, isUp) => running.observations.engineUp(engine, isUp),
    draining: () => stopping.signal.aborted,
    log,
  });
  log.info({ roles }, "ready");
  await aborted(stopping.signal);
  log.info({ signal: String(stopping.signal.reason) }, "stopping: finishing what was taken");
  // Before the health listener goes: /readyz says "draining" for as long as there is something to finish.
  await stack.disposeAsync();
}

async function openEngines(opening: Opening): Promise<Running> {
  const { settings, secrets, roles } = opening;
  const { masterKeys, jwtSecret, jwtPreviousSecret } = loadSecrets(settings, secrets);
  const observations = createObservations();
  const [database, { metrics, evaluator }, telemetry] = await sideBySide(opening, [
    (own) => openAccounts(own, masterKeys),
    (own) => openMetrics(own, observations),
    async (own) => (roles.includes("api") ? openTelemetry(own) : undefined),
  ]);
  const sessions = new Sessions({ db: database.tables(), jwtSecret, jwtPreviousSecret, ttlMs: settings.jwtTtlMs });
  const keyCache = new KeyCache(database.tables(), masterKeys);
  const guards = { signed: createSignedGuard({ keys: keyCache }), user: createUserGuard(sessions) };
  const checks = {
    metrics: () => metrics.check(),
    database: async () => void (await sql`SELECT 1`.execute(database.tables())),
    ...(telemetry && { clickhouse: () => telemetry.clickhouse.ping() }),
  };
  return { ...opening, masterKeys, keyCache, sessions, observations, database, guards, metrics, evaluator, telemetry, checks };
}

/**
 * Opens all at once: each waits for another core or another process. Stopped in reverse order, whichever was ready first. One that fails
 * is told when all have settled, so that there is nothing that cannot be closed; of several, the first in order.
 */
async function sideBySide<T extends unknown[]>(
  opening: Opening,
  parts: [...{ [K in keyof T]: (own: Opening) => Promise<T[K]> }],
): Promise<T> {
  const settled = await Promise.allSettled(parts.map((open) => open({ ...opening, stack: opening.stack.use(new AsyncDisposableStack()) })));
  const failed = settled.find((one) => one.status === "rejected");
  if (failed) throw failed.reason;
  return settled.map((one) => (one as PromiseFulfilledResult<unknown>).value) as T;
}

async function openAccounts({ settings, secrets, log, stack }: Opening, masterKeys: MasterKeys): Promise<Database> {
  const database = stack.use(await openDatabase({ url: secrets.databaseUrl, dataDir: settings.dataDir, log }));
  for (const name of await migrateDatabase(database)) log.info({ migration: name }, "schema migrated");
  await bootstrap({ database, settings, secrets, masterKeys, log });
  return database;
}

async function openMetrics(opening: Opening, observations: Observations): Promise<Pick<Running, "metrics" | "evaluator">> {
  const { settings, log, stack, stopping, roles } = opening;
  const { metricsWriteUrl: writeUrl, metricsQueryUrl: queryUrl } = settings;
  if (writeUrl && queryUrl) return { metrics: stack.use(new VictoriaMetricsStore({ writeUrl, queryUrl, stopping })), evaluator: undefined };
  const engine = await startVictoriaMetrics({
    candidates: settings.victoriaMetricsPath,
    dataDir: settings.dataDir,
    retention: settings.metricsRetention.text,
    passwordFile: join(settings.dataDir, "secrets", "engine-password"),
    log,
    onRestart: () => observations.restarted("victoria-metrics"),
  });
  stack.use(engine);
  // One organisation's queries leave a core to all others, where there are several.
  const queriesPerOrg = Math.max(1, Math.min(2, availableParallelism() - 1));
  const metrics = stack.use(new VictoriaMetricsStore({ ...engine, queriesPerOrg, stopping }));
  const isOurs = roles.includes("alerting") && !settings.evaluatorQueryUrl;
  return { metrics, evaluator: isOurs ? stack.use(await openEvaluator(opening, engine, observations)) : undefined };
}

function openEvaluator({ settings, log }: Opening, engine: EmbeddedVictoriaMetrics, observations: Observations) {
  return startEvaluator({
    candidates: settings.vmalertPath,
    dataDir: settings.dataDir,
    listen: settings.evaluatorListen,
    passwordFile: join(settings.dataDir, "secrets", "engine-password"),
    intervalMs: settings.evaluationIntervalMs,
    delayMs: settings.evaluationDelayMs,
    metricsQueryUrl: engine.queryUrl,
    metricsWriteUrl: engine.writeUrl,
    alertmanagerUrl: settings.alertmanagerUrl,
    log,
    onRestart: () => observations.restarted("vmalert"),
  });
}

interface Telemetry {
  readonly clickhouse: ClickHouse;
  readonly logStore: ClickHouseLogStore;
  readonly spanStore: ClickHouseSpanStore;
}

async function openTelemetry({ settings, secrets, log, stack, stopping }: Opening): Promise<Telemetry> {
  const clickhouse = stack.use(
    await openClickHouse({
      url: secrets.clickhouseUrl,
      dataDir: join(settings.dataDir, "clickhouse"),
      cluster: settings.clickhouseCluster,
      threads: settings.threadPoolSize,
      log,
      stopping,
    }),
  );
  await migrateClickHouse(clickhouse, log);
  await applyRetention(clickhouse, { logs: settings.logsRetentionDays, spans: settings.tracesRetentionDays }, log);
  const logStore = stack.use(await ClickHouseLogStore.open(clickhouse));
  const spanStore = stack.use(await ClickHouseSpanStore.open(clickhouse));
  return { clickhouse, logStore, spanStore };
}

/** `alerting`: where /alerting/ is forwarded, when this installation has the role anywhere. */
async function openApi(
  running: Running,
  { clickhouse, logStore, spanStore }: Telemetry,
  alerting: string | FastifyInstance | undefined,
): Promise<void> {
  const { settings, stack, observations, guards, metrics, stopping } = running;
  const decoder = stack.use(openOtlpDecoder());
  const app = await createApp({ ...appOptions(running), openApiTitle: "AtherOps telemetry API" });
  registerIngestRoutes(app, {
    guards,
    observations,
    metrics: createExpositionIngest(metrics, { retentionMs: settings.metricsRetention.ms }),
    logs: createOtlpIngest({ signal: "logs", store: logStore, decoder, retentionDays: settings.logsRetentionDays }),
    traces: createOtlpIngest({ signal: "traces", store: spanStore, decoder, retentionDays: settings.tracesRetentionDays }),
    memoryBytes: settings.ingestMemoryBytes,
    quota: { bytesPerSecond: settings.quotaBytesPerSecond, recordsPerSecond: settings.quotaRecordsPerSecond },
    draining: () => stopping.aborted,
  });
  registerAccountRoutes(app, { db: running.database.tables(), sessions: running.sessions, guards });
  registerEnrolmentRoutes(app, { db: running.database.tables(), masterKeys: running.masterKeys, keys: running.keyCache, guards });
  const answers = new Answers();
  observations.gauge("query_answers_held_bytes", () => answers.heldBytes);
  observations.queries("logs", () => clickhouse.reads);
  observations.queries("metrics", () => metrics.queries);
  registerLogRoutes(app, { store: logStore, answers, guards });
  registerTraceRoutes(app, { store: spanStore, answers, guards });
  registerMetricsRoutes(app, { store: metrics, answers, guards });
  if (alerting) await forwardAlerting(app, { target: alerting, guards });
  await listen(running, app, settings.api, "API");
}

async function openAlerting(running: Running): Promise<FastifyInstance> {
  const { settings, secrets, log, stack, database, metrics, guards, evaluator } = running;
  const { rulesListen: listenAt } = settings;
  if (!evaluator && !listenAt)
    log.warn("no rule will be evaluated: the evaluator is outside and RULES_LISTEN is not set (backend/engines/vmalert/README.md)");
  const alerting = stack.use(
    await startAlerting({
      db: database.tables(),
      metrics,
      embedded: evaluator,
      evaluatorQueryUrl: settings.evaluatorQueryUrl,
      vmalertCandidates: settings.vmalertPath,
      intervalMs: settings.evaluationIntervalMs,
      rulesListener: listenAt && { listen: listenAt, password: secrets.rulesPassword ?? "" },
      log,
    }),
  );
  const app = await createApp({ ...appOptions(running), openApiTitle: "AtherOps alerting API" });
  alerting.addRoutes(app, guards);
  running.observations.gauge("evaluator_in_step", () => Number(alerting.inStep));
  await listen(running, app, settings.alerting, "alerting");
  return app;
}

function appOptions({ settings, log, observations }: Running) {
  return {
    log,
    tls: settings.tls,
    trustedProxies: settings.trustedProxies,
    maxConnections: settings.maxConnections,
    onFinished: (...seen: Parameters<Observations["finished"]>) => observations.finished(...seen),
  };
}

/** Listens, and closes in its turn: no new connections, requests under way are answered. */
async function listen({ stack }: Running, app: FastifyInstance, at: ListenAddress, what: string): Promise<string> {
  await closeRoutes(app);
  // Of many that come at once none is dropped, to come again seconds later; the kernel's own bound (somaxconn) is often this.
  const where = { host: at.host, port: at.port, backlog: 4096 };
  const options = { ...where, listenTextResolver: (url: string) => `${what} listens at ${url}` };
  const refuse = (cause: NodeJS.ErrnoException): never => {
    throw cannotListen(`${what.toUpperCase()}_LISTEN`, at, cause);
  };
  const shared = await sharing(where).catch(refuse);
  const address = await app.listen({ ...options, ...shared }).catch(refuse);
  const more = shared.reusePort ? await listenMore(app.server, where).catch(refuse) : undefined;
  stack.defer(async () => {
    const ended = more?.close();
    await app.close();
    await ended;
  });
  return address;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener("abort", () => resolve(), { once: true })));
}
