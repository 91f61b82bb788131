// The own metrics of agent and backend, as the programs themselves declare them. Invariant: what is listed comes from the code that
// counts (backend/operations/own-metrics.ts, agent/status/metrics.ts), never from a list of its own.
import { type AgentStatus, ownMetrics as agentRows } from "../agent/status/metrics.ts";
import { createOwnMetrics, READ_AT_SCRAPE } from "../backend/operations/own-metrics.ts";

export interface OwnMetric {
  readonly name: string;
  readonly type: string;
  readonly unit: string;
  readonly labels: readonly string[];
  readonly meaning: string;
}

export function backendMetrics(): OwnMetric[] {
  const ownMetrics = createOwnMetrics({ defaults: false });
  for (const name of Object.keys(READ_AT_SCRAPE)) ownMetrics.gauge(name as keyof typeof READ_AT_SCRAPE, () => 0);
  const declared = ownMetrics.registry.getMetricsAsArray() as unknown as {
    name: string;
    help: string;
    type: string;
    labelNames: readonly string[];
  }[];
  return declared.map(({ name, help, type, labelNames: labels }) => ({ name, type, unit: unitOf(name, help), labels, meaning: help }));
}

export function agentMetrics(): OwnMetric[] {
  const found = new Map<string, OwnMetric>();
  for (const [name, help, , labels = {}] of agentRows(EVERYTHING))
    found.set(name, { name, type: typeOf(name), unit: unitOf(name, help), labels: Object.keys(labels), meaning: help });
  return [...found.values()];
}

function typeOf(name: string): string {
  return name.endsWith("_total") ? "counter" : "gauge";
}

/** As Prometheus has it: the unit is part of the name; of a counter, what it counts. */
function unitOf(name: string, help: string): string {
  if (name.endsWith("_timestamp_seconds")) return "seconds since 1970";
  const unit = /_(?<unit>bytes|seconds|days)(?:_total)?$/.exec(name)?.groups?.["unit"];
  if (unit) return unit;
  if (help.startsWith("1 while") || help.startsWith("1 when")) return "1 or 0";
  return /(?<counted>records|requests|restarts|queries|attempts|alerts)/.exec(name)?.groups?.["counted"] ?? "";
}

const signal = { lastSuccess: null, lastError: null, failingSince: null, accepted: 0, retried: 0, refused: 0, acceptedBytes: 0 };
const of = { ...signal, droppedPoints: { any: 0 } };

/** An agent that has a value for each of its metrics. */
const EVERYTHING: AgentStatus = {
  program: "",
  version: "",
  startedAt: "",
  signals: [],
  clockSkewS: 0,
  identity: undefined,
  heartbeat: undefined,
  collector: undefined,
  telemetry: { metrics: of, logs: of, traces: of },
};
