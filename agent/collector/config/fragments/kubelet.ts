// Collects usage of node, pods, containers and volumes from the kubelet: its summary (kubeletstats), and cAdvisor's metrics under their own
// names. Needs get on nodes/stats and nodes/metrics.
import { joinHostPort } from "../../../../common/ip-networks.ts";
import type { Component, Fragment } from "./fragment.ts";

export interface KubeletInput {
  readonly intervalMs: number;
  /** Address of the node. */
  readonly nodeIp: string;
  /** `verify` with the cluster's authority, `skip`, or a PEM file. */
  readonly tls: string;
  readonly serviceAccountDir: string;
}

const DEPRECATED_ATTRIBUTES = ["aws.volume.id", "fs.type", "gce.pd.name", "glusterfs.endpoints.name", "glusterfs.path", "partition"];

export const KUBELET_PORT = 10_250;

export function kubelet(input: KubeletInput): Fragment {
  return {
    receivers: {
      kubeletstats: {
        collection_interval: `${input.intervalMs}ms`,
        auth_type: "serviceAccount",
        endpoint: `https://${kubeletAddress(input)}`,
        metric_groups: ["node", "pod", "container", "volume"],
        // Deprecated but enabled by default; each one logs a warning per metric group at each start.
        resource_attributes: Object.fromEntries(DEPRECATED_ATTRIBUTES.map((name) => [name, { enabled: false }])),
        ...kubeletTls(input),
      },
    },
    pipelines: [{ id: "metrics/kubelet", receivers: ["kubeletstats"], processors: [] }],
  };
}

export function kubeletAddress({ nodeIp }: Pick<KubeletInput, "nodeIp">): string {
  return joinHostPort(nodeIp, KUBELET_PORT);
}

/** kubeletstats and a scrape's tls_config both use the key `ca_file`. */
export function kubeletTls({ tls, serviceAccountDir }: Pick<KubeletInput, "tls" | "serviceAccountDir">): Component {
  if (tls === "skip") return { insecure_skip_verify: true };
  return { ca_file: tls === "verify" ? `${serviceAccountDir}/ca.crt` : tls };
}

/** Rarely used metrics with a series for each container. */
const DROPPED_METRICS =
  "container_(cpu_load_average_10s|cpu_(system|user)_seconds_total|fs_(io_current|io_time.*|reads_merged.*|writes_merged.*|sector_.*)|memory_(mapped_file|swap|failures_total)|file_descriptors|tasks_state|threads_max|spec_.*|blkio_.*)";

export function cadvisor(input: KubeletInput): Fragment {
  return {
    receivers: {
      "prometheus/cadvisor": {
        config: {
          scrape_configs: [
            {
              job_name: "cadvisor",
              scheme: "https",
              metrics_path: "/metrics/cadvisor",
              scrape_interval: `${input.intervalMs}ms`,
              scrape_timeout: `${Math.min(input.intervalMs, 10_000)}ms`,
              authorization: { type: "Bearer", credentials_file: `${input.serviceAccountDir}/token` },
              tls_config: kubeletTls(input),
              static_configs: [{ targets: [kubeletAddress(input)] }],
              metric_relabel_configs: [
                { source_labels: ["__name__"], regex: DROPPED_METRICS, action: "drop" },
                { source_labels: ["id", "pod"], regex: ".+;", action: "drop" },
                { regex: "id|name", action: "labeldrop" },
              ],
            },
          ],
        },
      },
    },
    pipelines: [{ id: "metrics/cadvisor", receivers: ["prometheus/cadvisor"], processors: [] }],
  };
}
