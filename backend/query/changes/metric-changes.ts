// Finds changes in the metrics that agents and the evaluator send: state of clusters, resources of nodes and pods, silent agents, alerts that
// began. Each row of the table is one PromQL query for series that are in a state now and were not before. Invariant: a row costs one query
// over two ranges and returns at most MAX_CHANGED_SERIES.
import type { QueryOptions } from "../../admission/query-queue.ts";
import { ApiError } from "../../errors.ts";
import type { MetricsStore } from "../../storage/metrics/metric-store.ts";
import { MAX_CHANGED_SERIES } from "../query-limits.ts";
import { type Change, type ChangeKind, type Comparison, evidenceOf, figure, linkTo, POINTS } from "./change.ts";

type Labels = Readonly<Record<string, string>>;

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
  readonly kind: ChangeKind;
  readonly severity: Change["severity"];
  readonly score: number;
  /** Returns the value now of each series that changed. */
  readonly query: (windows: Windows) => string;
  readonly title: (labels: Labels, value: number) => string;
  /** For the console: what to draw. */
  readonly shows: string;
  readonly unit?: string;
  /** The screen that shows it; default: the chart of `shows`. */
  readonly screen?: readonly [name: string, parameters: Readonly<Record<string, string>>];
}

const TIMEOUT = "5s";
const CONTAINER = "k8s_cluster_name, k8s_namespace_name, k8s_pod_name, k8s_container_name";
const POD = "k8s_cluster_name, k8s_namespace_name, k8s_pod_name";
const WORKLOAD = "k8s_cluster_name, k8s_namespace_name, k8s_deployment_name";
const RESTARTS = `max by (${CONTAINER})`;
const PULL_OR_CRASH = "CrashLoopBackOff|ImagePullBackOff|ErrImagePull|CreateContainerConfigError|CreateContainerError";

const pod = ({ k8s_namespace_name: namespace = "", k8s_pod_name: name = "", k8s_container_name: container }: Labels): string =>
  `${namespace}/${name}${container ? ` (${container})` : ""}`;
const nodeOf = ({ k8s_node_name: name, node = "" }: Labels): string => name ?? node;
const percent = (value: number): string => `${figure(value * 100)} %`;

const appears = (expression: (window: string) => string) => (windows: Windows) =>
  `${expression(windows.now)} unless ${expression(windows.before)}`;
const usedShare = (window: string): string =>
  `(max by (host_id, node, k8s_node_name, mountpoint) (max_over_time(system_filesystem_usage_bytes{state="used"}${window}))
  / sum by (host_id, node, k8s_node_name, mountpoint) (last_over_time(system_filesystem_usage_bytes${window})) > 0.9)`;

const QUESTIONS: readonly MetricQuestion[] = [
  {
    kind: "cluster",
    severity: "problem",
    score: 96,
    query: appears((window) => `(min_over_time(k8s_node_condition_ready${window}) < 1)`),
    title: (labels) => `node ${nodeOf(labels)} is not ready`,
    shows: "k8s_node_condition_ready",
  },
  ...["memory", "disk", "pid"].map((resource): MetricQuestion => ({
    kind: "cluster",
    severity: "problem",
    score: 91,
    query: appears((window) => `(max_over_time(k8s_node_condition_${resource}_pressure${window}) == 1)`),
    title: (labels) => `node ${nodeOf(labels)} is under ${resource} pressure`,
    shows: `k8s_node_condition_${resource}_pressure`,
  })),
  {
    kind: "cluster",
    severity: "problem",
    score: 94,
    // The series of a killed container begins when the reason changes, so the count before is that of any reason.
    query: ({ now, before }) =>
      `${RESTARTS} (max_over_time(k8s_container_restarts{k8s_container_status_last_terminated_reason="OOMKilled"}${now}))
      > ${RESTARTS} (max_over_time(k8s_container_restarts${before}))`,
    title: (labels, value) => `${pod(labels)} was killed for its memory, ${figure(value)} restarts in total`,
    shows: "k8s_container_restarts",
    unit: "restarts",
  },
  {
    kind: "cluster",
    severity: "problem",
    score: 78,
    query: ({ now, before }) =>
      `(${RESTARTS} (max_over_time(k8s_container_restarts${now})) - ${RESTARTS} (max_over_time(k8s_container_restarts${before})) >= 3)`,
    title: (labels, value) => `${pod(labels)} restarted ${figure(value)} times`,
    shows: "k8s_container_restarts",
    unit: "restarts",
  },
  {
    kind: "cluster",
    severity: "notice",
    score: 36,
    query: ({ now, before }) =>
      `((${RESTARTS} (max_over_time(k8s_container_restarts${now})) - ${RESTARTS} (max_over_time(k8s_container_restarts${before}))) > 0 < 3)`,
    title: (labels, value) => `${pod(labels)} restarted ${figure(value)} times`,
    shows: "k8s_container_restarts",
    unit: "restarts",
  },
  {
    kind: "cluster",
    severity: "problem",
    score: 90,
    query: appears((window) => `(max by (${POD}) (max_over_time(k8s_pod_status_reason${window})) == 1)`),
    title: (labels) => `${pod(labels)} was evicted`,
    shows: "k8s_pod_status_reason",
  },
  {
    kind: "cluster",
    severity: "problem",
    score: 92,
    query: appears(
      (window) =>
        `(max by (${CONTAINER}, k8s_container_status_reason) (max_over_time(k8s_container_status_reason{k8s_container_status_reason=~"${PULL_OR_CRASH}"}${window})) > 0)`,
    ),
    title: (labels) => `${pod(labels)} cannot run: ${labels["k8s_container_status_reason"] ?? ""}`,
    shows: "k8s_container_status_reason",
  },
  {
    kind: "cluster",
    severity: "problem",
    score: 74,
    query: appears(
      (window) =>
        `(max by (${WORKLOAD}) (last_over_time(k8s_deployment_desired${window})) - max by (${WORKLOAD}) (min_over_time(k8s_deployment_available${window})) > 0)`,
    ),
    title: (labels, value) =>
      `deployment ${labels["k8s_namespace_name"] ?? ""}/${labels["k8s_deployment_name"] ?? ""} lacked ${figure(value)} replicas`,
    shows: "k8s_deployment_available",
    unit: "replicas",
  },
  {
    kind: "version",
    severity: "notice",
    score: 38,
    query: appears(
      (window) =>
        `(max by (k8s_cluster_name, k8s_namespace_name, k8s_replicaset_name) (max_over_time(k8s_replicaset_desired${window})) > 0)`,
    ),
    title: (labels) => `new ReplicaSet ${labels["k8s_namespace_name"] ?? ""}/${labels["k8s_replicaset_name"] ?? ""}: a rollout`,
    shows: "k8s_replicaset_desired",
  },
  {
    kind: "resource",
    severity: "problem",
    score: 93,
    query: appears(usedShare),
    title: (labels, value) => `file system ${labels["mountpoint"] ?? ""} of ${nodeOf(labels)} is ${percent(value)} full`,
    shows: "system_filesystem_usage_bytes",
    unit: "share",
  },
  {
    kind: "resource",
    severity: "problem",
    score: 93,
    query: appears(
      (window) => `(1 - min_over_time(k8s_volume_available_bytes${window}) / max_over_time(k8s_volume_capacity_bytes${window}) > 0.9)`,
    ),
    title: (labels, value) => `volume ${labels["k8s_volume_name"] ?? ""} of ${pod(labels)} is ${percent(value)} full`,
    shows: "k8s_volume_available_bytes",
    unit: "share",
  },
  {
    kind: "resource",
    severity: "problem",
    score: 84,
    // Grown by half and 100 MB above anything before, and still growing.
    query: ({ now, before, recent }) =>
      `max by (${POD}) (last_over_time(k8s_pod_memory_working_set_bytes${recent})) > 1.5 * max by (${POD}) (max_over_time(k8s_pod_memory_working_set_bytes${before}))
      > 1e8 and max by (${POD}) (last_over_time(k8s_pod_memory_working_set_bytes${recent})) >= 0.95 * max by (${POD}) (max_over_time(k8s_pod_memory_working_set_bytes${now}))`,
    title: (labels, value) => `memory of ${pod(labels)} grew to ${figure(value / 1e6)} MB`,
    shows: "k8s_pod_memory_working_set_bytes",
    unit: "bytes",
  },
  {
    kind: "resource",
    severity: "problem",
    score: 80,
    query: appears(
      (window) =>
        `(1 - sum by (host_id, node, k8s_node_name) (min_over_time(system_memory_usage_bytes{state=~"free|cached|buffered|slab_reclaimable"}${window}))
        / sum by (host_id, node, k8s_node_name) (avg_over_time(system_memory_usage_bytes${window})) > 0.95)`,
    ),
    title: (labels, value) => `memory of ${nodeOf(labels)} is ${percent(value)} used`,
    shows: "system_memory_usage_bytes",
    unit: "share",
  },
  {
    kind: "agent",
    severity: "problem",
    score: 89,
    query: ({ before, recent }) =>
      `max by (host_id, node) (last_over_time(atherops_agent_info${before})) unless max by (host_id, node) (last_over_time(atherops_agent_info${recent}))`,
    title: ({ node = "" }) => `the agent of ${node} went silent`,
    shows: "atherops_agent_info",
    screen: ["fleet", {}],
  },
  {
    kind: "agent",
    severity: "problem",
    score: 66,
    query: ({ now, before }) =>
      `(max by (host_id, node) (max_over_time(atherops_agent_collector_restarts_total${now})) - max by (host_id, node) (max_over_time(atherops_agent_collector_restarts_total${before})) >= 2)`,
    title: ({ node = "" }, value) => `the collector of ${node} restarted ${figure(value)} times`,
    shows: "atherops_agent_collector_restarts_total",
    screen: ["fleet", {}],
  },
  {
    kind: "version",
    severity: "notice",
    score: 32,
    query: appears((window) => `max by (program, version) (last_over_time(atherops_agent_info${window}))`),
    title: ({ program = "agent", version = "" }) => `${program} ${version} runs for the first time`,
    shows: "atherops_agent_info",
    screen: ["fleet", {}],
  },
  {
    kind: "alert",
    severity: "problem",
    score: 68,
    query: appears((window) => `(max by (alertname, rule_id, severity) (max_over_time(ALERTS{alertstate="firing"}${window})) > 0)`),
    title: ({ alertname = "", severity = "" }) => `alert ${alertname}${severity && ` (${severity})`} began to fire`,
    shows: "ALERTS",
    screen: ["alerts", { view: "firing" }],
  },
];

/** Labels that name what changed. */
const HIDDEN = new Set(["__name__", "org_id"]);

/** Throws ApiError as MetricsStore.query does. */
export async function findMetricChanges(
  metrics: Pick<MetricsStore, "query">,
  orgId: string,
  comparison: Comparison,
  options: QueryOptions,
): Promise<Change[]> {
  const changes: Change[] = [];
  for (const question of QUESTIONS) {
    const params = new URLSearchParams({
      query: `limitk(${MAX_CHANGED_SERIES}, ${question.query(windowsOf(comparison))})`,
      time: String(comparison.now.endMs / 1000),
      timeout: TIMEOUT,
    });
    const { status, body } = await metrics.query(orgId, "query", params, options);
    if (status !== 200)
      throw new ApiError("internal", "a query of the comparison failed", { cause: new Error(body.toString("utf8", 0, 500)) });
    const { data } = JSON.parse(body.toString("utf8")) as { data: { result: { metric: Labels; value: [number, string] }[] } };
    for (const { metric, value } of data.result) {
      const number = Number(value[1]);
      // Senders can choose +Inf.
      if (Number.isFinite(number)) changes.push(describe(question, metric, number, comparison));
    }
  }
  return changes;
}

function windowsOf({ before, now }: Comparison): Windows {
  const seconds = Math.max(60, Math.round((now.endMs - now.startMs) / 1000));
  const offset = Math.round((now.endMs - before.endMs) / 1000);
  return { now: `[${seconds}s]`, before: `[${seconds}s] offset ${offset}s`, recent: `[${Math.max(300, Math.round(seconds / POINTS))}s]` };
}

function describe(question: MetricQuestion, labels: Labels, value: number, comparison: Comparison): Change {
  const { kind, severity, score, title, shows, unit, screen } = question;
  const matchers = Object.entries(labels).filter(([name, text]) => !HIDDEN.has(name) && text !== "");
  const selector = `${shows}{${matchers.map(([name, text]) => `${name}=${JSON.stringify(text)}`).join(",")}}`;
  const span = { startMs: comparison.before.startMs, endMs: comparison.now.endMs };
  const range = {
    start: String(span.startMs / 1000),
    end: String(span.endMs / 1000),
    step: `${Math.ceil((span.endMs - span.startMs) / 120_000)}s`,
  };
  return {
    kind,
    severity,
    score: labels["severity"] === "critical" ? score + 4 : score,
    subject: title(labels, value),
    title: title(labels, value),
    service: labels["k8s_deployment_name"],
    now: value,
    unit,
    evidence: evidenceOf("/query/prometheus/api/v1/query_range", { query: selector, ...range }),
    link: screen ? linkTo(screen[0], screen[1], comparison.now) : linkTo("metrics", { q: selector }, span),
  };
}
