// Fragments for the collector of the whole cluster (cluster-collector.ts): object state as metrics, and Kubernetes events as log records. The
// collector continues with the events where the previous one stopped (events-checkpoint.ts). Needs list and watch permissions
// (charts/cluster-agent). Invariant: every collector renders an event to the same bytes, so an event that two collectors read is stored once.
import type { Component, Fragment } from "./fragment.ts";

const EVENTS_SOURCE = "kubernetes-events";

/** Kinds whose events carry the same name attribute as their logs and metrics. */
const NAMED_KINDS: Readonly<Record<string, string>> = {
  Pod: "k8s.pod.name",
  Node: "k8s.node.name",
  Deployment: "k8s.deployment.name",
  ReplicaSet: "k8s.replicaset.name",
  StatefulSet: "k8s.statefulset.name",
  DaemonSet: "k8s.daemonset.name",
  Job: "k8s.job.name",
  CronJob: "k8s.cronjob.name",
  PersistentVolumeClaim: "k8s.persistentvolumeclaim.name",
};

const EVENT = 'log.cache["event"]';
const OBJECT = `${EVENT}["involvedObject"]`;

/** `from`: a resourceVersion; if it is empty, or the API server no longer knows it, only events after the start are read. */
export function kubernetesEvents(from: string): Fragment {
  return {
    receivers: {
      k8sobjects: {
        auth_type: "serviceAccount",
        // A deleted event was already read when it was created, an hour earlier.
        objects: [{ name: "events", mode: "watch", resource_version: from, exclude_watch_type: ["DELETED"] }],
      },
    },
    processors: { "transform/events": EVENT_TO_LOG },
    pipelines: [{ id: "logs/events", receivers: ["k8sobjects"], processors: ["transform/events"] }],
  };
}

const EVENT_TO_LOG: Component = {
  error_mode: "ignore",
  log_statements: [
    { context: "resource", statements: [`set(resource.attributes["service.name"], "${EVENTS_SOURCE}")`] },
    {
      context: "log",
      statements: [
        `set(${EVENT}, log.body["object"]) where IsMap(log.body)`,
        'delete_matching_keys(log.attributes, "^(event\\\\.(domain|name)|k8s\\\\.resource\\\\.name)$")',
        ...setAttribute("k8s.event.reason", `${EVENT}["reason"]`),
        ...setAttribute("k8s.event.action", `${EVENT}["action"]`),
        ...setAttribute("k8s.event.name", `${EVENT}["metadata"]["name"]`),
        ...setAttribute("k8s.event.uid", `${EVENT}["metadata"]["uid"]`),
        ...setAttribute("k8s.event.component", `${EVENT}["source"]["component"]`),
        ...setAttribute("k8s.event.component", `${EVENT}["reportingComponent"]`),
        ...setAttribute("k8s.object.kind", `${OBJECT}["kind"]`),
        ...setAttribute("k8s.object.name", `${OBJECT}["name"]`),
        ...setAttribute("k8s.object.uid", `${OBJECT}["uid"]`),
        ...setAttribute("k8s.object.fieldpath", `${OBJECT}["fieldPath"]`),
        `set(log.attributes["k8s.event.count"], ${EVENT}["count"]) where ${EVENT}["count"] != nil and ${EVENT}["count"] > 0`,
        `set(log.attributes["k8s.event.count"], ${EVENT}["series"]["count"]) where ${EVENT}["series"]["count"] != nil`,
        ...Object.entries(NAMED_KINDS).map(
          ([kind, name]) => `set(log.attributes["${name}"], ${OBJECT}["name"]) where ${OBJECT}["kind"] == "${kind}"`,
        ),
        `set(log.attributes["k8s.pod.uid"], ${OBJECT}["uid"]) where ${OBJECT}["kind"] == "Pod"`,
        // In increasing order of precedence: the last existing field has the time of the latest occurrence.
        ...["metadata.creationTimestamp", "firstTimestamp", "eventTime", "lastTimestamp", "series.lastObservedTime"].flatMap(setTime),
        // Otherwise, the observed time would be the time of reading, which differs between collectors.
        "set(log.observed_time, log.time)",
        "set(log.severity_number, SEVERITY_NUMBER_INFO)",
        `set(log.severity_number, SEVERITY_NUMBER_WARN) where ${EVENT}["type"] == "Warning"`,
        `set(log.severity_text, "INFO")`,
        `set(log.severity_text, "WARN") where ${EVENT}["type"] == "Warning"`,
        `set(log.body, ${EVENT}["message"]) where ${EVENT}["message"] != nil`,
      ],
    },
  ],
};

function setAttribute(name: string, value: string): string[] {
  return [`set(log.attributes["${name}"], ${value}) where ${value} != nil and ${value} != ""`];
}

/** RFC 3339 in UTC, with or without a fraction. */
function setTime(path: string): string[] {
  const value =
    EVENT +
    path
      .split(".")
      .map((key) => `["${key}"]`)
      .join("");
  const set = (format: string, shape: string): string =>
    `set(log.time, Time(${value}, "${format}")) where IsString(${value}) and IsMatch(${value}, "${shape}$")`;
  return [set("%Y-%m-%dT%H:%M:%SZ", ":[0-9]+Z"), set("%Y-%m-%dT%H:%M:%S.%fZ", "[.][0-9]+Z")];
}

/** Without its id, a container's series continues across restarts, so that restarts can be counted. */
const RESOURCE = { "container.id": { enabled: false }, "k8s.container.status.last_terminated_reason": { enabled: true } };
const METRICS = ["k8s.container.status.reason", "k8s.pod.status_reason"];
const CONDITIONS = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"];

export function clusterState({ intervalMs }: { readonly intervalMs: number }): Fragment {
  return {
    receivers: {
      k8s_cluster: {
        auth_type: "serviceAccount",
        collection_interval: `${intervalMs}ms`,
        node_conditions_to_report: CONDITIONS,
        resource_attributes: RESOURCE,
        metrics: Object.fromEntries(METRICS.map((name) => [name, { enabled: true }])),
      },
    },
    processors: {
      // There are ten possible reasons per container, and at most one applies.
      "filter/reasons": {
        error_mode: "ignore",
        metrics: { datapoint: ['metric.name == "k8s.container.status.reason" and value_int == 0'] },
      },
    },
    pipelines: [{ id: "metrics/cluster", receivers: ["k8s_cluster"], processors: ["filter/reasons"] }],
  };
}
