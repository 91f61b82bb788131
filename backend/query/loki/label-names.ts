// The labels of a record, by the names that Loki gives them. Invariant: each name is one that LogQL can write; of two that become the same
// name the first counts, here and in the engine alike (conditions.ts).

/** Of every record. */
export const OWN_LABELS = ["service_name", "level", "host_id", "node"] as const;

/** The record's level gives way to what is read of an attribute or of the line under this name; detected_level does not. */
export const SOFT_LABEL = "level";

/** Nothing that is read of a line replaces them. */
export const STABLE_LABELS: ReadonlySet<string> = new Set(["service_name", "host_id", "node", "detected_level"]);

/** Attributes that are labels of the stream, as in Loki's own settings for OTLP; all others are structured metadata. */
const STREAM_ATTRIBUTES = (
  "cloud.availability_zone cloud.region container.name deployment.environment deployment.environment.name k8s.cluster.name " +
  "k8s.container.name k8s.cronjob.name k8s.daemonset.name k8s.deployment.name k8s.job.name k8s.namespace.name k8s.node.name " +
  "k8s.pod.name k8s.replicaset.name k8s.statefulset.name service.instance.id service.namespace"
).split(" ");

/** Name → attribute. */
export const STREAM_LABELS: ReadonlyMap<string, string> = new Map(STREAM_ATTRIBUTES.map((key) => [labelName(key), key]));

const EXTRACTED = "_extracted";

/** A key of an attribute as a name. */
export function labelName(key: string): string {
  return (/^\d/.test(key) ? `_${key}` : key).replaceAll(/[^a-zA-Z0-9_]/gu, "_");
}

/** A label that another of the same name, which counts more, pushes aside. */
export function asideName(name: string): string {
  return `${name}${EXTRACTED}`;
}

export function withoutAside(name: string): string | undefined {
  return name.endsWith(EXTRACTED) ? name.slice(0, -EXTRACTED.length) : undefined;
}
