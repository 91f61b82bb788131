// Names of pod, namespace and workload, added to what pods of this node send or log. Watches this node's pods only: a watch of the
// whole cluster from every node is what brings API servers down. Needs pods and namespaces get, list, watch (charts/cluster-agent).
import type { Component } from "./fragment.ts";

/** A pod with the annotation `atherops.io/logs: "false"` keeps its logs to itself. */
export const OPT_OUT_ANNOTATION = "atherops.io/logs";
export const OPT_OUT_ATTRIBUTE = "atherops.logs";

export interface KubernetesInput {
  readonly nodeName: string;
  /**
   * True: the collector starts only when it knows the pods. False while the Kubernetes API does not answer: a collector that waits for it
   * hangs in its start (k8sattributesprocessor v0.149, processor.go: a fatal status that nobody reads yet) and takes nothing at all.
   */
  readonly waitForPods: boolean;
  /** Of pods, by name: added as `k8s.pod.label.<name>` and `k8s.pod.annotation.<name>`. */
  readonly podLabels?: readonly string[];
  readonly podAnnotations?: readonly string[];
}

interface Source {
  readonly from: "resource_attribute" | "connection";
  readonly name?: string;
}

const UID: Source = { from: "resource_attribute", name: "k8s.pod.uid" };
const IP: Source = { from: "resource_attribute", name: "k8s.pod.ip" };
const NAMESPACE: Source = { from: "resource_attribute", name: "k8s.namespace.name" };
const NAME: Source = { from: "resource_attribute", name: "k8s.pod.name" };
const ADDRESS: Source = { from: "connection" };

/** Of senders of OTLP: by their address; what they say of themselves counts where the operator trusts them. */
export function attributesOfSenders(input: KubernetesInput, trustsSenders: boolean): Component {
  return attributes(input, trustsSenders ? [[UID], [IP], [ADDRESS]] : [[ADDRESS]], {});
}

/** Of files, by what their path says. A static pod's has no uid that the API knows (pod-logs.ts), but its name is its own on the node. */
export function attributesOfFiles(input: KubernetesInput): Component {
  const annotations = [{ tag_name: OPT_OUT_ATTRIBUTE, key: OPT_OUT_ANNOTATION, from: "pod" }];
  return attributes(input, [[UID], [NAMESPACE, NAME]], { annotations });
}

/** Of what kubelet and cAdvisor say of pods; names of workloads alone, for each label of a series is paid with each of its points. */
export function attributesOfUsage({ nodeName, waitForPods }: KubernetesInput): Component {
  return attributes({ nodeName, waitForPods }, [[NAMESPACE, NAME]], { metadata: WORKLOADS });
}

const WORKLOADS = ["k8s.deployment.name", "k8s.statefulset.name", "k8s.daemonset.name", "k8s.job.name"];

interface Extract {
  readonly metadata?: readonly string[];
  readonly annotations?: readonly object[];
}

function attributes(input: KubernetesInput, associations: readonly Source[][], extract: Extract): Component {
  const { nodeName, waitForPods, podLabels = [], podAnnotations = [] } = input;
  const annotations = [...(extract.annotations ?? []), ...ofPods("annotation", podAnnotations)];
  return {
    auth_type: "serviceAccount",
    filter: { node: nodeName },
    ...(waitForPods && { wait_for_metadata: true, wait_for_metadata_timeout: "30s" }),
    extract: {
      metadata: ["k8s.namespace.name", "k8s.pod.name", "k8s.pod.uid", "k8s.node.name", ...WORKLOADS],
      deployment_name_from_replicaset: true,
      ...(extract.metadata && { metadata: extract.metadata }),
      ...(podLabels.length > 0 && { labels: ofPods("label", podLabels) }),
      ...(annotations.length > 0 && { annotations }),
    },
    pod_association: associations.map((sources) => ({ sources })),
  };
}

function ofPods(kind: string, names: readonly string[]): object[] {
  return names.map((key) => ({ tag_name: `k8s.pod.${kind}.${key}`, key, from: "pod" }));
}
