// Receives OTLP from applications over gRPC and HTTP, and limits which Kubernetes identity they can claim. Invariants: in a cluster, unless
// `trustsSenders` is set, the sender's pod is found by its address, and the `k8s.*` attributes of its resources come from the agent or are
// absent, except `k8s.container.name`; no application can send one of the agent's own series. Delta metrics become cumulative here, because
// the exposition format has no deltas.
import { joinHostPort } from "../../../../common/ip-networks.ts";
import type { ListenAddress, Signal } from "../../../settings.ts";
import { MAX_CLAIMED_ATTRIBUTES } from "../../../agent-limits.ts";
import type { Component, Fragment } from "./fragment.ts";
import { senderAttributes, DEPLOYMENT_NAMES, DEPLOYMENT_NAMES_ID, type KubernetesInput } from "./kubernetes-attributes.ts";

export interface OtlpInput {
  readonly grpc: ListenAddress;
  readonly http: ListenAddress;
  /** Undefined outside a cluster. */
  readonly kubernetes?: (KubernetesInput & { readonly trustsSenders: boolean }) | undefined;
}

export function otlp({ grpc, http, kubernetes }: OtlpInput, signals: readonly Signal[]): Fragment {
  const removesClaims = kubernetes?.trustsSenders === false;
  const kubernetesProcessors = [
    ...(removesClaims ? ["transform/claims"] : []),
    ...(kubernetes ? ["k8s_attributes", DEPLOYMENT_NAMES_ID] : []),
  ];
  return {
    // An empty host means all IPv6 and IPv4 addresses of the machine.
    receivers: {
      otlp: {
        protocols: { grpc: { endpoint: joinHostPort(grpc.host, grpc.port) }, http: { endpoint: joinHostPort(http.host, http.port) } },
      },
    },
    processors: {
      ...(removesClaims && { "transform/claims": SENDER_CLAIMS }),
      ...(kubernetes && {
        k8s_attributes: senderAttributes(kubernetes, kubernetes.trustsSenders),
        [DEPLOYMENT_NAMES_ID]: DEPLOYMENT_NAMES,
      }),
      ...(signals.includes("metrics") && { deltatocumulative: DELTA_TO_CUMULATIVE }),
    },
    pipelines: signals.map((signal) => ({
      id: signal,
      receivers: ["otlp"],
      processors: signal === "metrics" ? [...kubernetesProcessors, "deltatocumulative"] : kubernetesProcessors,
    })),
  };
}

const DELTA_TO_CUMULATIVE: Component = { max_stale: "5m", max_streams: 100_000 };

/** Also matches names that become one of our label names, such as `k8s_pod_name` and `k8s-pod-name`. */
const RESERVED = "^k8s([^A-Za-z0-9])";
/** Attribute of points that applications send under the metric names of the agent's own metrics (kubelet, cAdvisor, host, scrapes). */
const REPORTED_BY = "atherops.reported_by";
const AGENT_METRICS = "^((k8s|container|system|machine|cadvisor|kubelet|scrape)([^A-Za-z0-9]|$)|up$)";
/** Reserved names in scrape responses. They exclude `up` and `scrape_*` (scraped-pods.ts), which the Prometheus receiver itself adds. */
const AGENT_METRICS_IN_SCRAPES = "^(k8s|container|system|machine|cadvisor|kubelet)([^A-Za-z0-9]|$)";

/** This claim is kept, because only the sender knows its container's name, and it can only name a container of its own pod. */
const CONTAINER_NAME = "k8s.container.name";

/**
 * `k8s.*` claims are dropped from resources. Records, spans and points keep them as `exported.k8s.*`, because they distinguish series, and
 * because a record may be about another pod.
 */
const SENDER_CLAIMS: Component = {
  // If this cannot be applied, the request is refused and its sender gets the error.
  error_mode: "propagate",
  log_statements: [
    { context: "resource", statements: resourceStatements() },
    // Only the agent's own lines of files are parsed by the backend.
    { context: "scope", statements: ['set(scope.name, "") where IsMatch(scope.name, "^atherops/")'] },
    { context: "log", statements: [renameReservedKeys("log")] },
  ],
  trace_statements: [
    { context: "resource", statements: resourceStatements() },
    { context: "span", statements: [renameReservedKeys("span")] },
  ],
  metric_statements: [
    { context: "resource", statements: resourceStatements() },
    { context: "datapoint", statements: pointStatements(AGENT_METRICS) },
  ],
};

/**
 * Suffix of the name of a Deployment's ReplicaSet (apimachinery, rand.SafeEncodeString): a number below 2^32, one character per decimal
 * digit. One in 400,000 is shorter. The suffix has no vowels, so hardly any word matches.
 */
const TEMPLATE_HASH = "-[bcdfghjklmnpqrstvwxz2456789]{5,10}$";

/** For scraped pods: their identity comes from the API server, all other attributes from the scrape response. */
export const SCRAPED_CLAIMS: Component = {
  error_mode: "propagate",
  metric_statements: [
    {
      context: "resource",
      statements: [
        `set(resource.attributes["k8s.deployment.name"], resource.attributes["k8s.replicaset.name"]) where resource.attributes["k8s.replicaset.name"] != nil and IsMatch(resource.attributes["k8s.replicaset.name"], "${TEMPLATE_HASH}")`,
        `replace_pattern(resource.attributes["k8s.deployment.name"], "${TEMPLATE_HASH}", "") where resource.attributes["k8s.deployment.name"] != nil`,
        'delete_key(resource.attributes, "k8s.replicaset.name")',
      ],
    },
    { context: "datapoint", statements: pointStatements(AGENT_METRICS_IN_SCRAPES) },
  ],
};

function pointStatements(agentMetrics: string): string[] {
  return [
    renameReservedKeys("datapoint"),
    `set(datapoint.attributes["${REPORTED_BY}"], "application") where IsMatch(metric.name, "${agentMetrics}")`,
    `limit(datapoint.attributes, ${MAX_CLAIMED_ATTRIBUTES}, ["${REPORTED_BY}"]) where IsMatch(metric.name, "${agentMetrics}")`,
  ];
}

function resourceStatements(): string[] {
  const containerName = `resource.attributes["${CONTAINER_NAME}"]`;
  return [
    `set(resource.cache["kept"], ${containerName})`,
    `delete_matching_keys(resource.attributes, "${RESERVED}")`,
    `set(${containerName}, resource.cache["kept"]) where resource.cache["kept"] != nil`,
  ];
}

function renameReservedKeys(context: string): string {
  return `replace_all_patterns(${context}.attributes, "key", "${RESERVED}", "exported.k8s$1")`;
}
