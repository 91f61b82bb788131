// Builds scrape targets from the pods of this node, with the labels that Prometheus' own pod discovery sets: one target per port that a
// container declares, or one for a container without ports. Reads pods as pods/node-pods.ts keeps them. Each target repeats all labels of
// its pod, so targets are built only for pods that a job selects, and up to a limit.
import { joinHostPort } from "../../common/ip-networks.ts";
import { MAX_POD_TARGETS_CHARACTERS } from "../agent-limits.ts";
import { path } from "./monitor-objects.ts";
import { labelName } from "./relabeling.ts";

interface Port {
  readonly name?: string;
  readonly containerPort: number;
  readonly protocol?: string;
}

interface Container {
  readonly name: string;
  readonly ports?: readonly Port[];
}

interface SlimPod {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly ownerReferences?: readonly { readonly kind: string; readonly name: string; readonly controller?: boolean }[];
  };
  readonly spec: { readonly nodeName?: string; readonly containers?: readonly Container[]; readonly initContainers?: readonly Container[] };
  readonly status: {
    readonly phase?: string;
    readonly podIP?: string;
    readonly hostIP?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

export class PodTargets {
  readonly namespace: string;
  readonly path: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly #pod: string;
  #groups: string[] | undefined;
  #isTruncated = false;

  /** `pod`: JSON. */
  constructor(pod: string) {
    const { metadata } = JSON.parse(pod) as SlimPod;
    this.namespace = metadata.namespace;
    this.path = path(metadata);
    this.labels = metadata.labels ?? {};
    this.#pod = pod;
  }

  /** JSON of Prometheus' HTTP discovery: groups with one target each. Empty for a pod without an address. */
  get groups(): readonly string[] {
    return (this.#groups ??= this.#build());
  }

  /** True if targets beyond the limit were omitted. */
  get isTruncated(): boolean {
    return this.#isTruncated;
  }

  #build(): string[] {
    const pod = JSON.parse(this.#pod) as SlimPod;
    const sharedLabels = JSON.stringify(podLabels(pod)).slice(0, -1);
    const groups: string[] = [];
    let characters = 0;
    for (const { address, labels } of listTargets(pod)) {
      const group = `{"targets":[${JSON.stringify(address)}],"labels":${sharedLabels},${JSON.stringify(meta(labels)).slice(1)}}`;
      characters += group.length;
      this.#isTruncated = characters > MAX_POD_TARGETS_CHARACTERS;
      if (this.#isTruncated) break;
      groups.push(group);
    }
    return groups;
  }
}

/** One target per port, with the labels of its container and port. */
function* listTargets({ spec, status: { podIP } }: SlimPod): Generator<{ address: string; labels: Readonly<Record<string, string>> }> {
  if (!podIP) return;
  const containers = [
    ...(spec.containers ?? []).map((container) => ({ container, isInit: false })),
    ...(spec.initContainers ?? []).map((container) => ({ container, isInit: true })),
  ];
  for (const { container, isInit } of containers) {
    const { name: container_name, ports = [] } = container;
    const containerLabels = { container_name, container_init: String(isInit) };
    if (ports.length === 0) yield { address: podIP, labels: containerLabels };
    for (const { name = "", containerPort, protocol = "TCP" } of ports)
      yield {
        address: joinHostPort(podIP, containerPort),
        labels: {
          ...containerLabels,
          container_port_name: name,
          container_port_number: String(containerPort),
          container_port_protocol: protocol,
        },
      };
  }
}

function podLabels({ metadata, spec, status }: SlimPod): Record<string, string> {
  const controller = metadata.ownerReferences?.find((owner) => owner.controller);
  return {
    __meta_kubernetes_namespace: metadata.namespace,
    ...meta({
      name: metadata.name,
      uid: metadata.uid,
      ip: status.podIP ?? "",
      host_ip: status.hostIP ?? "",
      node_name: spec.nodeName ?? "",
      phase: status.phase ?? "",
      ready: (status.conditions?.find(({ type }) => type === "Ready")?.status ?? "Unknown").toLowerCase(),
      ...(controller && { controller_kind: controller.kind, controller_name: controller.name }),
      ...metaLabels("label", metadata.labels),
      ...metaLabels("annotation", metadata.annotations),
    }),
  };
}

function metaLabels(kind: string, values: Readonly<Record<string, string>> = {}): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const [name, value] of Object.entries(values)) {
    labels[`${kind}_${labelName(name)}`] = value;
    labels[`${kind}present_${labelName(name)}`] = "true";
  }
  return labels;
}

function meta(labels: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [`__meta_kubernetes_pod_${name}`, value]));
}
