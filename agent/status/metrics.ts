// Renders the agent's own metrics as exposition text from its status at each scrape, followed by the collector's own metrics (queue,
// refused data, memory).
import { Counter, Gauge, Registry } from "prom-client";
import { ask } from "../../common/http.ts";
import type { AgentStatus, HealthSource } from "./agent-status.ts";

const COLLECTOR_SCRAPE_MS = 2000;

export async function renderMetrics(source: HealthSource): Promise<string> {
  const own = await registryOf(source.status()).metrics();
  return `${own}\n${await collectorMetrics(source.collectorMetricsUrl())}`;
}

/** A row without a value is omitted. */
type Row = [name: string, help: string, value: number | undefined, labels?: Record<string, string>];

function registryOf(status: AgentStatus): Registry {
  const registry = new Registry();
  for (const [name, help, value, labels = {}] of ownMetrics(status)) {
    if (value === undefined || Number.isNaN(value)) continue;
    const options = { name, help, labelNames: Object.keys(labels), registers: [registry] };
    const known = registry.getSingleMetric(name) as Counter | Gauge | undefined;
    // As usual in Prometheus, the name shows the type: a counter ends in _total.
    (known ?? (name.endsWith("_total") ? new Counter(options) : new Gauge(options))).inc(labels, value);
  }
  return registry;
}

/** All metrics of the agent itself, including those without a value. */
export function ownMetrics(status: AgentStatus): Row[] {
  const { identity, collector, heartbeat } = status;
  return [
    ["atherops_agent_info", "Always 1; the version is a label.", 1, { program: status.program, version: status.version }],
    ["atherops_agent_resident_memory_bytes", "Resident memory of the agent's own process.", process.memoryUsage.rss()],
    ["atherops_agent_enrolled", "1 while there is a key.", Number(identity?.id !== undefined)],
    [
      "atherops_agent_identity_problem",
      "1 while something keeps the identity from working; see /status.",
      Number(identity?.problem !== undefined),
    ],
    ["atherops_agent_key_age_days", "Age of the key as the backend says.", identity?.keyAgeDays],
    [
      "atherops_agent_lease_held",
      "1 while this agent acts for the cluster.",
      identity?.holdsLease === undefined ? undefined : Number(identity.holdsLease),
    ],
    [
      "atherops_agent_collects_for_cluster",
      "1 while this agent collects state and events of the whole cluster; one of them does.",
      status.clusterCollector && Number(status.clusterCollector.leads),
    ],
    ["atherops_agent_clock_skew_seconds", "How far the backend's clock is ahead of this machine's.", status.clockSkewS],
    [
      "atherops_agent_last_heartbeat_timestamp_seconds",
      "Time of the last heartbeat that the backend took.",
      seconds(heartbeat?.lastSuccess),
    ],
    ["atherops_agent_collector_running", "1 while the collector runs.", Number(collector?.state === "running")],
    ["atherops_agent_collector_restarts_total", "Restarts of the collector after a crash.", collector?.restarts],
    [
      "atherops_agent_collector_config_refused",
      "1 while the newest configuration is not in force.",
      Number(collector?.configError != null),
    ],
    ...Object.entries(status.logPolicies?.rateLimitedBytes ?? {}).map(([namespace, bytes]): Row => [
      "atherops_agent_logs_rate_limited_bytes_total",
      "Bytes of pods' logs that rate limits dropped, estimated from the growth of their files.",
      bytes,
      { namespace },
    ]),
    ...signalRows(status),
  ];
}

function signalRows({ telemetry }: AgentStatus): Row[] {
  return Object.entries(telemetry ?? {}).flatMap(([signal, of]): Row[] => [
    ["atherops_agent_requests_accepted_total", "Requests of the collector that the backend took.", of.accepted, { signal }],
    ["atherops_agent_requests_retried_total", "Requests that the collector was asked to send again.", of.retried, { signal }],
    ["atherops_agent_requests_refused_total", "Requests that the backend refused for good; their data is lost.", of.refused, { signal }],
    [
      "atherops_agent_accepted_bytes_total",
      "Body bytes of the requests that the backend took: of applications' logs and traces as the collector compressed them, of metrics and lines of files uncompressed.",
      of.acceptedBytes,
      { signal },
    ],
    ...Object.entries(of.droppedPoints).map(([reason, points]): Row => [
      "atherops_agent_records_dropped_total",
      "Metric points and records left out by reason; the rest of their request went through.",
      points,
      { signal, reason },
    ]),
    ["atherops_agent_failing", "1 while nothing of this signal gets through.", Number(of.failingSince !== null), { signal }],
    ["atherops_agent_last_success_timestamp_seconds", "When the backend last took something.", seconds(of.lastSuccess), { signal }],
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
    // Safe: `atherops_agent_collector_running` reports it, and a scrape must not fail because the collector restarts.
    return "";
  }
}
