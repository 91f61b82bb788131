// The pods of this node as targets of scrape jobs, with the labels that Prometheus' own discovery of pods gives them: one target for each
// port that a container declares, or one for a container without ports. Reads pods as pods/node-pods.ts keeps them.
import { labelName } from "./relabeling.ts";

export interface PodTargets {
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  /** JSON of Prometheus' HTTP discovery: groups of one target, with commas between them. */
  readonly groups: string;
}

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

/** `pod`: JSON. Undefined for a pod without an address. */
export function podTargets(pod: string): PodTargets | undefined {
  const { metadata, spec, status } = JSON.parse(pod) as SlimPod;
  const { podIP } = status;
  if (!podIP) return undefined;
  const labels = labelsOfPod(metadata, spec, status);
  const containers = [
    ...(spec.containers ?? []).map((container) => ({ container, isInit: false })),
    ...(spec.initContainers ?? []).map((container) => ({ container, isInit: true })),
  ];
  const groups = containers.flatMap(({ container: { name, ports = [] }, isInit }) => {
    const ofContainer = { ...labels, ...meta({ container_name: name, container_init: String(isInit) }) };
    if (ports.length === 0) return [{ targets: [podIP], labels: ofContainer }];
    return ports.map(({ name: port = "", containerPort, protocol = "TCP" }) => ({
      targets: [podIP.includes(":") ? `[${podIP}]:${containerPort}` : `${podIP}:${containerPort}`],
      labels: {
        ...ofContainer,
        ...meta({ container_port_name: port, container_port_number: String(containerPort), container_port_protocol: protocol }),
      },
    }));
  });
  return {
    namespace: metadata.namespace,
    labels: metadata.labels ?? {},
    groups: groups.map((group) => JSON.stringify(group)).join(),
  };
}

function labelsOfPod(metadata: SlimPod["metadata"], spec: SlimPod["spec"], status: SlimPod["status"]): Record<string, string> {
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
      ...named("label", metadata.labels),
      ...named("annotation", metadata.annotations),
    }),
  };
}

function named(kind: string, values: Readonly<Record<string, string>> = {}): Record<string, string> {
  const pairs = Object.entries(values).map(([name, value]) => [labelName(name), value] as const);
  return Object.fromEntries(
    pairs.flatMap(([name, value]) => [
      [`${kind}_${name}`, value],
      [`${kind}present_${name}`, "true"],
    ]),
  );
}

function meta(labels: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [`__meta_kubernetes_pod_${name}`, value]));
}
