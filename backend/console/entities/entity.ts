// Clusters, nodes, hosts, namespaces, workloads and pods: their addresses in the console, and the queries for their metrics, logs, events,
// traces and alerts. Names come from senders, so every name in a query is quoted.
import { formatTerm } from "../logs/query-line.ts";
import type { LogRow } from "../logs/log-rows.ts";
import { address } from "../state/route.ts";
import type { AddressRange } from "../state/time.ts";
import { formatAttribute } from "../traces/search.ts";
import type { Chosen } from "../dashboards/dashboard.ts";

export const ENTITY_KINDS = ["cluster", "node", "host", "namespace", "workload", "pod"] as const;
export type EntityKind = (typeof ENTITY_KINDS)[number];
/** Kinds of workloads, as attributes name them: `k8s.deployment.name`. */
export const WORKLOAD_KINDS = ["deployment", "statefulset", "daemonset", "job"] as const;

export interface Entity {
  readonly kind: EntityKind;
  readonly name: string;
  /** Name of the cluster; undefined for a host. */
  readonly cluster?: string | undefined;
  readonly namespace?: string | undefined;
  /** The kind of a workload: `deployment`, … */
  readonly workload?: string | undefined;
  /** `host_id` of the data that a host's agent sends. */
  readonly hostId?: string | undefined;
}

export function entityAddress({ kind, name, cluster, namespace, workload, hostId }: Entity, range: AddressRange = {}): string {
  return address("entity", { kind, cluster, namespace, workload, host: hostId, ...range }, name);
}

/** The entity of an address that `entityAddress` wrote; undefined if the address names no entity. */
export function parseEntity(name: string | undefined, query: URLSearchParams): Entity | undefined {
  const kind = ENTITY_KINDS.find((known) => known === query.get("kind"));
  if (!kind || name === undefined) return undefined;
  const read = (parameter: string): string | undefined => query.get(parameter) ?? undefined;
  // Used as part of label names, so only known values are accepted.
  const workload = WORKLOAD_KINDS.find((known) => known === query.get("workload"));
  return { kind, name, cluster: read("cluster"), namespace: read("namespace"), workload, hostId: read("host") };
}

/** OpenTelemetry attributes of an entity, such as `k8s.pod.name`. The agent sets none for a host. */
function attributesOf({ kind, name, cluster, namespace, workload }: Entity): [string, string][] {
  const pairs: [string, string | undefined][] = [
    ["k8s.cluster.name", kind === "cluster" ? name : cluster],
    ["k8s.namespace.name", kind === "namespace" ? name : namespace],
    ["k8s.node.name", kind === "node" ? name : undefined],
    [`k8s.${workload ?? "deployment"}.name`, kind === "workload" ? name : undefined],
    ["k8s.pod.name", kind === "pod" ? name : undefined],
  ];
  return pairs.flatMap(([key, value]): [string, string][] => (value === undefined ? [] : [[key, value]]));
}

export function logQuery(entity: Entity): string {
  if (entity.kind === "host") return formatTerm({ not: false, name: "host_id", value: entity.hostId ?? "" });
  return attributesOf(entity)
    .map(([key, value]) => formatTerm({ not: false, name: `label.${key}`, value }))
    .join(" ");
}

/** Kubernetes events of its objects; a host has none. */
export function eventQuery(entity: Entity): string | undefined {
  return entity.kind === "host" ? undefined : `source:kubernetes-events ${logQuery(entity)}`;
}

/** Comparisons in the form of the traces screen. */
export function traceQuery(entity: Entity): string {
  const pairs = entity.kind === "host" ? ([["host.name", entity.name]] as const) : attributesOf(entity);
  return pairs.map(([key, value]) => formatAttribute(key, value)).join(" ");
}

/** The dashboard with its main metrics, and the values of that dashboard's variables. */
export function dashboardOf(entity: Entity): { readonly id: string; readonly chosen: Chosen } {
  const { kind, name, cluster = "", namespace = "", workload, hostId = "" } = entity;
  switch (kind) {
    case "cluster":
      return { id: "agents", chosen: { cluster: name } };
    case "host":
      return { id: "host", chosen: { host: hostId } };
    default:
      return { id: kind, chosen: { cluster, namespace, kind: workload ?? "deployment", [kind]: name } };
  }
}

/** Whether an alert is about the entity: the alert names it, and no label of the alert names another cluster or namespace. */
export function isAbout(entity: Entity, labels: Readonly<Record<string, string>>): boolean {
  if (entity.kind === "host") return labels["host_id"] === entity.hostId && entity.hostId !== undefined;
  const pairs = attributesOf(entity).map(([key, value]) => [labels[key.replaceAll(".", "_")], value] as const);
  const nameInLabels = labels[`k8s_${entity.kind === "workload" ? (entity.workload ?? "deployment") : entity.kind}_name`];
  return nameInLabels === entity.name && pairs.every(([inLabels, value]) => inLabels === undefined || inLabels === value);
}

/** The entities that a record or span names in its attributes: field → entity. */
export function findEntities(labels: Readonly<Record<string, string>>, sender?: Pick<LogRow, "host_id" | "node">): Map<string, Entity> {
  const entities = new Map<string, Entity>();
  const [cluster, namespace] = [labels["k8s.cluster.name"], labels["k8s.namespace.name"]];
  const add = (key: string, kind: EntityKind, rest: Partial<Entity> = {}): void => {
    const name = labels[key];
    if (name) entities.set(key, { kind, name, cluster, ...rest });
  };
  add("k8s.cluster.name", "cluster", { cluster: undefined });
  add("k8s.node.name", "node");
  add("k8s.namespace.name", "namespace");
  for (const workload of WORKLOAD_KINDS) add(`k8s.${workload}.name`, "workload", { namespace, workload });
  add("k8s.pod.name", "pod", { namespace });
  if (sender?.node) {
    const node: Entity = cluster
      ? { kind: "node", name: sender.node, cluster }
      : { kind: "host", name: sender.node, hostId: sender.host_id };
    entities.set("node", node);
    if (!cluster) entities.set("host_id", node);
  }
  return entities;
}

/** The resource that an alert is about, as far as its labels name one: the pod before its workload, node, namespace and cluster. */
export function findAlertEntity(labels: Readonly<Record<string, string>>): Entity | undefined {
  const attributes = Object.fromEntries(
    Object.entries(labels).flatMap(([name, value]) => (name.startsWith("k8s_") ? [[name.replaceAll("_", "."), value]] : [])),
  );
  const found = [...findEntities(attributes).values()];
  const { host_id: hostId, node } = labels;
  for (const kind of ["pod", "workload", "node", "namespace", "cluster"] as const) {
    const entity = found.find((candidate) => candidate.kind === kind);
    if (entity) return entity;
  }
  return hostId && node ? { kind: "host", name: node, hostId } : undefined;
}
