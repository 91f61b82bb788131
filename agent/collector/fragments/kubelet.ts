// Usage of node, pods, containers and volumes as the kubelet sums it up. Needs nodes/stats get.
import type { Component, Fragment } from "./fragment.ts";

export interface KubeletInput {
  readonly intervalMs: number;
  /** Address of the node. */
  readonly nodeIp: string;
  /** `verify` with the cluster's authority, `skip`, or a PEM file. */
  readonly tls: string;
  readonly serviceAccountDir: string;
}

const DEPRECATED = ["aws.volume.id", "fs.type", "gce.pd.name", "glusterfs.endpoints.name", "glusterfs.path", "partition"];

export const KUBELET_PORT = 10_250;

export function kubelet(input: KubeletInput): Fragment {
  return {
    receivers: {
      kubeletstats: {
        collection_interval: `${input.intervalMs}ms`,
        auth_type: "serviceAccount",
        endpoint: `https://${kubeletAddress(input)}`,
        metric_groups: ["node", "pod", "container", "volume"],
        // On unless turned off, deprecated, and each worth a warning for each metric group at each start.
        resource_attributes: Object.fromEntries(DEPRECATED.map((name) => [name, { enabled: false }])),
        ...kubeletTls(input),
      },
    },
    pipelines: [{ id: "metrics/kubelet", receivers: ["kubeletstats"], processors: [] }],
  };
}

export function kubeletAddress({ nodeIp }: Pick<KubeletInput, "nodeIp">): string {
  return `${nodeIp.includes(":") ? `[${nodeIp}]` : nodeIp}:${KUBELET_PORT}`;
}

/** `ca_file` is spelled alike by kubeletstats and by a scrape's tls_config. */
export function kubeletTls({ tls, serviceAccountDir }: Pick<KubeletInput, "tls" | "serviceAccountDir">): Component {
  if (tls === "skip") return { insecure_skip_verify: true };
  return { ca_file: tls === "verify" ? `${serviceAccountDir}/ca.crt` : tls };
}
