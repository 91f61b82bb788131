// Opens the stores of one backend, including engines that are embedded. Invariant: a returned store is ready for use, with the schema of
// this version; everything that was opened closes with `stack`.
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { sql } from "kysely";
import type { ShareSlots } from "./admission/fair-queue.ts";
import { bootstrap } from "./bootstrap.ts";
import type { SnapshotSources } from "./operations/backup/snapshot-server.ts";
import { openClickHouse } from "./engines/clickhouse/clickhouse-client.ts";
import { requireEmbedded } from "./engines/clickhouse/embedded-clickhouse.ts";
import { freezeTables } from "./engines/clickhouse/freeze.ts";
import { prepare } from "./engines/clickhouse/prepare.ts";
import { openDatabase, type Database } from "./engines/relational/database.ts";
import { migrate as migrateDatabase } from "./engines/relational/migrate.ts";
import { type EmbeddedVictoriaMetrics, startVictoriaMetrics } from "./engines/victoria-metrics/embedded-victoria-metrics.ts";
import { OutsideJournal } from "./engines/victoria-metrics/outside-journal.ts";
import { reportLeftWrites } from "./engines/victoria-metrics/journal.ts";
import { type EmbeddedEvaluator, startEvaluator } from "./engines/vmalert/embedded-vmalert.ts";
import { TableLimits } from "./storage/removal/table-limits.ts";
import { OrgRetention } from "./tenants/removal/retention.ts";
import type { MasterKeys } from "./tenants/enrolment/master-key.ts";
import { ClickHouseLogStore } from "./storage/logs/log-store.ts";
import { VictoriaMetricsStore } from "./storage/metrics/metric-store.ts";
import { type IntakeListener, startIntakeListener } from "./notification/intake/intake-listener.ts";
import { BodyClaims } from "./replicas/body-claims.ts";
import { QuerySlots } from "./replicas/query-slots.ts";
import { type ReplicaSet, SharedReplicas, singleReplica } from "./replicas/replica-set.ts";
import { createLog, type Log } from "./log.ts";
import type { OwnMetrics } from "./operations/own-metrics.ts";
import type { Role, Secrets, Settings } from "./settings.ts";
import { type OpenTelemetry, type Telemetry, TelemetryAtFirstUse } from "./telemetry.ts";
import { ClickHouseSpanStore } from "./storage/traces/span-store.ts";

export interface Opening {
  readonly settings: Settings;
  readonly secrets: Secrets;
  readonly roles: readonly Role[];
  readonly masterKeys: MasterKeys;
  readonly ownMetrics: OwnMetrics;
  readonly log: Log;
  /** Closes what was opened, in reverse order. */
  readonly stack: AsyncDisposableStack;
  /** Aborts at the first signal to stop, some time before `stopping`. */
  readonly draining: AbortSignal;
  readonly stopping: AbortSignal;
}

export interface Stores {
  readonly database: Database;
  readonly replicas: ReplicaSet;
  readonly metrics: VictoriaMetricsStore;
  readonly retention: OrgRetention;
  /** Set if vmalert is a child of this process. */
  readonly evaluator: EmbeddedEvaluator | undefined;
  /** Where the embedded vmalert posts alerts. */
  readonly intakeListener: IntakeListener | undefined;
  /** Set if the process has the role `api`. */
  readonly telemetry: Telemetry | undefined;
  /** Functions that create each embedded engine's part of a backup snapshot. */
  readonly snapshotSources: Pick<SnapshotSources, "freezeTables" | "snapshotMetrics">;
  /** One per engine, for /readyz. */
  readonly checks: Readonly<Record<string, () => Promise<void>>>;
}

/** Rejects with the first failure, in the order of this list; `stack` then closes everything that is open. */
export async function openStores(opening: Opening): Promise<Stores> {
  // Opened before the others, because with replicas the stores of logs and spans use it.
  const shared = opening.secrets.databaseUrl === undefined ? undefined : await openAccounts(opening);
  const { logsRetentionDays: logsDays, tracesRetentionDays: tracesDays, metricsRetention } = opening.settings;
  const retention = new OrgRetention({ logsDays, tracesDays, metricsDays: metricsRetention.ms / 86_400_000 });
  const [accounts, { metrics, evaluator, intakeListener, snapshotMetrics }, telemetry] = await sideBySide(opening, [
    async (part) => shared ?? (await openAccounts(part)),
    (part) => openMetrics({ ...part, retention, shared }),
    async (part) => (part.roles.includes("api") ? openTelemetry({ ...part, retention, shared }) : undefined),
  ]);
  const { database, replicas } = accounts;
  retention.useDatabase(database.tables());
  // Before the first request, because ingest drops records that are older than the retention of their organisation.
  await retention.refresh();
  opening.stack.use(retention.refreshPeriodically());
  const checks = {
    metrics: () => metrics.check(),
    database: async () => void (await sql`SELECT 1`.execute(database.tables())),
    ...(telemetry && { clickhouse: () => telemetry.clickhouse.ping() }),
  };
  const snapshotSources = { ...freezing(telemetry), ...(snapshotMetrics && { snapshotMetrics }) };
  return { database, replicas, metrics, retention, evaluator, intakeListener, telemetry, snapshotSources, checks };
}

function freezing(telemetry: Telemetry | undefined): Pick<SnapshotSources, "freezeTables"> {
  if (!telemetry || telemetry.clickhouse.shared) return {};
  return { freezeTables: async (name) => (telemetry.isUnused ? {} : await freezeTables(telemetry.clickhouse, name)) };
}

/**
 * Opens all parts at once, because each waits for another core or another process. They are closed in reverse order, whichever was ready
 * first. A failure is reported once all have settled, so that all can be closed; if there are several, the first in order is thrown.
 */
async function sideBySide<T extends unknown[]>(
  opening: Opening,
  parts: [...{ [K in keyof T]: (part: Opening) => Promise<T[K]> }],
): Promise<T> {
  const settled = await Promise.allSettled(parts.map((open) => open({ ...opening, stack: opening.stack.use(new AsyncDisposableStack()) })));
  const failed = settled.find((result) => result.status === "rejected");
  if (failed) throw failed.reason;
  return settled.map((result) => (result as PromiseFulfilledResult<unknown>).value) as T;
}

interface Accounts {
  readonly database: Database;
  readonly replicas: ReplicaSet;
  /** Set if replicas share the tables of logs and spans. */
  readonly claims?: BodyClaims | undefined;
  readonly shareSlots?: ShareSlots;
}

async function openAccounts({ settings, secrets, masterKeys, log, stack, roles }: Opening): Promise<Accounts> {
  const database = stack.use(await openDatabase({ url: secrets.databaseUrl, dataDir: settings.dataDir, log }));
  for (const name of await migrateDatabase(database)) log.info({ event: "database.schema_migrated", migration: name }, "schema migrated");
  await bootstrap({ database, settings, secrets, masterKeys, log });
  if (database.engine === "sqlite" || !roles.includes("api")) return { database, replicas: singleReplica() };
  const db = database.tables<unknown>();
  const replicas = stack.use(await SharedReplicas.open({ db }));
  const claims = secrets.clickhouseUrl ? stack.use(new BodyClaims({ db, replicas, log })) : undefined;
  const querySlots = stack.use(new QuerySlots({ db, replicas, log }));
  return { database, replicas, claims, shareSlots: (kind, perOrg) => querySlots.share(kind, perOrg) };
}

type RetainingOpening = Opening & { readonly retention: OrgRetention; readonly shared: Accounts | undefined };
type OpenedMetrics = Pick<Stores, "metrics" | "evaluator" | "intakeListener"> & Pick<SnapshotSources, "snapshotMetrics">;

async function openMetrics(opening: RetainingOpening): Promise<OpenedMetrics> {
  const { settings, ownMetrics, log, stack, stopping, roles, retention, shared } = opening;
  const oldestMsOf = (orgId: string): number | undefined => {
    const { metricsDays } = retention.of(orgId);
    return metricsDays < retention.defaults.metricsDays ? Date.now() - metricsDays * 86_400_000 : undefined;
  };
  const { metricsWriteUrl: writeUrl, metricsQueryUrl: queryUrl } = settings;
  if (writeUrl && queryUrl) {
    await reportLeftWrites(join(settings.dataDir, "metrics-journal"), log);
    const { dataDir, api, isMetricsJournalSynced: isSynced } = settings;
    // Only the API writes samples.
    const outsideJournal = roles.includes("api")
      ? stack.use(new OutsideJournal({ dataDir, port: api.port, writeUrl, isSynced, log }))
      : undefined;
    const outside = stack.use(
      new VictoriaMetricsStore({
        writeUrl,
        queryUrl,
        outsideJournal,
        stopping,
        oldestMsOf,
        querySlots: settings.metricsQuerySlots,
        shareSlots: shared?.shareSlots,
      }),
    );
    return { metrics: outside, evaluator: undefined, intakeListener: undefined };
  }
  const engine = await startVictoriaMetrics({
    candidates: settings.victoriaMetricsPath,
    dataDir: settings.dataDir,
    retention: settings.metricsRetention.text,
    passwordFile: join(settings.dataDir, "secrets", "engine-password"),
    isJournalSynced: settings.isMetricsJournalSynced,
    log,
    stopping,
    onRestart: () => ownMetrics.restarted("victoria-metrics"),
  });
  stack.use(engine);
  // If there are several cores, the queries of one organisation leave a core for all others.
  const queriesPerOrg = Math.max(1, Math.min(2, availableParallelism() - 1));
  const metrics = stack.use(
    new VictoriaMetricsStore({ ...engine, queriesPerOrg, stopping, oldestMsOf, querySlots: settings.metricsQuerySlots }),
  );
  const isOurs = roles.includes("alerting") && !settings.evaluatorQueryUrl;
  const intakeListener = isOurs ? stack.use(await startIntakeListener()) : undefined;
  const evaluator = intakeListener && stack.use(await openEvaluator(opening, engine, intakeListener.url));
  return { metrics, evaluator, intakeListener, snapshotMetrics: (journalFolder) => engine.snapshot(journalFolder) };
}

function openEvaluator(opening: Opening, engine: EmbeddedVictoriaMetrics, ownNotifierUrl: string): Promise<EmbeddedEvaluator> {
  const { settings, ownMetrics, log, stopping } = opening;
  return startEvaluator({
    candidates: settings.vmalertPath,
    dataDir: settings.dataDir,
    listen: settings.evaluatorListen,
    passwordFile: join(settings.dataDir, "secrets", "engine-password"),
    intervalMs: settings.evaluationIntervalMs,
    delayMs: settings.evaluationDelayMs,
    metricsQueryUrl: engine.queryUrl,
    metricsWriteUrl: engine.writeUrl,
    notifierUrls: [ownNotifierUrl, ...(settings.alertmanagerUrl === undefined ? [] : [settings.alertmanagerUrl])],
    log,
    stopping,
    onRestart: () => ownMetrics.restarted("vmalert"),
  });
}

/**
 * An embedded store that was never used is opened at first use: its library alone takes 170 MB of resident memory, and a third of the start
 * time.
 */
async function openTelemetry(opening: RetainingOpening): Promise<Telemetry> {
  const { settings, secrets, log, stack } = opening;
  if (secrets.clickhouseUrl || existsSync(clickhouseFolder(settings))) return await openTelemetryNow(opening);
  requireEmbedded();
  const atFirstUse = async (): Promise<OpenTelemetry> => {
    await using own = new AsyncDisposableStack();
    const opened = await openTelemetryNow({ ...opening, stack: own });
    log.info({ event: "clickhouse.opened" }, "log and trace store opened at its first use");
    const kept = own.move();
    return { ...opened, [Symbol.asyncDispose]: () => kept.disposeAsync() };
  };
  return stack.use(new TelemetryAtFirstUse(atFirstUse));
}

function clickhouseFolder({ dataDir }: Settings): string {
  return join(dataDir, "clickhouse");
}

/** Creates the tables of all shards. The backend does so at each start; a new shard needs them before that. */
export async function prepareClickHouse(settings: Settings, url: string): Promise<void> {
  const log = createLog(settings.logLevel);
  await using clickhouse = await openClickHouse({ url, cluster: settings.clickhouseCluster, dataDir: clickhouseFolder(settings), log });
  await prepare(clickhouse, log, settings.clickhouseTier);
  log.info({ event: "clickhouse.prepared", shards: clickhouse.shards.length }, "tables of all shards are ready");
}

async function openTelemetryNow(opening: RetainingOpening): Promise<Telemetry> {
  const { settings, secrets, log, stack, stopping, retention, shared } = opening;
  const clickhouse = stack.use(
    await openClickHouse({
      url: secrets.clickhouseUrl,
      dataDir: clickhouseFolder(settings),
      cluster: settings.clickhouseCluster,
      insertQuorum: settings.clickhouseInsertQuorum,
      insertConnections: settings.clickhouseInsertConnections,
      insertIntervalMs: settings.clickhouseInsertIntervalMs,
      querySlots: settings.clickhouseQuerySlots,
      spread: settings.clickhouseSpreadOrganisations,
      partialAnswers: settings.clickhousePartialAnswers,
      threads: settings.threadPoolSize,
      shareSlots: shared?.shareSlots,
      log,
      stopping,
    }),
  );
  await prepare(clickhouse, log, settings.clickhouseTier);
  await retention.useTables(new TableLimits(clickhouse, log), log);
  const logStore = stack.use(await ClickHouseLogStore.open(clickhouse, shared?.claims));
  const spanStore = stack.use(await ClickHouseSpanStore.open(clickhouse, (orgId) => retention.of(orgId).tracesDays, shared?.claims));
  return { clickhouse, logStore, spanStore };
}
