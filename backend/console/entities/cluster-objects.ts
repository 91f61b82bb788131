// Reads the state of Kubernetes objects (GET /query/kubernetes), and links each object to its page and to the log records that say why it
// is unhealthy.
import type { ApiResponses } from "../../client/api.ts";
import { formatTerm } from "../logs/query-line.ts";
import { call } from "../state/api.ts";
import { address } from "../state/route.ts";
import { type AddressRange, parseRange } from "../state/time.ts";
import { type Entity, eventQuery, logQuery } from "./entity.ts";

export type ClusterObjects = ApiResponses["GET /query/kubernetes"];
export type ClusterObject = ClusterObjects["objects"][number];

export const OBJECT_KINDS = [
  ["pod", "Pods"],
  ["workload", "Workloads"],
  ["namespace", "Namespaces"],
  ["node", "Nodes"],
  ["cluster", "Clusters"],
] as const;
export type ObjectKind = (typeof OBJECT_KINDS)[number][0];

export const TONES = { bad: "error", warning: "warn", ok: "good" } as const;

export async function readObjects(
  kind: ObjectKind,
  within: Entity | undefined,
  { from, to }: AddressRange,
  signal: AbortSignal,
): Promise<ClusterObjects> {
  const { cluster, namespace, workload, name } = within ?? {};
  const range = new URLSearchParams(Object.entries({ from, to }).flatMap(([key, text]) => (text === undefined ? [] : [[key, text]])));
  const query = {
    kind,
    cluster: within?.kind === "cluster" ? name : cluster,
    namespace: within?.kind === "namespace" ? name : namespace,
    ...(within?.kind === "node" && { node: name }),
    ...(within?.kind === "pod" && { name }),
    ...(within?.kind === "workload" && { workload: name, workload_kind: workload }),
    // Without an end, it is the state now.
    ...(to !== undefined && { time: new Date(parseRange(range, Date.now()).toMs).toISOString() }),
  };
  return await call<ClusterObjects>("/query/kubernetes", { query, signal });
}

export function entityOf(kind: ObjectKind, { name, cluster, namespace, workload }: ClusterObject): Entity {
  if (kind === "cluster") return { kind, name };
  if (kind === "namespace" || kind === "node") return { kind, name, cluster };
  return { kind, name, cluster, namespace, ...(kind === "workload" && { workload }) };
}

/** The newest lines of the run that ended last, or the events of a pod that never ran; undefined if the pod is healthy. */
export function whyAddress(pod: ClusterObject): { readonly text: string; readonly href: string } | undefined {
  const entity = entityOf("pod", pod);
  if (pod.last_run) {
    const { container, restart_count: count } = pod.last_run;
    const run = [
      ["k8s.container.name", container],
      ["k8s.container.restart_count", String(count)],
    ].map(([key, value = ""]) => formatTerm({ not: false, name: `label.${key}`, value }));
    return { text: "Last lines", href: address("logs", { q: [logQuery(entity), ...run].join(" "), from: "24h" }) };
  }
  return pod.health === "ok" ? undefined : { text: "Events", href: address("logs", { q: eventQuery(entity), from: "24h" }) };
}
