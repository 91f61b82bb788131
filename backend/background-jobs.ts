// Starts the background jobs of a backend with logs and spans: counts records for alert rules, derives figures from spans, removes expired
// or deleted data, stops rollouts that make nodes unhealthy. Each job ends with the backend's stack.
import { sql } from "kysely";
import { type CountedLogs, countLogs, matchingGroups } from "./alerting/log-count.ts";
import { LogCounter } from "./alerting/log-counter.ts";
import { SloRecorder } from "./alerting/slo-recorder.ts";
import type { CountNow } from "./alerting/rule-check.ts";
import type { AuditTrail } from "./auth/audit/trail.ts";
import { SpanSummaries } from "./storage/traces/summaries.ts";
import type { Opening, Stores } from "./stores.ts";
import type { Telemetry } from "./telemetry.ts";
import { RolloutWatch } from "./tenants/enrolment/rollout-watch.ts";
import { DataRemoval, type RemovalTables } from "./tenants/removal/removal-loop.ts";

type Backend = Opening & Stores;

export function openBackgroundJobs(backend: Backend & { readonly trail: AuditTrail }, telemetry: Telemetry): void {
  openLogCounter(backend, telemetry);
  openSpanSummaries(backend, telemetry);
  openSloRecorder(backend, telemetry);
  openDataRemoval(backend, telemetry);
  const { stack, database, replicas, log, trail } = backend;
  stack.use(new RolloutWatch({ db: database.tables(), replicas, log, trail }));
}

/** Counts log records for alert rules in the process that has the log store; the evaluator may run elsewhere. */
function openLogCounter({ settings, log, stack, database, metrics, ownMetrics }: Backend, telemetry: Telemetry): void {
  stack.use(
    new LogCounter({
      db: database.tables(),
      isAlone: database.engine === "sqlite",
      logs: countedLogs(telemetry),
      isFull: (orgId) => telemetry.clickhouse.isFull(orgId),
      metrics,
      intervalMs: settings.evaluationIntervalMs,
      counted: (result) => ownMetrics.logsCounted(result),
      log,
    }),
  );
}

/** Derives figures from spans, in every replica with a trace store. */
function openSpanSummaries({ settings, log, stack, metrics, stopping }: Backend, telemetry: Telemetry): void {
  const { clickhouse } = telemetry;
  const isUnused = () => telemetry.isUnused ?? false;
  // Rules read a few samples, and each sample costs a pass over the summaries of the day.
  const everyMs = Math.min(60_000, 4 * settings.evaluationIntervalMs);
  stack.use(new SpanSummaries({ clickhouse, isUnused, metrics, retentionDays: settings.tracesRetentionDays, log, everyMs, stopping }));
}

/** Counts events of service level objectives, in every replica with telemetry stores. */
function openSloRecorder({ log, stack, database, metrics }: Backend, telemetry: Telemetry): void {
  const { clickhouse, spanStore: spans } = telemetry;
  const isUnused = () => telemetry.isUnused ?? false;
  stack.use(new SloRecorder({ db: database.tables(), stores: { spans, metrics }, clickhouse, isUnused, log }));
}

function openDataRemoval({ database, metrics, retention, log, stack }: Backend, telemetry: Telemetry): void {
  const db = database.tables<RemovalTables>();
  // SQLite's write-ahead log contains deleted rows until it is overwritten.
  const scrub = async (): Promise<void> => {
    if (database.engine === "sqlite") await sql`PRAGMA wal_checkpoint(TRUNCATE)`.execute(db);
  };
  stack.use(new DataRemoval({ db, telemetry, metrics, retention, scrub, log }));
}

export function countNow(telemetry: Telemetry): CountNow {
  const logs = countedLogs(telemetry);
  return async (orgId, condition, signal) =>
    matchingGroups(condition, await countLogs(logs, orgId, condition, { atMs: Date.now(), signal }));
}

function countedLogs(telemetry: Telemetry): CountedLogs {
  return { clickhouse: telemetry.clickhouse, isUnused: () => telemetry.isUnused ?? false };
}
