// Names of pod, namespace and workload, added to what pods of this node send or log. Watches this node's pods only: a watch of the
// whole cluster from every node is what brings API servers down. Needs pods and namespaces get, list, watch (charts/cluster-agent).
// Called by otlp.ts and pod-logs.ts.
import type { Component } from "../fragment.ts";

/** A pod with the annotation `atherops.io/logs: "false"` keeps its logs to itself. */
export const OPT_OUT_ANNOTATION = "atherops.io/logs";
export const OPT_OUT_ATTRIBUTE = "atherops.logs";

export function kubernetesAttributes(nodeName: string): Component {
  return {
    auth_type: "serviceAccount",
    filter: { node: nodeName },
    // Without the pods' names known, an opted-out pod's lines would slip through at each start.
    wait_for_metadata: true,
    wait_for_metadata_timeout: "30s",
    extract: {
      metadata: [
        "k8s.namespace.name",
        "k8s.pod.name",
        "k8s.pod.uid",
        "k8s.node.name",
        "k8s.deployment.name",
        "k8s.statefulset.name",
        "k8s.daemonset.name",
        "k8s.job.name",
      ],
      deployment_name_from_replicaset: true,
      annotations: [{ tag_name: OPT_OUT_ATTRIBUTE, key: OPT_OUT_ANNOTATION, from: "pod" }],
    },
    pod_association: [
      { sources: [{ from: "resource_attribute", name: "k8s.pod.uid" }] },
      { sources: [{ from: "resource_attribute", name: "k8s.pod.ip" }] },
      { sources: [{ from: "connection" }] },
    ],
  };
}
