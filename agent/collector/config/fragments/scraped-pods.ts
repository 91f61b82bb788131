// Scrapes pods that ask for it by annotation (prometheus.io/scrape, port, path and scheme), and pods that monitors of the Prometheus
// Operator select (agent/monitors). Invariants: each agent scrapes only pods of its own node, so each pod is scraped once; a scrape
// sends requests only to the pod's own address, without credentials and without following redirects; the size of a scrape response is
// limited; a pod cannot make its series look like another's. Needs list and watch on pods.
import { SCRAPED_CLAIMS } from "./otlp-receiver.ts";
import type { Component, Fragment } from "./fragment.ts";

export interface ScrapedPodsInput {
  readonly intervalMs: number;
  readonly nodeName: string;
  /** Kubeconfig that points to the agent's relay, as in kubernetes-attributes.ts; undefined: discovery queries the API server. */
  readonly kubeconfig?: string | undefined;
}

/** Annotations by which pods request scraping. */
export const SCRAPE_ANNOTATIONS = ["scrape", "port", "path", "scheme"].map((name) => `prometheus.io/${name}`);
const ANNOTATION = "__meta_kubernetes_pod_annotation_prometheus_io_";
const PORT = "__meta_kubernetes_pod_container_port_number";

export function scrapedPods({ intervalMs, nodeName, kubeconfig }: ScrapedPodsInput): Fragment {
  const job: Component = {
    job_name: "kubernetes-pods",
    scrape_interval: `${intervalMs}ms`,
    scrape_timeout: `${Math.min(intervalMs, 10_000)}ms`,
    follow_redirects: false,
    body_size_limit: "16MB",
    sample_limit: 20_000,
    label_limit: 64,
    // A pod's certificate is not signed by a cluster authority; no secret is sent to it.
    tls_config: { insecure_skip_verify: true },
    kubernetes_sd_configs: [podDiscovery(nodeName, kubeconfig)],
    relabel_configs: TARGET_RULES,
    metric_relabel_configs: [NO_SCRAPE_METRICS],
  };
  return {
    receivers: { "prometheus/pods": { config: { scrape_configs: [job] } } },
    processors: { "transform/scraped": SCRAPED_CLAIMS },
    pipelines: [{ id: "metrics/pods", receivers: ["prometheus/pods"], processors: ["transform/scraped"] }],
  };
}

function podDiscovery(nodeName: string, kubeconfig: string | undefined): Component {
  return {
    role: "pod",
    ...(kubeconfig !== undefined && { kubeconfig_file: kubeconfig }),
    selectors: [{ role: "pod", field: `spec.nodeName=${nodeName}` }],
  };
}

/**
 * A scrape response must not contain the metrics that the scraper itself reports. Labels of `target_info` would replace the pod's known
 * attributes (v0.149).
 */
export const NO_SCRAPE_METRICS: Component = { source_labels: ["__name__"], regex: "up|scrape_.*|target_info", action: "drop" };

/** `url`: the agent's own target allocator (agent/monitors). The collector fetches changed jobs and targets from it without a restart. */
export function monitoredPods(url: string): Fragment {
  const allocator = { endpoint: url, interval: "30s", collector_id: "node", http_sd_config: { refresh_interval: "30s" } };
  return {
    receivers: { "prometheus/monitors": { target_allocator: allocator } },
    processors: { "transform/scraped": SCRAPED_CLAIMS },
    pipelines: [{ id: "metrics/monitors", receivers: ["prometheus/monitors"], processors: ["transform/scraped"] }],
  };
}

/** Discovery returns a target for each port that a container declares; the annotation reduces them to one. */
const TARGET_RULES: readonly Component[] = [
  { source_labels: [`${ANNOTATION}scrape`], regex: "true", action: "keep" },
  { source_labels: ["__meta_kubernetes_pod_phase"], regex: "Pending|Succeeded|Failed", action: "drop" },
  { source_labels: ["__meta_kubernetes_pod_container_init"], regex: "true", action: "drop" },
  { source_labels: [`${ANNOTATION}port`, PORT], separator: ";", regex: "[0-9]{1,5};.*|;[0-9]+", action: "keep" },
  addressRule("([0-9.]+);([0-9]+)", "$1:$2"),
  addressRule("([0-9a-fA-F:]+:[0-9a-fA-F:]*);([0-9]+)", "[$1]:$2"),
  { source_labels: [`${ANNOTATION}scheme`], regex: "(https?)", target_label: "__scheme__", replacement: "$1", action: "replace" },
  { source_labels: [`${ANNOTATION}path`], regex: "(/.*)", target_label: "__metrics_path__", replacement: "$1", action: "replace" },
];

function addressRule(regex: string, replacement: string): Component {
  const source_labels = ["__meta_kubernetes_pod_ip", `${ANNOTATION}port`];
  return { source_labels, separator: ";", regex, target_label: "__address__", replacement, action: "replace" };
}
