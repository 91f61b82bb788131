// State of the cluster's objects as the API server tells it: deployments, pods' phases, containers' restarts and reasons, nodes' conditions,
// jobs, quotas. Needs list and watch of them (charts/cluster-agent); collected once for the whole cluster (cluster-collector.ts).
import type { Fragment } from "./fragment.ts";

/** A series of a container outlives its restarts, so that they can be counted. */
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
      // Ten reasons of each container, of which at most one is so.
      "filter/reasons": {
        error_mode: "ignore",
        metrics: { datapoint: ['metric.name == "k8s.container.status.reason" and value_int == 0'] },
      },
    },
    pipelines: [{ id: "metrics/cluster", receivers: ["k8s_cluster"], processors: ["filter/reasons"] }],
  };
}
