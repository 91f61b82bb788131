// Dashboards that come with the product: those of docs/dashboards, which Grafana reads too, and those of hosts, pods and services. The pages of
// entities show the same panels.
import type { Dashboard, Panel, PanelQuery, Variable } from "./dashboard.ts";
import { readGrafana } from "./grafana.ts";
import type { Unit } from "../metrics/unit.ts";

interface Shipped {
  readonly id: string;
  readonly title: string;
  readonly read: () => Promise<Dashboard>;
}

const ofGrafana = (load: () => Promise<{ default: unknown }>) => async (): Promise<Dashboard> =>
  readGrafana((await load()).default).dashboard;

/** Prefix of their ids in addresses. */
export const SHIPPED_PREFIX = "shipped-";

export const SHIPPED: readonly Shipped[] = [
  { id: "host", title: "Host", read: async () => await Promise.resolve(HOST) },
  { id: "node", title: "Kubernetes node", read: ofGrafana(async () => await import("../../../docs/dashboards/node.json")) },
  { id: "namespace", title: "Kubernetes namespace", read: ofGrafana(async () => await import("../../../docs/dashboards/namespace.json")) },
  { id: "workload", title: "Kubernetes workload", read: ofGrafana(async () => await import("../../../docs/dashboards/workload.json")) },
  { id: "pod", title: "Kubernetes pod", read: async () => await Promise.resolve(POD) },
  { id: "agents", title: "Agents of a cluster", read: ofGrafana(async () => await import("../../../docs/dashboards/agents.json")) },
  { id: "service", title: "Service", read: async () => await Promise.resolve(SERVICE) },
];

export async function readShipped(id: string): Promise<Dashboard | undefined> {
  return await SHIPPED.find((shipped) => shipped.id === id)?.read();
}

const lines = (title: string, unit: Unit, ...queries: PanelQuery[]): Panel => ({
  title,
  kind: "timeseries",
  source: "metrics",
  unit,
  width: 6,
  queries,
});
const values = (name: string, metric: string, label: string): Variable => ({ name, query: `group by (${label}) (${metric})`, label });

const ON_HOST = '{host_id="$host"}';
const HOST: Dashboard = {
  name: "Host",
  description: "CPU, memory, file systems, disks and network of a host",
  variables: [values("host", "system_memory_usage_bytes", "host_id")],
  panels: [
    lines("CPU utilization", "percentunit", {
      query: `1 - sum(rate(system_cpu_time_seconds_total{host_id="$host",state="idle"}[5m])) / sum(rate(system_cpu_time_seconds_total${ON_HOST}[5m]))`,
      legend: "in use",
    }),
    lines(
      "Load average",
      "short",
      { query: `system_cpu_load_average_1m${ON_HOST}`, legend: "1 minute" },
      { query: `system_cpu_load_average_5m${ON_HOST}`, legend: "5 minutes" },
      { query: `system_cpu_load_average_15m${ON_HOST}`, legend: "15 minutes" },
    ),
    lines("Memory", "bytes", { query: `sum by (state) (system_memory_usage_bytes${ON_HOST})`, legend: "{{state}}" }),
    lines("File system utilization", "percentunit", {
      query: `sum by (mountpoint) (system_filesystem_usage_bytes{host_id="$host",state="used"}) / sum by (mountpoint) (system_filesystem_usage_bytes${ON_HOST})`,
      legend: "{{mountpoint}}",
    }),
    lines("Disks", "Bps", { query: `sum by (direction) (rate(system_disk_io_bytes_total${ON_HOST}[5m]))`, legend: "{{direction}}" }),
    lines("Network", "Bps", { query: `sum by (direction) (rate(system_network_io_bytes_total${ON_HOST}[5m]))`, legend: "{{direction}}" }),
  ],
};

const IN_POD = 'k8s_cluster_name="$cluster",k8s_namespace_name="$namespace",k8s_pod_name="$pod"';
const OF_POD = 'k8s_cluster_name="$cluster",namespace="$namespace",pod="$pod",container!=""';
const POD: Dashboard = {
  name: "Pod",
  description: "CPU, memory, restarts and network of a pod",
  variables: [
    values("cluster", "k8s_pod_phase", "k8s_cluster_name"),
    values("namespace", 'k8s_pod_phase{k8s_cluster_name="$cluster"}', "k8s_namespace_name"),
    values("pod", 'k8s_pod_phase{k8s_cluster_name="$cluster",k8s_namespace_name="$namespace"}', "k8s_pod_name"),
  ],
  panels: [
    lines(
      "CPU",
      "short",
      { query: `sum by (container) (rate(container_cpu_usage_seconds_total{${OF_POD}}[5m]))`, legend: "{{container}}" },
      { query: `sum by (k8s_container_name) (k8s_container_cpu_request{${IN_POD}})`, legend: "{{k8s_container_name}} requested" },
    ),
    lines(
      "Memory",
      "bytes",
      { query: `sum by (container) (container_memory_working_set_bytes{${OF_POD}})`, legend: "{{container}}" },
      { query: `max by (k8s_container_name) (k8s_container_memory_limit_bytes{${IN_POD}})`, legend: "{{k8s_container_name}} limit" },
    ),
    lines("Ready containers", "short", { query: `k8s_container_ready{${IN_POD}}`, legend: "{{k8s_container_name}}" }),
    lines("Restarts", "short", {
      query: `max by (k8s_container_name) (k8s_container_restarts{${IN_POD}})`,
      legend: "{{k8s_container_name}}",
    }),
    lines("Phase (1 pending, 2 running, 3 succeeded, 4 failed, 5 unknown)", "short", {
      query: `k8s_pod_phase{${IN_POD}}`,
      legend: "phase",
    }),
    lines("File system", "bytes", { query: `k8s_pod_filesystem_usage_bytes{${IN_POD}}`, legend: "used" }),
  ],
};

const CALLS = 'traces_spanmetrics_calls_total{service="$service",span_kind=~"SPAN_KIND_SERVER|SPAN_KIND_CONSUMER"';
const LATENCY = 'traces_spanmetrics_latency_bucket{service="$service",span_kind=~"SPAN_KIND_SERVER|SPAN_KIND_CONSUMER"}';
const quantile = (share: number): PanelQuery => ({
  query: `histogram_quantile(${share}, sum by (le) (rate(${LATENCY}[5m])))`,
  legend: `p${share * 100}`,
});
const SERVICE: Dashboard = {
  name: "Service",
  description: "Rate, errors and latency of a service, from its spans",
  variables: [values("service", "traces_spanmetrics_calls_total", "service")],
  panels: [
    lines("Calls by operation", "reqps", { query: `topk(10, sum by (span_name) (rate(${CALLS}}[5m])))`, legend: "{{span_name}}" }),
    lines("Errors", "percentunit", {
      query: `sum(rate(${CALLS},status_code="STATUS_CODE_ERROR"}[5m])) / sum(rate(${CALLS}}[5m]))`,
      legend: "errors",
    }),
    lines("Latency", "s", quantile(0.5), quantile(0.95), quantile(0.99)),
  ],
};
