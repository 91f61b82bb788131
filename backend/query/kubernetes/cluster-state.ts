// Reads the state of Kubernetes objects from the metrics that agents send: one MetricsQL query whose series each have a column of one row.
// Invariant: a read is one query with at most MAX_KUBERNETES_SERIES series in its answer, however many objects an organisation has.
import type { QueryOptions } from "../../admission/query-queue.ts";
import { ApiError } from "../../errors.ts";
import type { MetricsStore } from "../../storage/metrics/metric-store.ts";
import { MAX_KUBERNETES_SERIES } from "../query-limits.ts";

export type Labels = Readonly<Record<string, string>>;

/** A series of the answer: its labels without the column, and its value. */
export interface Cell {
  readonly column: string;
  readonly labels: Labels;
  readonly value: number;
}

export interface Cells {
  readonly cells: readonly Cell[];
  readonly isTruncated: boolean;
}

export interface Scope {
  readonly cluster?: string | undefined;
  readonly namespace?: string | undefined;
}

/** The label with the name of the column. */
const COLUMN = "column";
const POD = "k8s_cluster_name, k8s_namespace_name, k8s_pod_name";
const CONTAINER = `${POD}, k8s_container_name`;
const RESTARTS = `max by (${CONTAINER}) (k8s_container_restarts{$scope})`;
export const WORKLOAD_KINDS = ["deployment", "statefulset", "daemonset", "job"] as const;
export type WorkloadKind = (typeof WORKLOAD_KINDS)[number];
const OWNERS = WORKLOAD_KINDS.map((kind) => `k8s_${kind}_name`).join(", ");
const NODE = "k8s_cluster_name, k8s_node_name";

type Columns = Readonly<Record<string, string>>;

/** `$scope` are label matchers. Columns that most objects lack are filtered in the query, so that the answer stays small. */
export const POD_COLUMNS: Columns = {
  phase: `max by (${POD}, k8s_node_name) (k8s_pod_phase{$scope})`,
  // 6 means that there is none.
  pod_reason: `max by (${POD}) (k8s_pod_status_reason{$scope}) > 0 < 6`,
  not_ready: `count by (${POD}) (max by (${CONTAINER}) (k8s_container_ready{$scope}) == 0)`,
  containers: `count by (${POD}) (max by (${CONTAINER}) (k8s_container_ready{$scope})) and on (${POD}) (k8s_container_ready{$scope} == 0)`,
  reason: `max by (${CONTAINER}, k8s_container_status_reason) (k8s_container_status_reason{$scope}) > 0`,
  restarts: `sum by (${POD}) (${RESTARTS}) > 0`,
  // A container that is younger than an hour had none before.
  recent_restarts: `sum by (${POD}) (${RESTARTS} - (max by (${CONTAINER}) (k8s_container_restarts{$scope} offset 1h) or ${RESTARTS} * 0)) > 0`,
  last_reason: `max by (${CONTAINER}, k8s_container_status_last_terminated_reason) (k8s_container_restarts{$scope,k8s_container_status_last_terminated_reason!=""}) > 0`,
  cpu: `sum by (${POD}) (k8s_pod_cpu_usage{$scope})`,
  cpu_request: `sum by (${POD}) (max by (${CONTAINER}) (k8s_container_cpu_request{$scope}))`,
  memory: `max by (${POD}, ${OWNERS}) (k8s_pod_memory_working_set_bytes{$scope})`,
  memory_limit: `sum by (${POD}) (max by (${CONTAINER}) (k8s_container_memory_limit_bytes{$scope}))`,
  // The kernel kills a container, not a pod, so the fullest one counts.
  memory_share: `max by (${POD}) (max by (${CONTAINER}) (container_memory_working_set_bytes{$scope,k8s_container_name!=""}) / max by (${CONTAINER}) (k8s_container_memory_limit_bytes{$scope}))`,
};

export const WORKLOAD_COLUMNS: Columns = Object.fromEntries(
  (
    [
      ["deployment", "k8s_deployment_desired", "k8s_deployment_available"],
      ["statefulset", "k8s_statefulset_desired_pods", "k8s_statefulset_ready_pods"],
      ["daemonset", "k8s_daemonset_desired_scheduled_nodes", "k8s_daemonset_ready_nodes"],
      ["job", "k8s_job_desired_successful_pods", "k8s_job_successful_pods"],
    ] as const
  ).flatMap(([kind, desired, available]) =>
    [["desired", desired], ["available", available], ...(kind === "job" ? [["failed", "k8s_job_failed_pods"]] : [])].map(
      ([column, metric]) => [`${kind}_${column}`, `max by (k8s_cluster_name, k8s_namespace_name, k8s_${kind}_name) (${metric}{$scope})`],
    ),
  ),
);

/** `$cluster` are matchers of the cluster alone. */
export const NODE_COLUMNS: Columns = {
  node_ready: `max by (${NODE}) (k8s_node_condition_ready{$cluster})`,
  ...Object.fromEntries(
    ["memory", "disk", "pid"].map((resource) => [
      `node_${resource}_pressure`,
      `max by (${NODE}) (k8s_node_condition_${resource}_pressure{$cluster}) == 1`,
    ]),
  ),
  node_cpu_share: `sum by (${NODE}) (k8s_node_cpu_usage{$cluster}) / max by (${NODE}) (machine_cpu_cores{$cluster})`,
  node_cores: `max by (${NODE}) (machine_cpu_cores{$cluster})`,
  node_memory_share: `max by (${NODE}) (k8s_node_memory_working_set_bytes{$cluster}) / (max by (${NODE}) (k8s_node_memory_working_set_bytes{$cluster}) + max by (${NODE}) (k8s_node_memory_available_bytes{$cluster}))`,
  node_disk_share: `max by (${NODE}) (sum by (${NODE}, mountpoint) (system_filesystem_usage_bytes{$cluster,state="used"}) / sum by (${NODE}, mountpoint) (system_filesystem_usage_bytes{$cluster}))`,
};

/** Throws ApiError as MetricsStore.query does. */
export async function readCells(
  metrics: Pick<MetricsStore, "query">,
  orgId: string,
  { columns, scope, atMs, options }: { columns: Columns; scope: Scope; atMs: number; options: QueryOptions },
): Promise<Cells> {
  const params = new URLSearchParams({ query: unionOf(columns, scope), time: String(Math.floor(atMs / 1000)) });
  const { status, body } = await metrics.query(orgId, "query", params, options);
  if (status !== 200) throw new ApiError("internal", "the metrics cannot be read", { cause: new Error(body.toString("utf8", 0, 500)) });
  const { data } = JSON.parse(body.toString("utf8")) as { data: { result: { metric: Record<string, string>; value: [number, string] }[] } };
  const cells = data.result.flatMap(({ metric: { [COLUMN]: column = "", ...labels }, value: [, text] }) => {
    const value = Number(text);
    return Number.isFinite(value) ? [{ column, labels, value }] : [];
  });
  return { cells, isTruncated: data.result.length >= MAX_KUBERNETES_SERIES };
}

function unionOf(columns: Columns, { cluster, namespace }: Scope): string {
  // Without a matcher, the selector would be empty.
  const ofCluster = ['org_id!=""', ...(cluster === undefined ? [] : [`k8s_cluster_name=${JSON.stringify(cluster)}`])];
  const ofNamespace = namespace === undefined ? [] : [`k8s_namespace_name=${JSON.stringify(namespace)}`];
  const [scope, clusterScope] = [[...ofCluster, ...ofNamespace].join(","), ofCluster.join(",")];
  const parts = Object.entries(columns).map(([name, expression]) => {
    // In one pass, because a name in a matcher can contain `$cluster`.
    const scoped = expression.replaceAll(/\$(scope|cluster)/g, (_, part) => (part === "scope" ? scope : clusterScope));
    return `label_set(${scoped}, "${COLUMN}", "${name}")`;
  });
  return `limitk(${MAX_KUBERNETES_SERIES}, union(${parts.join(", ")}))`;
}
