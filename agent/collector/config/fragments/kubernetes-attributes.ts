// Adds pod, namespace and workload names to telemetry, logs and usage metrics of this node's pods. It watches only these pods: if every
// node watched the whole cluster, API servers would be overloaded. Needs list and watch on pods (charts/cluster-agent).
import type { Component, Fragment } from "./fragment.ts";

/** The logs of a pod with the annotation `atherops.io/logs: "false"` are not collected. */
export const OPT_OUT_ANNOTATION = "atherops.io/logs";
export const OPT_OUT_ATTRIBUTE = "atherops.logs";

/** Each pipeline that uses one of these ids has its own instance, with its own list and watch of the pods. */
export const POD_ATTRIBUTE_PROCESSORS = ["k8s_attributes", "k8s_attributes/files", "k8s_attributes/usage"];

export interface KubernetesInput {
  readonly nodeName: string;
  /**
   * True: the collector starts only once it knows the pods. False while the Kubernetes API does not respond: a collector that waits for it
   * hangs during startup (k8sattributesprocessor v0.149, processor.go: a fatal status that is not read yet) and accepts no data.
   */
  readonly waitForPods: boolean;
  /** The collector asks the agent for pods instead of the API server, through the kubeconfig in its environment (agent/pods/relay.ts). */
  readonly usesRelay: boolean;
  /** Labels and annotations of pods, by name; added as `k8s.pod.label.<name>` and `k8s.pod.annotation.<name>`. */
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

/** Attributes for OTLP, found by the sender's address. The sender's own claims count only if the operator trusts senders. */
export function senderAttributes(input: KubernetesInput, trustsSenders: boolean): Component {
  return podAttributes(input, trustsSenders ? [[UID], [IP], [ADDRESS]] : [[ADDRESS]], {});
}

/**
 * Attributes of log files, found by path. A static pod's path contains a uid that the API does not know (pod-logs.ts), but its name is
 * unique on the node.
 */
export function fileAttributes(input: KubernetesInput, more: readonly object[]): Component {
  const annotations = [{ tag_name: OPT_OUT_ATTRIBUTE, key: OPT_OUT_ANNOTATION, from: "pod" }, ...more];
  return podAttributes(input, [[UID], [NAMESPACE, NAME]], { annotations });
}

/** Attributes of kubelet and cAdvisor metrics. Only workload names, because every label costs bytes in each point of a series. */
function usageAttributes({ nodeName, waitForPods, usesRelay }: KubernetesInput): Component {
  return podAttributes({ nodeName, waitForPods, usesRelay }, [[NAMESPACE, NAME]], { metadata: WORKLOADS });
}

const WORKLOADS = ["k8s.deployment.name", "k8s.statefulset.name", "k8s.daemonset.name", "k8s.job.name"];

/**
 * The processor finds a Deployment only if its ReplicaSet's hash has ten characters (v0.149, extractDeploymentNameFromReplicaSet). The hash
 * encodes a number below 2^32, one character per decimal digit, so it is shorter for a quarter of all Deployments. The pod has the hash as
 * a label, and in its name.
 */
export const HASH_LABEL = "pod-template-hash";
const HASH = 'resource.attributes["k8s.pod.template_hash"]';
const POD = 'resource.attributes["k8s.pod.name"]';
const DEPLOYMENT = 'resource.attributes["k8s.deployment.name"]';
/** A pod's name ends with a dash and five characters. A name that was cut because it was too long has no dash. */
const SUFFIX_LENGTH = 6;
const NAME_STATEMENTS = [
  {
    context: "resource",
    statements: [
      `set(${DEPLOYMENT}, Substring(${POD}, 0, Len(${POD}) - Len(${HASH}) - ${SUFFIX_LENGTH + 1})) where ${HASH} != nil and ${DEPLOYMENT} == nil and HasSuffix(Substring(${POD}, 0, Len(${POD}) - ${SUFFIX_LENGTH}), Concat(["-", ${HASH}], ""))`,
      `delete_key(resource.attributes, "k8s.pod.template_hash")`,
    ],
  },
];

/** Runs after the processor that adds pod attributes, in each of its pipelines: adds the Deployment's name if its hash is short. */
export const DEPLOYMENT_NAMES_ID = "transform/deployments";
export const DEPLOYMENT_NAMES: Component = {
  // A name that is shorter than the suffix does not belong to a Deployment's pod.
  error_mode: "silent",
  log_statements: NAME_STATEMENTS,
  trace_statements: NAME_STATEMENTS,
  metric_statements: NAME_STATEMENTS,
};

interface Extract {
  readonly metadata?: readonly string[];
  readonly annotations?: readonly object[];
}

function podAttributes(input: KubernetesInput, associations: readonly Source[][], extract: Extract): Component {
  const { nodeName, waitForPods, usesRelay, podLabels = [], podAnnotations = [] } = input;
  const annotations = [...(extract.annotations ?? []), ...extractRules("annotation", podAnnotations)];
  return {
    auth_type: usesRelay ? "kubeConfig" : "serviceAccount",
    filter: { node: nodeName },
    ...(waitForPods && { wait_for_metadata: true, wait_for_metadata_timeout: "30s" }),
    extract: {
      metadata: ["k8s.namespace.name", "k8s.pod.name", "k8s.pod.uid", "k8s.node.name", ...WORKLOADS],
      deployment_name_from_replicaset: true,
      ...(extract.metadata && { metadata: extract.metadata }),
      labels: [{ tag_name: "k8s.pod.template_hash", key: HASH_LABEL, from: "pod" }, ...extractRules("label", podLabels)],
      ...(annotations.length > 0 && { annotations }),
    },
    pod_association: associations.map((sources) => ({ sources })),
  };
}

function extractRules(kind: string, names: readonly string[]): object[] {
  return names.map((key) => ({ tag_name: `k8s.pod.${kind}.${key}`, key, from: "pod" }));
}

/** A cAdvisor series has its pod in the labels of its points, other series have it in the resource. */
const BY_POD: Component = { keys: ["namespace", "pod"] };
const LABELS_TO_RESOURCE: Component = {
  error_mode: "ignore",
  metric_statements: [
    {
      context: "resource",
      statements: ["namespace", "pod"].map(
        (label) =>
          `set(resource.attributes["k8s.${label}.name"], resource.attributes["${label}"]) where resource.attributes["${label}"] != nil`,
      ),
    },
  ],
};

/** `usage`: the kubelet and cAdvisor fragments, whose pipelines become one. */
export function withWorkloadNames(usage: readonly Fragment[], kubernetes: KubernetesInput): Fragment {
  return {
    receivers: Object.assign({}, ...usage.map(({ receivers }) => receivers)) as Record<string, Component>,
    processors: {
      "groupbyattrs/pods": BY_POD,
      "transform/pods": LABELS_TO_RESOURCE,
      "k8s_attributes/usage": usageAttributes(kubernetes),
      [DEPLOYMENT_NAMES_ID]: DEPLOYMENT_NAMES,
    },
    pipelines: [
      {
        id: "metrics/usage",
        receivers: usage.flatMap(({ pipelines }) => pipelines.flatMap(({ receivers }) => receivers)),
        processors: ["groupbyattrs/pods", "transform/pods", "k8s_attributes/usage", DEPLOYMENT_NAMES_ID],
      },
    ],
  };
}
