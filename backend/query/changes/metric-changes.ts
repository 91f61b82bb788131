// Finds changes in the metrics that agents and the evaluator send: state of clusters, resources of nodes and pods, silent agents, alerts that
// began. Each question is a PromQL expression for series that are in a state now and were not before. Invariant: all questions together are
// one query (cluster-state.ts), and each returns at most MAX_CHANGED_SERIES series.
import type { QueryOptions } from "../../admission/query-queue.ts";
import type { MetricsStore } from "../../storage/metrics/metric-store.ts";
import { type Labels, readCells } from "../kubernetes/cluster-state.ts";
import { MAX_CHANGED_SERIES } from "../query-limits.ts";
import { type Change, type ChangeKind, type Comparison, evidenceOf, figure, linkTo, POINTS, wholeOf } from "./change.ts";

/** Windows in the notation of PromQL. */
interface Windows {
  /** `[3600s]` */
  readonly now: string;
  /** `[3600s] offset 3600s` */
  readonly before: string;
  /** The last twelfth of the range, at least five minutes. */
  readonly recent: string;
}

interface MetricQuestion {
  readonly score: (value: number, labels: Labels) => number;
  /** Returns the value now of each series that changed. */
  readonly query: (windows: Windows) => string;
  readonly title: (labels: Labels, value: number) => string;
  /** For the console: what to draw. */
  readonly shows: string;
  readonly unit?: string;
  /** The screen that shows it; default: the chart of `shows`. */
  readonly screen?: readonly [name: string, parameters: Readonly<Record<string, string>>];
}

/** States with a lower score are notices. */
const LEAST_PROBLEM = 50;
const CONTAINER = "k8s_cluster_name, k8s_namespace_name, k8s_pod_name, k8s_container_name";
const POD = "k8s_cluster_name, k8s_namespace_name, k8s_pod_name";
const WORKLOAD = "k8s_cluster_name, k8s_namespace_name, k8s_deployment_name";
const RESTARTS = `max by (${CONTAINER})`;
const CANNOT_RUN = `k8s_container_status_reason{k8s_container_status_reason=~"CrashLoopBackOff|ImagePullBackOff|ErrImagePull|CreateContainerConfigError|CreateContainerError"}`;
const MEMORY = "k8s_pod_memory_working_set_bytes";
const COLLECTOR_RESTARTS = "atherops_agent_collector_restarts_total";

const pod = ({ k8s_namespace_name: namespace = "", k8s_pod_name: name = "", k8s_container_name: container }: Labels): string =>
  `${namespace}/${name}${container ? ` (${container})` : ""}`;
const nodeOf = ({ k8s_node_name: name, node = "" }: Labels): string => name ?? node;
const percent = (value: number): string => `${figure(value * 100)} %`;

const appears = (expression: (window: string) => string) => (windows: Windows) =>
  `${expression(windows.now)} unless ${expression(windows.before)}`;
/** Only if others of them were there before: in new telemetry, all are new. */
const appearsBeside = (expression: (window: string) => string) => (windows: Windows) =>
  `(${appears(expression)(windows)}) and on () group(${expression(windows.before)})`;
const usedShare = (window: string): string =>
  `(max by (host_id, node, k8s_node_name, mountpoint) (max_over_time(system_filesystem_usage_bytes{state="used"}${window}))
  / sum by (host_id, node, k8s_node_name, mountpoint) (last_over_time(system_filesystem_usage_bytes${window})) > 0.9)`;

/** By kind. The window of a query is the range now or the one before it. */
const QUESTIONS: Readonly<Partial<Record<ChangeKind, readonly MetricQuestion[]>>> = {
  cluster: [
    {
      score: () => 96,
      query: appears((window) => `(min_over_time(k8s_node_condition_ready${window}) < 1)`),
      title: (labels) => `node ${nodeOf(labels)} is not ready`,
      shows: "k8s_node_condition_ready",
    },
    ...["memory", "disk", "pid"].map((resource) => ({
      score: () => 91,
      query: appears((window) => `(max_over_time(k8s_node_condition_${resource}_pressure${window}) == 1)`),
      title: (labels: Labels) => `node ${nodeOf(labels)} is under ${resource} pressure`,
      shows: `k8s_node_condition_${resource}_pressure`,
    })),
    {
      score: () => 94,
      // The series of a killed container begins when the reason changes, so the count before is that of any reason.
      query: ({ now, before }) =>
        `${RESTARTS} (max_over_time(k8s_container_restarts{k8s_container_status_last_terminated_reason="OOMKilled"}${now}))
        > ${RESTARTS} (max_over_time(k8s_container_restarts${before}))`,
      title: (labels, value) => `${pod(labels)} was killed for its memory, ${figure(value)} restarts in total`,
      shows: "k8s_container_restarts",
      unit: "restarts",
    },
    {
      score: (restarts) => (restarts >= 3 ? 78 : 36),
      query: ({ now, before }) =>
        `((${RESTARTS} (max_over_time(k8s_container_restarts${now})) - ${RESTARTS} (max_over_time(k8s_container_restarts${before}))) > 0)`,
      title: (labels, value) => `${pod(labels)} restarted ${figure(value)} ${value === 1 ? "time" : "times"}`,
      shows: "k8s_container_restarts",
      unit: "restarts",
    },
    {
      score: () => 90,
      query: appears((window) => `(max by (${POD}) (max_over_time(k8s_pod_status_reason${window})) == 1)`),
      title: (labels) => `${pod(labels)} was evicted`,
      shows: "k8s_pod_status_reason",
    },
    {
      score: () => 92,
      query: appears((window) => `(max by (${CONTAINER}, k8s_container_status_reason) (max_over_time(${CANNOT_RUN}${window})) > 0)`),
      title: (labels) => `${pod(labels)} cannot run: ${labels["k8s_container_status_reason"] ?? ""}`,
      shows: "k8s_container_status_reason",
    },
    {
      score: () => 74,
      query: appears(
        (window) =>
          `(max by (${WORKLOAD}) (last_over_time(k8s_deployment_desired${window})) - max by (${WORKLOAD}) (min_over_time(k8s_deployment_available${window})) > 0)`,
      ),
      title: ({ k8s_namespace_name: namespace = "", k8s_deployment_name: name = "" }, value) =>
        `deployment ${namespace}/${name} lacked ${figure(value)} ${value === 1 ? "replica" : "replicas"}`,
      shows: "k8s_deployment_available",
      unit: "replicas",
    },
  ],
  version: [
    {
      score: () => 38,
      query: appearsBeside(
        (window) =>
          `(max by (k8s_cluster_name, k8s_namespace_name, k8s_replicaset_name) (max_over_time(k8s_replicaset_desired${window})) > 0)`,
      ),
      title: (labels) => `new ReplicaSet ${labels["k8s_namespace_name"] ?? ""}/${labels["k8s_replicaset_name"] ?? ""}: a rollout`,
      shows: "k8s_replicaset_desired",
    },
    {
      score: () => 32,
      query: appearsBeside((window) => `max by (program, version) (last_over_time(atherops_agent_info${window}))`),
      title: ({ program = "agent", version = "" }) => `${program} ${version} runs for the first time`,
      shows: "atherops_agent_info",
      screen: ["fleet", {}],
    },
  ],
  resource: [
    {
      score: () => 93,
      query: appears(usedShare),
      title: (labels, value) => `file system ${labels["mountpoint"] ?? ""} of ${nodeOf(labels)} is ${percent(value)} full`,
      shows: "system_filesystem_usage_bytes",
      unit: "share",
    },
    {
      score: () => 93,
      query: appears(
        (window) => `(1 - min_over_time(k8s_volume_available_bytes${window}) / max_over_time(k8s_volume_capacity_bytes${window}) > 0.9)`,
      ),
      title: (labels, value) => `volume ${labels["k8s_volume_name"] ?? ""} of ${pod(labels)} is ${percent(value)} full`,
      shows: "k8s_volume_available_bytes",
      unit: "share",
    },
    {
      score: () => 84,
      // Grown by half and 100 MB above anything before, and still growing.
      query: ({ now, before, recent }) =>
        `max by (${POD}) (last_over_time(${MEMORY}${recent})) > 1.5 * max by (${POD}) (max_over_time(${MEMORY}${before})) > 1e8
        and max by (${POD}) (last_over_time(${MEMORY}${recent})) >= 0.95 * max by (${POD}) (max_over_time(${MEMORY}${now}))`,
      title: (labels, value) => `memory of ${pod(labels)} grew to ${figure(value / 1e6)} MB`,
      shows: MEMORY,
      unit: "bytes",
    },
    {
      score: () => 80,
      query: appears(
        (window) =>
          `(1 - sum by (host_id, node, k8s_node_name) (min_over_time(system_memory_usage_bytes{state=~"free|cached|buffered|slab_reclaimable"}${window}))
          / sum by (host_id, node, k8s_node_name) (avg_over_time(system_memory_usage_bytes${window})) > 0.95)`,
      ),
      title: (labels, value) => `memory of ${nodeOf(labels)} is ${percent(value)} used`,
      shows: "system_memory_usage_bytes",
      unit: "share",
    },
  ],
  agent: [
    {
      score: () => 89,
      query: ({ before, recent }) =>
        `max by (host_id, node) (last_over_time(atherops_agent_info${before})) unless max by (host_id, node) (last_over_time(atherops_agent_info${recent}))`,
      title: ({ node = "" }) => `the agent of ${node} went silent`,
      shows: "atherops_agent_info",
      screen: ["fleet", {}],
    },
    {
      score: () => 66,
      query: ({ now, before }) =>
        `(max by (host_id, node) (max_over_time(${COLLECTOR_RESTARTS}${now})) - max by (host_id, node) (max_over_time(${COLLECTOR_RESTARTS}${before})) >= 2)`,
      title: ({ node = "" }, value) => `the collector of ${node} restarted ${figure(value)} times`,
      shows: COLLECTOR_RESTARTS,
      screen: ["fleet", {}],
    },
  ],
  alert: [
    {
      score: (_, { severity }) => (severity === "critical" ? 72 : 68),
      query: appears((window) => `(max by (alertname, rule_id, severity) (max_over_time(ALERTS{alertstate="firing"}${window})) > 0)`),
      title: ({ alertname = "", severity = "" }) => `alert ${alertname}${severity && ` (${severity})`} began to fire`,
      shows: "ALERTS",
      screen: ["alerts", { view: "firing" }],
    },
  ],
};

const COLUMNS = Object.entries(QUESTIONS).flatMap(([kind, questions]) =>
  questions.map((question, at) => [`${kind}_${at}`, { ...question, kind: kind as ChangeKind }] as const),
);
const QUESTION_OF = new Map<string, (typeof COLUMNS)[number][1]>(COLUMNS);

/** Throws ApiError as MetricsStore.query does. */
export async function findMetricChanges(
  metrics: Pick<MetricsStore, "query">,
  orgId: string,
  comparison: Comparison,
  options: QueryOptions,
): Promise<Change[]> {
  const windows = windowsOf(comparison);
  const columns = Object.fromEntries(COLUMNS.map(([name, { query }]) => [name, `limitk(${MAX_CHANGED_SERIES}, ${query(windows)})`]));
  const { cells } = await readCells(metrics, orgId, { columns, scope: {}, atMs: comparison.now.endMs, options });
  return cells.flatMap(({ column, labels, value }) => {
    const question = QUESTION_OF.get(column);
    return question ? [describe(question, labels, value, comparison)] : [];
  });
}

function windowsOf({ before, now }: Comparison): Windows {
  const seconds = Math.max(60, Math.round((now.endMs - now.startMs) / 1000));
  const offset = Math.round((now.endMs - before.endMs) / 1000);
  return { now: `[${seconds}s]`, before: `[${seconds}s] offset ${offset}s`, recent: `[${Math.max(300, Math.round(seconds / POINTS))}s]` };
}

function describe(
  { kind, score, title, shows, unit, screen }: MetricQuestion & { readonly kind: ChangeKind },
  labels: Labels,
  value: number,
  comparison: Comparison,
): Change {
  const matchers = Object.entries(labels).filter(([name, text]) => name !== "__name__" && name !== "org_id" && text !== "");
  const selector = `${shows}{${matchers.map(([name, text]) => `${name}=${JSON.stringify(text)}`).join(",")}}`;
  const span = wholeOf(comparison);
  const step = `${Math.ceil((span.endMs - span.startMs) / 120_000)}s`;
  return {
    kind,
    severity: score(value, labels) < LEAST_PROBLEM ? "notice" : "problem",
    score: score(value, labels),
    subject: title(labels, value),
    title: title(labels, value),
    service: labels["k8s_deployment_name"],
    now: value,
    unit,
    evidence: evidenceOf("/query/prometheus/api/v1/query_range", span, { query: selector, step }),
    link: screen ? linkTo(screen[0], screen[1], comparison.now) : linkTo("metrics", { q: selector }, span),
  };
}
