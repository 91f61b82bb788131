// Builds the rows of pods from the columns of cluster-state.ts, and judges their health as `kubectl get pods` shows it: the reason of a
// container that waits or ended, else the phase.
import { TimeSlices } from "../../admission/time-slices.ts";
import { type Cell, type Labels, WORKLOAD_KINDS, type WorkloadKind } from "./cluster-state.ts";

/** `bad`: it does not work; `warning`: it may recover by itself, or restarted in the last hour. */
export const HEALTH = ["bad", "warning", "ok"] as const;
export type Health = (typeof HEALTH)[number];

export interface Owner {
  readonly kind: WorkloadKind;
  readonly name: string;
}

export interface Usage {
  /** Cores. */
  cpu?: number;
  cpu_request?: number;
  memory?: number;
  memory_limit?: number;
  /** The share of its limit that the fullest container uses. */
  memory_share?: number;
}

export interface PodRow extends Usage {
  readonly cluster: string;
  readonly namespace: string;
  readonly name: string;
  node?: string;
  owner?: Owner;
  /** Such as Running, Pending, CrashLoopBackOff, NotReady. */
  state: string;
  health: Health;
  /** Containers, and those that are ready, if some are not. */
  containers?: number;
  ready?: number;
  restarts: number;
  recent_restarts: number;
  last_reason?: string;
  /** The run that ended with it: the agent marks its log records with `k8s.container.restart_count`. */
  last_run?: LastRun;
}

export interface LastRun {
  readonly container: string;
  readonly restart_count: number;
}

const PHASES: readonly string[] = ["", "Pending", "Running", "Succeeded", "Failed", "Unknown"];
const POD_REASONS: readonly string[] = ["", "Evicted", "NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError"];
/** Reasons of containers that are normal for a moment, or at the end of a Job. */
const HARMLESS = new Set(["ContainerCreating", "PodInitializing"]);
const COMPLETED = "Completed";

interface Facts {
  row: PodRow;
  phase: number;
  podReason: number;
  /** Container → why it does not run. */
  reasons: Map<string, string>;
  notReady: number;
  /** Runs that ended, with why. */
  ended: { readonly reason: string; readonly run: LastRun }[];
}

/**
 * Rows of all pods of which the phase is known, unhealthy ones first. `knownOwners`: for pods whose usage is not measured yet. In slices,
 * because thousands of pods take half a second.
 */
export async function buildPods(cells: readonly Cell[], knownOwners: ReadonlyMap<string, Owner>): Promise<PodRow[]> {
  const slices = new TimeSlices();
  const pods = new Map<string, Facts>();
  // The phase decides which pods there are.
  await slices.map(cells, ({ column, labels, value }) => {
    if (column !== "phase") return;
    const row = emptyRow(labels);
    if (labels["k8s_node_name"]) row.node = labels["k8s_node_name"];
    pods.set(podKey(labels), { row, phase: value, podReason: 0, reasons: new Map(), notReady: 0, ended: [] });
  });
  await slices.map(cells, (cell) => {
    const pod = pods.get(podKey(cell.labels));
    if (pod) addCell(pod, cell);
  });
  const rows = await slices.map([...pods.values()], (pod) => finish(pod, knownOwners));
  return rows.toSorted(compareHealth);
}

function podKey(labels: Labels): string {
  return objectKey(labels["k8s_cluster_name"], labels["k8s_namespace_name"], labels["k8s_pod_name"]);
}

/** Names contain no line ends. */
export function objectKey(...names: readonly (string | undefined)[]): string {
  return names.map((name) => name ?? "").join("\n");
}

function emptyRow(labels: Labels): PodRow {
  return {
    cluster: labels["k8s_cluster_name"] ?? "",
    namespace: labels["k8s_namespace_name"] ?? "",
    name: labels["k8s_pod_name"] ?? "",
    state: "",
    health: "ok",
    restarts: 0,
    recent_restarts: 0,
  };
}

function addCell(pod: Facts, { column, labels, value }: Cell): void {
  const { row } = pod;
  switch (column) {
    case "pod_reason":
      pod.podReason = value;
      break;
    case "not_ready":
      pod.notReady = value;
      break;
    case "containers":
      row.containers = value;
      break;
    case "reason":
      pod.reasons.set(labels["k8s_container_name"] ?? "", labels["k8s_container_status_reason"] ?? "");
      break;
    case "restarts":
    case "recent_restarts":
      row[column] = value;
      break;
    case "last_reason":
      pod.ended.push({
        reason: labels["k8s_container_status_last_terminated_reason"] ?? "",
        run: { container: labels["k8s_container_name"] ?? "", restart_count: value },
      });
      break;
    case "memory": {
      row.memory = value;
      const kind = WORKLOAD_KINDS.find((known) => labels[`k8s_${known}_name`]);
      if (kind) row.owner = { kind, name: labels[`k8s_${kind}_name`] ?? "" };
      break;
    }
    case "cpu":
    case "cpu_request":
    case "memory_limit":
    case "memory_share":
      row[column] = value;
      break;
  }
}

function finish({ row, phase, podReason, reasons, notReady, ended }: Facts, knownOwners: ReadonlyMap<string, Owner>): PodRow {
  const isOver = PHASES[phase] === "Succeeded";
  const waiting = [...reasons.values()]
    .filter((reason) => reason !== COMPLETED)
    .toSorted((a, b) => Number(HARMLESS.has(a)) - Number(HARMLESS.has(b)));
  const isUnready = notReady > 0 && PHASES[phase] === "Running";
  row.state = POD_REASONS[podReason] || (isOver ? COMPLETED : waiting[0]) || (isUnready ? "NotReady" : PHASES[phase]) || "Unknown";
  row.health = isOver ? "ok" : healthOf(row, waiting, isUnready);
  if (isUnready && row.containers !== undefined) row.ready = row.containers - notReady;
  else delete row.containers;
  setLastRun(row, ended, reasons);
  row.owner ??= guessOwner(row, knownOwners);
  if (!row.owner) delete row.owner;
  return row;
}

/** The run of a container that waits, else of the one with the most restarts. */
function setLastRun(row: PodRow, ended: Facts["ended"], reasons: Facts["reasons"]): void {
  // The series of an earlier reason continues for some minutes, with fewer restarts.
  const [last] = ended.toSorted(
    (a, b) => Number(reasons.has(b.run.container)) - Number(reasons.has(a.run.container)) || b.run.restart_count - a.run.restart_count,
  );
  if (!last) return;
  row.last_reason = last.reason;
  // It is the newest run only while the next has not started.
  const hasStarted = !reasons.has(last.run.container);
  row.last_run = { ...last.run, restart_count: last.run.restart_count - (hasStarted ? 1 : 0) };
}

function healthOf({ state, recent_restarts: recent }: PodRow, waiting: readonly string[], isUnready: boolean): Health {
  if (HARMLESS.has(state) || state === "Pending" || (isUnready && waiting.length === 0)) return "warning";
  if (state !== "Running") return "bad";
  return recent > 0 ? "warning" : "ok";
}

/** Endings of the names that controllers give to pods: ReplicaSet's hash and pod, pod of a DaemonSet or Job, number of a StatefulSet. */
const SUFFIXES: readonly (readonly [WorkloadKind, RegExp])[] = [
  ["deployment", /-[bcdfghjklmnpqrstvwxz2456789]{1,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$/],
  ["daemonset", /-[bcdfghjklmnpqrstvwxz2456789]{5}$/],
  ["job", /-[bcdfghjklmnpqrstvwxz2456789]{5}$/],
  ["statefulset", /-\d+$/],
];

/** A pod that never ran has no usage, from whose labels its owner would be known. */
function guessOwner({ cluster, namespace, name }: PodRow, known: ReadonlyMap<string, Owner>): Owner | undefined {
  for (const [kind, suffix] of SUFFIXES) {
    const owner = suffix.test(name) ? known.get(objectKey(cluster, namespace, kind, name.replace(suffix, ""))) : undefined;
    if (owner) return owner;
  }
  return undefined;
}

const rankOf = (health: Health): number => HEALTH.indexOf(health);

/** Unhealthy ones first. */
export function compareHealth(a: { health: Health; recent_restarts?: number; restarts?: number; name: string }, b: typeof a): number {
  return (
    rankOf(a.health) - rankOf(b.health) ||
    (b.recent_restarts ?? 0) - (a.recent_restarts ?? 0) ||
    (b.restarts ?? 0) - (a.restarts ?? 0) ||
    (a.name < b.name ? -1 : 1)
  );
}
