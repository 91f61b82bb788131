// Renders the agent's own metrics as exposition text from its status at each scrape, followed by the collector's own metrics (queue,
// refused data, memory).
import { Counter, Gauge, Registry } from "prom-client";
import agentMetrics from "../../common/agent-metrics.json" with { type: "json" };
import { ask } from "../../common/http.ts";
import type { AgentStatus, HealthSource } from "./agent-status.ts";

const COLLECTOR_SCRAPE_MS = 2000;

export async function renderMetrics(source: HealthSource): Promise<string> {
  const text = await buildRegistry(source.status()).metrics();
  return `${text}\n${await collectorMetrics(source.collectorMetricsUrl())}`;
}

/** A row without a value is omitted. The names and help texts are also in the metadata of the backend's Prometheus API. */
type Row = [name: keyof typeof agentMetrics, value: number | undefined, labels?: Record<string, string>];

function buildRegistry(status: AgentStatus): Registry {
  const registry = new Registry();
  for (const [name, value, labels = {}] of ownMetrics(status)) {
    if (value === undefined || Number.isNaN(value)) continue;
    const options = { name, help: agentMetrics[name], labelNames: Object.keys(labels), registers: [registry] };
    const known = registry.getSingleMetric(name) as Counter | Gauge | undefined;
    // By Prometheus' convention, the name of a counter ends in _total.
    (known ?? (name.endsWith("_total") ? new Counter(options) : new Gauge(options))).inc(labels, value);
  }
  return registry;
}

/** All metrics of the agent itself, including those without a value. */
export function ownMetrics(status: AgentStatus): Row[] {
  const { identity, collector, heartbeat } = status;
  return [
    ["atherops_agent_info", 1, { program: status.program, version: status.version }],
    ["atherops_agent_resident_memory_bytes", process.memoryUsage.rss()],
    ["atherops_agent_enrolled", Number(identity?.id !== undefined)],
    ["atherops_agent_identity_problem", Number(identity?.problem !== undefined)],
    ["atherops_agent_key_age_days", identity?.keyAgeDays],
    ["atherops_agent_lease_held", identity?.holdsLease === undefined ? undefined : Number(identity.holdsLease)],
    ["atherops_agent_collects_for_cluster", status.clusterCollector && Number(status.clusterCollector.leads)],
    ["atherops_agent_clock_skew_seconds", status.clockSkewS],
    ["atherops_agent_last_heartbeat_timestamp_seconds", seconds(heartbeat?.lastSuccess)],
    ["atherops_agent_collector_running", Number(collector?.state === "running")],
    ["atherops_agent_collector_restarts_total", collector?.restarts],
    ["atherops_agent_collector_config_refused", Number(collector?.configError != null)],
    ...Object.entries(status.logPolicies?.rateLimitedBytes ?? {}).map(([namespace, bytes]): Row => [
      "atherops_agent_logs_rate_limited_bytes_total",
      bytes,
      { namespace },
    ]),
    ...Object.entries(status.logFiles?.notRead ?? {}).map(([reason, files]): Row => [
      "atherops_agent_log_files_not_read",
      files,
      { reason },
    ]),
    ["atherops_agent_log_files_lost_total", status.logFiles?.lost.files],
    ["atherops_agent_log_bytes_lost_total", status.logFiles?.lost.bytes],
    ...signalRows(status),
  ];
}

function signalRows({ telemetry }: AgentStatus): Row[] {
  return Object.entries(telemetry ?? {}).flatMap(([signal, counts]): Row[] => [
    ["atherops_agent_requests_accepted_total", counts.accepted, { signal }],
    ["atherops_agent_requests_retried_total", counts.retried, { signal }],
    ["atherops_agent_requests_refused_total", counts.refused, { signal }],
    ...(signal === "logs" ? ([["atherops_agent_log_lines_split_total", counts.splitLines]] satisfies Row[]) : []),
    ["atherops_agent_accepted_bytes_total", counts.acceptedBytes, { signal }],
    ...Object.entries(counts.droppedPoints).map(([reason, points]): Row => [
      "atherops_agent_records_dropped_total",
      points,
      { signal, reason },
    ]),
    ["atherops_agent_failing", Number(counts.failingSince !== null), { signal }],
    ["atherops_agent_last_success_timestamp_seconds", seconds(counts.lastSuccess), { signal }],
  ]);
}

function seconds(rfc3339: string | null | undefined): number | undefined {
  return rfc3339 ? Date.parse(rfc3339) / 1000 : undefined;
}

async function collectorMetrics(url: string | undefined): Promise<string> {
  if (url === undefined) return "";
  try {
    return (await ask(url, { signal: AbortSignal.timeout(COLLECTOR_SCRAPE_MS) })).text;
  } catch {
    // `atherops_agent_collector_running` reports it, and a scrape must not fail because the collector restarts.
    return "";
  }
}
