// Defines the backend's metrics about itself, in one registry that health.ts serves as /metrics. Invariant: labels have few values (signal,
// reason, route, engine), never an organisation, a key or anything from a payload.
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";

export type Signal = "metrics" | "logs" | "traces";

const LATENCY_BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Metrics that are read at each scrape: name without prefix → help text. They are listed here so that docs/reference can be generated. */
export const READ_AT_SCRAPE = {
  ingest_held_bytes: "Bytes of ingest bodies in memory.",
  ingest_requests_in_flight: "Ingest requests that are being read or stored.",
  query_answers_held_bytes: "Bytes of responses that clients have not read yet, and reserved for running queries.",
  rows_pending_bytes: "Bytes of acknowledged logs and spans that are in the journal and not in their tables yet. Embedded engine only.",
  rows_pending_failing_seconds: "Seconds for which the embedded engine has not accepted acknowledged rows; 0: it accepts them.",
  dead_letters: "Journal entries that the embedded engine permanently refused, since the start; the log names their files.",
  rows_dropped: "Acknowledged rows that were lost because dead letters were full, since the start.",
  auth_stale_seconds:
    "Seconds for which the backend has accepted keys, sessions and tokens from memory, because the account database does not respond; 0: it has not accepted any.",
  backup_last_timestamp_seconds: "Start time of the newest complete backup in BACKUP_FOLDER; 0: there is none. Only with BACKUP_EVERY.",
  evaluator_in_step:
    "0 while a changed rule has waited for vmalert for more than 5 s, or while the backend cannot read the rules or reach vmalert; otherwise 1.",
  evaluator_up: "1 while vmalert responds, so rules are evaluated.",
  notification_working: "0 while alerts are not dispatched, or messages about them are not sent; otherwise 1.",
  notification_attempts_in_flight: "Messages to channels that are being sent.",
} as const;

export type OwnMetrics = ReturnType<typeof createOwnMetrics>;

/** Without `defaults`, there are no metrics of the process and the event loop, whose timers run as long as the process. */
export function createOwnMetrics({ defaults = true }: { defaults?: boolean } = {}) {
  const registry = new Registry();
  const registers = [registry];
  if (defaults) collectDefaultMetrics({ register: registry });
  const counter = <Label extends string>(name: string, labelNames: Label[], help: string) =>
    new Counter({ name: `atherops_${name}_total`, help, labelNames, registers });
  const accepted = counter("ingest_records_accepted", ["signal"], "Records of acknowledged requests, without dropped ones, by signal.");
  const dropped = counter(
    "ingest_records_dropped",
    ["signal", "reason"],
    "Records, samples and exemplars that were left out while the rest of their request was stored, by signal and reason.",
  );
  const rejected = counter(
    "ingest_requests_rejected",
    ["signal", "reason"],
    "Ingest requests that were answered with an error, also before their body was read, by signal and error code.",
  );
  const latency = new Histogram({
    name: "atherops_http_request_duration_seconds",
    help: "Time from the request's headers to the end of the response.",
    labelNames: ["route", "method", "status"],
    buckets: LATENCY_BUCKETS_S,
    registers,
  });
  const restarts = counter("engine_restarts", ["engine"], "Restarts of embedded engines that had exited.");
  const logCounts = counter(
    "log_rule_counts",
    ["result"],
    "Counts of log records for alert rules, by result: counted, failed (reported in the rule's status).",
  );
  const attempts = counter(
    "notification_attempts",
    ["result"],
    "Attempts to send a message to a channel, by result: delivered, retried (later), failed (permanently).",
  );
  const droppedAlerts = counter(
    "notification_alerts_dropped",
    ["reason"],
    "Alerts that were not stored, or were left out of alert groups because of an organisation's limits (too_many_groups: counted at each pass, for each channel), by reason.",
  );
  const killedJobs = counter(
    "sandbox_jobs_killed",
    ["reason"],
    "Queries whose sandbox process was killed or crashed, by reason: cpu_time, memory, no_progress, crash, client_gone.",
  );
  return {
    registry,
    /** Records of a body that was stored and acknowledged with 204. */
    accepted: (signal: Signal, records: number) => accepted.inc({ signal }, records),
    /** Records that were not stored, by reason; the rest of their body was stored. */
    dropped: (signal: Signal, reason: string, records: number) => dropped.inc({ signal, reason }, records),
    /** A body that was rejected as a whole, by error code. */
    rejected: (signal: Signal, code: string) => rejected.inc({ signal, reason: code }),
    /** A finished HTTP request; `route` is the pattern, not the path. For `onFinished` of http/app.ts. */
    finished: (route: string, method: string, status: number, seconds: number) => latency.observe({ route, method, status }, seconds),
    logsCounted: (result: "counted" | "failed") => logCounts.inc({ result }),
    notified: (result: "delivered" | "retried" | "failed") => attempts.inc({ result }),
    /** Alerts of the evaluator, or groups of them, that were dropped, by reason. */
    notificationDropped: (reason: string, count: number) => droppedAlerts.inc({ reason }, count),
    /** A sandbox process was killed, or exited, while it had a job. */
    sandboxJobKilled: (reason: string) => killedJobs.inc({ reason }),
    /** An embedded engine runs again after it had exited. */
    restarted: (engine: string) => restarts.inc({ engine }),
    ...createGauges(registers),
  };
}

function createGauges(registers: Registry[]) {
  const readers = new Map<string, () => { running: number; waiting: number }>();
  for (const state of ["running", "waiting"] as const)
    void new Gauge({
      name: `atherops_queries_${state}`,
      help: `Tenants' queries that are ${state}, by store: metrics, logs (with traces), sandbox (LogQL).`,
      labelNames: ["store"],
      registers,
      collect() {
        for (const [store, read] of readers) this.set({ store }, read()[state]);
      },
    });
  const engineUp = new Gauge({
    name: "atherops_engine_up",
    help: "1 if the engine responded to the last check of /readyz, by engine.",
    labelNames: ["engine"],
    registers,
  });
  return {
    /** Queries of tenants in a store, read at scrape time. */
    queries: (store: string, read: () => { running: number; waiting: number }) => void readers.set(store, read),
    engineUp: (engine: string, isUp: boolean) => engineUp.set({ engine }, Number(isUp)),
    gauge: (name: keyof typeof READ_AT_SCRAPE, read: () => number) =>
      void new Gauge({
        name: `atherops_${name}`,
        help: READ_AT_SCRAPE[name],
        registers,
        collect() {
          this.set(read());
        },
      }),
  };
}
