// The composition root of `serve`: opens stores, adds routes, starts listeners. Invariant: it stops in reverse: it becomes not ready,
// accepts no new requests, finishes and flushes accepted requests, then closes the engines. Only this file, stores.ts, background-jobs.ts
// and sender-protocols.ts wire modules together.
import { once } from "node:events";
import type { FastifyInstance } from "fastify";
import { isLoopback } from "../common/ip-networks.ts";
import { registerAccountRoutes, registerEnrolmentRoutes } from "./tenants/tenant-routes.ts";
import { createUserGuards } from "./auth/sessions/guards.ts";
import { countNow, openBackgroundJobs } from "./background-jobs.ts";
import { BrowserSessions } from "./auth/sessions/browser-session.ts";
import { ReadTokens } from "./auth/sessions/read-token.ts";
import { Sessions, type SigningSecrets } from "./auth/sessions/session.ts";
import type { AccountTables } from "./auth/sessions/account-tables.ts";
import { newestBackupMs, scheduleBackups } from "./operations/backup/backup-schedule.ts";
import { externalOf, removeSnapshotRemains } from "./operations/backup/snapshot-protocol.ts";
import { serveSnapshots } from "./operations/backup/snapshot-server.ts";
import { loadSecrets } from "./operations/backup/secrets.ts";
import { addRoutesToApi, addServiceRoutes } from "./alerting/mount.ts";
import { addRemoteAlerting } from "./alerting/remote.ts";
import { RULE_DECLARATIONS } from "./alerting/alert-rule-routes.ts";
import { registerSloReports } from "./alerting/slo-report-routes.ts";
import { SLO_DECLARATIONS } from "./alerting/slo-routes.ts";
import { type Alerting, startAlerting } from "./alerting/start-alerting.ts";
import { registerAuditRoutes } from "./auth/audit/audit-routes.ts";
import { AuditTrail } from "./auth/audit/trail.ts";
import { DatabaseOutage } from "./auth/database-outage.ts";
import { IngestTokens } from "./auth/ingest-tokens/ingest-tokens.ts";
import { createFetchKeys } from "./auth/issuers/key-set.ts";
import { TrustedIssuers } from "./auth/issuers/trusted-issuers.ts";
import { Outgoing } from "./outgoing/outgoing.ts";
import { createSignedGuard } from "./auth/signed-requests.ts";
import { freeHeapWhenIdle, limitHeapGrowth } from "./engines/heap.ts";
import { KeyCache } from "./tenants/enrolment/key-cache.ts";
import { MasterKeys } from "./tenants/enrolment/master-key.ts";
import { startHealth } from "./http/health.ts";
import { registerIngestRoutes } from "./ingest/ingest-routes.ts";
import { OtlpDecoder } from "./ingest/otlp/otlp-decoder.ts";
import { createOtlpIngest } from "./ingest/otlp/otlp-ingest.ts";
import { createLog } from "./log.ts";
import { PLAIN_LINES } from "./ingest/exposition/plain-lines.ts";
import { WRITE_KERNEL } from "./ingest/remote-write/fast-check.ts";
import { OTLP_KERNEL } from "./ingest/otlp/fast-decode.ts";
import { registerChangesRoute } from "./query/changes/changes-route.ts";
import { registerKubernetesRoute } from "./query/kubernetes/kubernetes-route.ts";
import { registerMcpRoute } from "./query/mcp/mcp-route.ts";
import { registerProblemsRoute } from "./query/problems/problems-route.ts";
import { registerLogRoutes } from "./query/native/log-routes.ts";
import { chooseByJob } from "./query/loki/jobs.ts";
import { registerLokiRoutes } from "./query/loki/loki-routes.ts";
import { exchangeSeriesSketches } from "./storage/metrics/series-sketches.ts";
import { ActiveSeries } from "./storage/metrics/active-series.ts";
import { newHashKey } from "./storage/metrics/series-hash.ts";
import { registerMetricsRoutes } from "./query/prometheus/promql-routes.ts";
import { createOwnMetrics, type OwnMetrics } from "./operations/own-metrics.ts";
import { ResponseBudget } from "./http/response-budget.ts";
import type { Guards } from "./http/request-identity.ts";
import { createApp } from "./http/app.ts";
import { Connections } from "./http/server-connections.ts";
import { createEvaluator } from "./notification/intake/evaluations.ts";
import { type Notification, startNotification } from "./notification/start-notification.ts";
import { createNotificationRoutes, NOTIFICATION_DECLARATIONS } from "./notification/api/notification-routes.ts";
import { type Channels, startChannels } from "./notification/create-channels.ts";
import type { Route } from "./http/route.ts";
import { readConsole, registerConsole } from "./http/console.ts";
import { listen } from "./http/listen.ts";
import { loggable } from "./settings.ts";
import { READING_LIMITS } from "./query/sandbox/sandbox-limits.ts";
import { type JobRunner, Sandbox } from "./query/sandbox/sandbox.ts";
import type { KillReason } from "./query/sandbox/sandbox-process.ts";
import { registerSsoRoutes } from "./auth/sso/sso-routes.ts";
import { openMetricsIngest, openSenderProtocols } from "./sender-protocols.ts";
import { type LocalStart, openStartChannel } from "./launcher-channel.ts";
import { type Opening, openStores, type Stores } from "./stores.ts";
import { UsageCounter } from "./tenants/usage/counter.ts";
import { OrgLimits } from "./tenants/usage/usage-limits.ts";
import { registerSavedRoutes } from "./tenants/saved/saved-item-routes.ts";
import { registerRemovalRoutes } from "./tenants/removal/removal-routes.ts";
import { registerUsageRoutes } from "./tenants/usage/usage-routes.ts";
import type { Telemetry } from "./telemetry.ts";
import { registerTraceRoutes } from "./query/native/trace-routes.ts";

/** State that the parts of a running backend share. */
interface Running extends Opening, Stores {
  readonly keyCache: KeyCache;
  readonly sessions: Sessions;
  readonly browserSessions: BrowserSessions;
  readonly signing: SigningSecrets;
  readonly trail: AuditTrail;
  readonly readTokens: ReadTokens;
  readonly ingestTokens: IngestTokens;
  readonly issuers: TrustedIssuers;
  readonly guards: Guards;
  /** Memory for responses that clients have not read yet. */
  readonly responses: ResponseBudget;
  /** Only set if `npm start` started the backend. */
  readonly localStart: LocalStart | undefined;
}

/** Runs until SIGTERM or SIGINT, then stops cleanly. Throws SettingsError or StartError if the operator has to fix something. */
export async function serve({ settings, secrets, roles }: Pick<Opening, "settings" | "secrets" | "roles">): Promise<void> {
  const log = createLog(settings.logLevel);
  const end = endAtSignals(settings.drainDelayMs);
  const ownMetrics = createOwnMetrics();
  await using stack = new AsyncDisposableStack();
  log.info({ event: "backend.starting", settings: loggable(settings), roles }, "starting");
  let started: { readonly checks: Stores["checks"]; readonly notification: Notification | undefined } | undefined;
  // Before the engines open: a recovery can take minutes, and a process whose /healthz does not respond would be killed in it.
  await using _health = await startHealth({
    listen: settings.health,
    checks: () => started?.checks,
    registry: ownMetrics.registry,
    alertingFailures: () => started?.notification?.failing ?? [],
    onChecked: (engine, isUp) => ownMetrics.engineUp(engine, isUp),
    draining: () => end.draining.aborted,
    log,
  });
  try {
    const running = await open({ settings, secrets, log, stack, draining: end.draining, stopping: end.stopping, roles, ownMetrics });
    const alerting = roles.includes("alerting") ? await openAlerting(running) : undefined;
    if (running.telemetry) await openApi(running, running.telemetry, alerting?.routes ?? []);
    if (running.telemetry) openBackgroundJobs(running, running.telemetry);
    await openBackups(running);
    started = { checks: running.checks, notification: alerting?.notification };
  } catch (error) {
    if (!end.stopping.aborted) throw error;
    log.info({ event: "backend.stopping", signal: String(end.stopping.reason) }, "shutting down before the start was complete");
    return;
  }
  end.hasStarted();
  log.info({ event: "backend.started", roles }, "started");
  limitHeapGrowth();
  freeHeapWhenIdle();
  const { stopping } = end;
  if (!stopping.aborted) await once(stopping, "abort");
  log.info({ event: "backend.stopping", signal: String(stopping.reason) }, "shutting down: draining");
  // Before the health listener closes: /readyz reports "draining" until everything is finished.
  await stack.disposeAsync();
}

/**
 * `draining` aborts at the first SIGTERM or SIGINT: /readyz then fails. `stopping` aborts `delayMs` later, so that requests are still
 * accepted until load balancers have noticed; immediately at a second signal, or if the backend has not started.
 */
function endAtSignals(delayMs: number): { draining: AbortSignal; stopping: AbortSignal; hasStarted: () => void } {
  const draining = new AbortController();
  const stopping = new AbortController();
  let [waitMs, isSecond] = [0, false];
  const onSignal = (signal: NodeJS.Signals): void => {
    draining.abort(signal);
    setTimeout(() => stopping.abort(signal), isSecond ? 0 : waitMs).unref();
    isSecond = true;
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, onSignal);
  return { draining: draining.signal, stopping: stopping.signal, hasStarted: () => (waitMs = delayMs) };
}

async function open(given: Omit<Opening, "masterKeys">): Promise<Running> {
  const { settings, secrets } = given;
  const { masterKey, masterPreviousKey, jwtSecret, jwtPreviousSecret } = loadSecrets(settings, secrets);
  const masterKeys = new MasterKeys(masterKey, masterPreviousKey);
  const opening = { ...given, masterKeys };
  await removeSnapshotRemains(settings.dataDir);
  const stores = await openStores(opening);
  const db = stores.database.tables<AccountTables>();
  const signing = { jwtSecret, jwtPreviousSecret };
  const outage = new DatabaseOutage(given.log);
  opening.ownMetrics.gauge("auth_stale_seconds", () => outage.staleSeconds);
  const sessions = new Sessions({ ...signing, db, ttlMs: settings.jwtTtlMs, outage });
  const readTokens = new ReadTokens({ ...signing, db, outage });
  const trail = given.stack.use(new AuditTrail({ db: stores.database.tables(), log: given.log }));
  const browserSessions = new BrowserSessions({ ...signing, db, sessions, outage });
  const keyCache = new KeyCache(stores.database.tables(), masterKeys, undefined, outage);
  const issuers = openIssuers(given, stores.database, outage);
  const guards = { signed: createSignedGuard({ keys: keyCache }), ...createUserGuards({ sessions, browserSessions, readTokens, issuers }) };
  const { hasIngestTokens: isEnabled, allowsIngestTokensOverHttp: allowsHttp } = settings;
  const ingestTokens = new IngestTokens({ db: stores.database.tables(), isEnabled, allowsHttp, outage, issuers });
  const localStart = openStartChannel({ isLocal: isLoopback(settings.api.host) });
  const auth = { keyCache, sessions, browserSessions, signing, trail, readTokens, ingestTokens, issuers, guards };
  return { ...opening, ...stores, ...auth, responses: new ResponseBudget(), localStart };
}

function openIssuers({ settings, secrets, log }: Omit<Opening, "masterKeys">, database: Stores["database"], outage: DatabaseOutage) {
  const { notifyAllowedNetworks: allowedNetworks, notifyCaFile: caFile, noProxy } = settings;
  const outgoing = new Outgoing({ allowedNetworks, caFile, httpsProxy: secrets.httpsProxy, noProxy, log });
  return new TrustedIssuers({ db: database.tables(), fetchKeys: createFetchKeys(outgoing), log, outage });
}

/** Serves snapshots of the engines in DATA_DIR, and makes scheduled backups. If no engine is embedded, there is nothing to back up. */
async function openBackups({ settings, secrets, stack, database, snapshotSources, ownMetrics, log }: Running): Promise<void> {
  const hasAccounts = database.engine === "sqlite";
  if (!hasAccounts && Object.keys(snapshotSources).length === 0) return;
  const { dataDir, backups } = settings;
  stack.use(await serveSnapshots({ dataDir, engines: { ...snapshotSources, hasAccounts, external: externalOf(settings, secrets) }, log }));
  if (!backups) return;
  ownMetrics.gauge("backup_last_timestamp_seconds", () => (newestBackupMs(backups.folder) ?? 0) / 1000);
  stack.use(scheduleBackups(backups, { command: [process.execPath, process.argv[1] ?? ""], log }));
}

/** Without a kernel, TypeScript does the same work more slowly. */
function reportMissingKernels(log: Running["log"]): void {
  const advice = "build it with `node hack/kernel.mjs`";
  if (!OTLP_KERNEL.get())
    log.warn({ event: "backend.kernel_missing", err: OTLP_KERNEL.problem }, `WASM decoder not built, using the slower one: ${advice}`);
  const missing = [PLAIN_LINES, WRITE_KERNEL].find((kernel) => !kernel.get());
  if (missing)
    log.warn({ event: "backend.kernel_missing", err: missing.problem }, `WASM validator not built, using the slower one: ${advice}`);
}

/** `alertingRoutes`: the routes of the alerting role, if this process has it. */
async function openApi(running: Running, { clickhouse, logStore, spanStore }: Telemetry, alertingRoutes: readonly Route[]): Promise<void> {
  const { settings, log, stack, ownMetrics, guards, metrics, retention, stopping, replicas, responses: answers } = running;
  reportMissingKernels(log);
  const decoder = stack.use(new OtlpDecoder());
  const usage = stack.use(new UsageCounter({ db: running.database.tables(), log }));
  const { quotaBytesPerSecond: bytesPerSecond, quotaRecordsPerSecond: recordsPerSecond, quotaActiveSeries: activeLimit } = settings;
  const limits = new OrgLimits({
    db: running.database.tables(),
    defaults: { bytesPerSecond, recordsPerSecond, activeSeries: activeLimit },
  });
  await limits.refresh();
  stack.use(limits.refreshPeriodically());
  const activeSeries = openActiveSeries(running, limits);
  const options = appOptions(running);
  const app = await createApp({ ...options, openApiTitle: "AtherOps telemetry API" });
  app.decorate("auditTrail", running.trail);
  const days = { logs: (orgId: string) => retention.admitted(orgId).logs, traces: (orgId: string) => retention.admitted(orgId).traces };
  const logs = createOtlpIngest({ signal: "logs", store: logStore, decoder, retentionDays: days.logs });
  const traces = createOtlpIngest({ signal: "traces", store: spanStore, decoder, retentionDays: days.traces });
  const metricsIngest = openMetricsIngest(running, { activeSeries, spanStore });
  const handler = registerIngestRoutes(app, {
    guards,
    ownMetrics,
    metrics: metricsIngest.signed,
    logs,
    traces,
    memoryBytes: settings.ingestMemoryBytes,
    limitsOf: (orgId) => limits.of(orgId),
    replicas,
    usage,
    draining: () => stopping.aborted,
  });
  await openSenderProtocols(running, app, { handler, metricsIngest, logs, traces, activeSeries, connections: options.connections });
  registerAccounts(app, running);
  registerUsageRoutes(app, { db: running.database.tables(), limits, guards });
  const { masterKeys, keyCache: keys, ingestTokens, issuers } = running;
  registerEnrolmentRoutes(app, { db: running.database.tables(), masterKeys, keys, ingestTokens, issuers, guards });
  ownMetrics.gauge("query_answers_held_bytes", () => answers.heldBytes);
  reportTelemetry(ownMetrics, clickhouse);
  ownMetrics.queries("metrics", () => metrics.queries);
  const sandbox = openSandbox(running, clickhouse);
  registerQueries(app, running, { logStore, spanStore, sandbox });
  if (settings.alertingUrl !== undefined)
    await addRemoteAlerting(app, {
      url: settings.alertingUrl,
      guards,
      declarations: [...RULE_DECLARATIONS, ...SLO_DECLARATIONS, ...NOTIFICATION_DECLARATIONS],
      responses: answers,
      issueBearer: async ({ user }) => user && (await running.sessions.issueFor(user.userId)),
    });
  else addRoutesToApi(app, guards, alertingRoutes);
  const page = settings.isConsoleServed ? readConsole() : undefined;
  const start = running.localStart && { waitsFor: running.localStart.waitsFor };
  if (page) registerConsole(app, page, { guards, hasSingleSignOn: settings.oidc !== undefined, start });
  else if (settings.isConsoleServed)
    log.warn({ event: "backend.console_missing" }, "console not built: run node hack/console.mjs, or set CONSOLE=false");
  await listen(running.stack, app, settings.api, "API");
}

function reportTelemetry(ownMetrics: OwnMetrics, clickhouse: Telemetry["clickhouse"]): void {
  ownMetrics.queries("logs", () => clickhouse.reads);
  ownMetrics.gauge("rows_pending_bytes", () => clickhouse.pending?.sum("bytes") ?? 0);
  ownMetrics.gauge("rows_pending_failing_seconds", () => clickhouse.pending?.failingSeconds ?? 0);
  ownMetrics.gauge("dead_letters", () => clickhouse.pending?.sum("deadLetters") ?? 0);
  ownMetrics.gauge("rows_dropped", () => clickhouse.pending?.sum("dropped") ?? 0);
}

function registerQueries(
  app: FastifyInstance,
  { settings: { publicUrl }, guards, metrics, responses: answers, database }: Running,
  { logStore, spanStore, sandbox }: Pick<Telemetry, "logStore" | "spanStore"> & { readonly sandbox: JobRunner },
): void {
  registerLogRoutes(app, { store: logStore, sandbox, answers, guards });
  registerLokiRoutes(app, { sandbox, store: logStore, answers, guards });
  registerTraceRoutes(app, { store: spanStore, answers, guards });
  registerMetricsRoutes(app, { store: metrics, spans: spanStore, answers, guards });
  registerChangesRoute(app, { spans: spanStore, logs: logStore, metrics, db: database.tables(), answers, guards, publicUrl });
  registerKubernetesRoute(app, { metrics, answers, guards });
  registerProblemsRoute(app, { spans: spanStore, logs: logStore, metrics, db: database.tables(), answers, guards });
  registerSloReports(app, { db: database.tables(), stores: { spans: spanStore, metrics }, answers, guards });
  registerMcpRoute(app, { answers, guards, publicUrl });
}

function openActiveSeries({ database, replicas, signing, stack }: Running, limits: OrgLimits): ActiveSeries {
  const series = new ActiveSeries({ limitOf: (orgId) => limits.of(orgId).activeSeries, key: newHashKey(signing.jwtSecret) });
  if (database.engine === "postgresql") stack.use(exchangeSeriesSketches({ db: database.tables(), replicaId: replicas.id, series }));
  return series;
}

function openSandbox({ log, ownMetrics, stopping, stack }: Running, clickhouse: Telemetry["clickhouse"]): JobRunner {
  const script = new URL("./sandbox-worker.ts", import.meta.url);
  const options = { script, clickhouse, log, stopping, onKilled: (reason: KillReason) => ownMetrics.sandboxJobKilled(reason) };
  const computing = stack.use(new Sandbox(options));
  const reading = stack.use(new Sandbox({ ...options, limits: READING_LIMITS }));
  ownMetrics.queries("sandbox", () => computing.jobs);
  return chooseByJob({ computing, reading });
}

function registerAccounts(app: FastifyInstance, running: Running): void {
  registerSavedRoutes(app, { db: running.database.tables(), guards: running.guards });
  registerRemovalRoutes(app, { ...running, db: running.database.tables() });
  registerAuditRoutes(app, { db: running.database.tables(), guards: running.guards });
  const { settings, secrets, database, sessions, browserSessions, readTokens, signing, guards } = running;
  const { isPasswordLogin, oidc, noProxy } = settings;
  const { oidcClientSecret: clientSecret, httpsProxy, httpProxy } = secrets;
  const oneTimeLogin = running.localStart?.oneTimeLogin;
  registerAccountRoutes(app, { db: database.tables(), sessions, browserSessions, readTokens, guards, isPasswordLogin, oneTimeLogin });
  const provider = { clientSecret, httpsProxy, httpProxy, noProxy };
  registerSsoRoutes(app, { db: database.tables(), sessions, browserSessions, signing, oidc, provider });
}

async function openAlerting(running: Running): Promise<{ readonly routes: readonly Route[]; readonly notification: Notification }> {
  const { settings, secrets, log, stack, database, metrics, guards, evaluator, intakeListener, responses } = running;
  const { rulesListen: listenAt } = settings;
  const taking = Promise.withResolvers<Notification["takeAlerts"]>();
  if (!evaluator && !listenAt)
    log.warn({ event: "backend.rules_not_served" }, "vmalert is external and RULES_LISTEN is not set: this process serves no rules to it");
  const alerting = stack.use(
    await startAlerting({
      db: database.tables(),
      metrics,
      embedded: evaluator,
      evaluatorQueryUrl: settings.evaluatorQueryUrl,
      vmalertCandidates: settings.vmalertPath,
      intervalMs: settings.evaluationIntervalMs,
      responses,
      countLogs: running.telemetry && countNow(running.telemetry),
      rulesListener: listenAt && {
        listen: listenAt,
        password: secrets.rulesPassword ?? "",
        alertsPassword: secrets.alertsPassword,
        takeAlerts: (...call) => taking.promise.then((take) => take(...call)),
      },
      log,
    }),
  );
  const channels = startChannels({ db: database.tables(), masterKeys: running.masterKeys, settings, secrets, log });
  const notification = await openNotification(running, alerting.evaluator, channels);
  taking.resolve(notification.takeAlerts);
  intakeListener?.serve(notification.takeAlerts);
  const app = await createApp({ ...appOptions(running), openApiTitle: "AtherOps alerting API" });
  app.decorate("auditTrail", running.trail);
  const routes = [
    ...alerting.routes,
    ...createNotificationRoutes({ db: database.tables(), responses }),
    ...channels.createRoutes(() => notification.wake()),
  ];
  addServiceRoutes(app, guards, routes);
  running.ownMetrics.gauge("evaluator_in_step", () => Number(alerting.isInSync));
  await listen(running.stack, app, settings.alerting, "alerting");
  return { routes, notification };
}

async function openNotification(
  { settings, log, stack, database, ownMetrics }: Running,
  evaluator: Alerting["evaluator"],
  { store, send, externalUrl }: Channels,
): Promise<Notification> {
  const notification = stack.use(
    await startNotification({
      db: database.tables(),
      isAlone: database.engine === "sqlite",
      send,
      open: (row) => store.decrypt(row),
      externalUrl,
      evaluator: createEvaluator(evaluator, settings.evaluationIntervalMs),
      intervalMs: settings.evaluationIntervalMs,
      counts: {
        attempted: (result) => ownMetrics.notified(result),
        dropped: (reason, alerts) => ownMetrics.notificationDropped(reason, alerts),
        refusedGroups: (groups) => ownMetrics.notificationDropped("too_many_groups", groups),
      },
      log,
    }),
  );
  ownMetrics.gauge("evaluator_up", () => Number(notification.isEvaluatorUp));
  ownMetrics.gauge("notification_working", () => Number(notification.isWorking));
  ownMetrics.gauge("notification_attempts_in_flight", () => notification.attemptsInFlight);
  return notification;
}

function appOptions({ settings, log, ownMetrics, draining }: Running) {
  return {
    log,
    draining,
    tls: settings.tls,
    trustedProxies: settings.trustedProxies,
    connections: new Connections(settings.maxConnections, log),
    onFinished: (...seen: Parameters<OwnMetrics["finished"]>) => ownMetrics.finished(...seen),
  };
}
