// Names of workloads on what kubelet and cAdvisor say of pods, so that usage is found by Deployment as logs and traces are. Invariant: one
// watch of the node's pods for both; labels that cAdvisor has of its own stay as they are.
import type { Component, Fragment } from "./fragment.ts";
import { attributesOfUsage, DEPLOYMENT_NAMES, DEPLOYMENT_NAMES_ID, type KubernetesInput } from "./kubernetes-attributes.ts";

/** A series of cAdvisor has its pod in the labels of its points, where the others have it in the resource. */
const BY_POD: Component = { keys: ["namespace", "pod"] };
const AS_RESOURCE: Component = {
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

/** `usage`: the fragments of kubelet and cAdvisor, whose pipelines become one. */
export function withWorkloadNames(usage: readonly Fragment[], kubernetes: KubernetesInput): Fragment {
  return {
    receivers: Object.assign({}, ...usage.map(({ receivers }) => receivers)) as Record<string, Component>,
    processors: {
      "groupbyattrs/pods": BY_POD,
      "transform/pods": AS_RESOURCE,
      "k8s_attributes/usage": attributesOfUsage(kubernetes),
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
