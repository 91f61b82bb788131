// Metrics of containers in cAdvisor's own names, scraped from the kubelet (kubeletstats cannot give them). Needs nodes/metrics get.
import type { Fragment } from "./fragment.ts";
import { kubeletAddress, kubeletTls, type KubeletInput } from "./kubelet.ts";

export type CadvisorInput = KubeletInput;

/** Series that few look at and every container multiplies. */
const DROPPED_NAMES =
  "container_(cpu_load_average_10s|cpu_(system|user)_seconds_total|fs_(io_current|io_time.*|reads_merged.*|writes_merged.*|sector_.*)|memory_(mapped_file|swap|failures_total)|file_descriptors|tasks_state|threads_max|spec_.*|blkio_.*)";

export function cadvisor(input: CadvisorInput): Fragment {
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
                { source_labels: ["__name__"], regex: DROPPED_NAMES, action: "drop" },
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
