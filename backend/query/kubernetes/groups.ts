// Sums up pods as rows of workloads, namespaces, nodes and clusters, together with what the cluster reports about these objects themselves.
import { type Cell, WORKLOAD_KINDS } from "./cluster-state.ts";
import { compareHealth, type Health, HEALTH, objectKey, type Owner, type PodRow, type Usage } from "./pods.ts";

export interface GroupRow extends Usage {
  readonly cluster?: string;
  readonly namespace?: string;
  readonly name: string;
  readonly workload?: Owner["kind"];
  state: string;
  health: Health;
  pods: number;
  unhealthy_pods: number;
  restarts: number;
  recent_restarts: number;
  desired?: number;
  available?: number;
  failed?: number;
  /** Shares of a node's capacity. */
  cpu_share?: number;
  disk_share?: number;
  cores?: number;
  nodes?: number;
}

export type GroupKind = "cluster" | "namespace" | "workload" | "node";
type Identity = Pick<GroupRow, "cluster" | "namespace" | "name" | "workload">;

/** Workloads that the cluster reports, for pods without usage: key of `objectKey` with kind and name → owner. */
export function readOwners(cells: readonly Cell[]): Map<string, Owner> {
  const owners = new Map<string, Owner>();
  for (const { column, labels } of cells) {
    const kind = WORKLOAD_KINDS.find((known) => column === `${known}_desired`);
    const name = kind && labels[`k8s_${kind}_name`];
    if (kind && name) owners.set(objectKey(labels["k8s_cluster_name"], labels["k8s_namespace_name"], kind, name), { kind, name });
  }
  return owners;
}

/** Unhealthy ones first. */
export function buildGroups(kind: GroupKind, pods: readonly PodRow[], cells: readonly Cell[]): GroupRow[] {
  const rows = new Map<string, GroupRow>();
  const rowOf = (identity: Identity): GroupRow => {
    const key = objectKey(identity.cluster, identity.namespace, identity.workload, identity.name);
    const row = rows.get(key) ?? { ...identity, state: "", health: "ok", pods: 0, unhealthy_pods: 0, restarts: 0, recent_restarts: 0 };
    rows.set(key, row);
    return row;
  };
  for (const pod of pods) {
    const identity = groupOf(kind, pod);
    if (identity) addPod(rowOf(identity), pod);
  }
  for (const cell of cells) {
    if (kind === "workload") addWorkloadCell(rowOf, cell);
    if (kind === "node") addNodeCell(rowOf, cell);
    if (kind === "cluster" && cell.column === "node_ready") addNodeOfCluster(rowOf({ name: cell.labels["k8s_cluster_name"] ?? "" }), cell);
  }
  return [...rows.values()].map((row) => judge(kind, row)).toSorted(compareHealth);
}

function groupOf(kind: GroupKind, { cluster, namespace, node, owner }: PodRow): Identity | undefined {
  if (kind === "cluster") return { name: cluster };
  if (kind === "namespace") return { cluster, name: namespace };
  if (kind === "node") return node === undefined ? undefined : { cluster, name: node };
  return owner && { cluster, namespace, workload: owner.kind, name: owner.name };
}

const SUMS = ["cpu", "cpu_request", "memory", "memory_limit"] as const;

function addPod(row: GroupRow, pod: PodRow): void {
  row.pods += 1;
  row.restarts += pod.restarts;
  row.recent_restarts += pod.recent_restarts;
  if (pod.health !== "ok") row.unhealthy_pods += 1;
  row.health = worse(row.health, pod.health);
  for (const name of SUMS) if (pod[name] !== undefined) row[name] = (row[name] ?? 0) + pod[name];
  if (pod.memory_share !== undefined) row.memory_share = Math.max(row.memory_share ?? 0, pod.memory_share);
}

function worse(a: Health, b: Health): Health {
  return HEALTH.indexOf(a) < HEALTH.indexOf(b) ? a : b;
}

type RowOf = (identity: Identity) => GroupRow;

function addWorkloadCell(rowOf: RowOf, { column, labels, value }: Cell): void {
  const kind = WORKLOAD_KINDS.find((known) => column.startsWith(`${known}_`));
  const name = kind && labels[`k8s_${kind}_name`];
  if (!kind || !name) return;
  const row = rowOf({ cluster: labels["k8s_cluster_name"] ?? "", namespace: labels["k8s_namespace_name"] ?? "", workload: kind, name });
  row[column.slice(kind.length + 1) as "desired" | "available" | "failed"] = value;
}

function addNodeCell(rowOf: RowOf, { column, labels, value }: Cell): void {
  const name = labels["k8s_node_name"];
  if (!name || !column.startsWith("node_")) return;
  const row = rowOf({ cluster: labels["k8s_cluster_name"] ?? "", name });
  const fact = column.slice("node_".length);
  if (fact === "ready" && value !== 1) row.state = value === 0 ? "NotReady" : "Unknown";
  else if (fact.endsWith("_pressure")) row.state ||= `${fact[0]?.toUpperCase()}${fact.slice(1).replace("_pressure", "Pressure")}`;
  else if (fact === "cpu_share" || fact === "memory_share" || fact === "disk_share" || fact === "cores") row[fact] = value;
}

function addNodeOfCluster(row: GroupRow, { value }: Cell): void {
  row.nodes = (row.nodes ?? 0) + 1;
  if (value !== 1) row.state = "nodes not ready";
}

function judge(kind: GroupKind, row: GroupRow): GroupRow {
  const { desired, available, failed = 0, workload } = row;
  if (row.state !== "") row.health = "bad";
  if (kind === "workload" && desired !== undefined) {
    const lacks = workload === "job" ? failed > 0 : (available ?? 0) < desired;
    row.state = workload === "job" ? `${available ?? 0} of ${desired} done` : `${available ?? 0} of ${desired} ready`;
    if (lacks) row.health = row.health === "ok" ? "warning" : row.health;
    if (lacks && (available ?? 0) === 0) row.health = "bad";
    return row;
  }
  // One failing pod does not make its node, namespace or cluster bad.
  if (kind !== "workload" && row.state === "" && row.health === "bad") row.health = "warning";
  row.state ||= row.unhealthy_pods > 0 ? `${row.unhealthy_pods} of ${row.pods} pods unhealthy` : kind === "node" ? "Ready" : "Healthy";
  return row;
}
