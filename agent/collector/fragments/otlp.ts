// OTLP of applications, over gRPC and HTTP. In a cluster the sender's pod is found by its address and its Kubernetes names are added; what
// it claims to be counts only where the operator says so. Delta metrics become cumulative here, because exposition text knows no delta.
import type { ListenAddress, Signal } from "../../settings.ts";
import type { Component, Fragment } from "./fragment.ts";
import { SENDER_CLAIMS } from "./claims.ts";
import { attributesOfSenders, DEPLOYMENT_NAMES, DEPLOYMENT_NAMES_ID, type KubernetesInput } from "./kubernetes-attributes.ts";

export interface OtlpInput {
  readonly grpc: ListenAddress;
  readonly http: ListenAddress;
  /** Undefined outside a cluster. */
  readonly kubernetes?: (KubernetesInput & { readonly trustsSenders: boolean }) | undefined;
}

export function otlp({ grpc, http, kubernetes }: OtlpInput, signals: readonly Signal[]): Fragment {
  const withoutClaims = kubernetes?.trustsSenders === false;
  const inCluster = [...(withoutClaims ? ["transform/claims"] : []), ...(kubernetes ? ["k8s_attributes", DEPLOYMENT_NAMES_ID] : [])];
  return {
    receivers: { otlp: { protocols: { grpc: { endpoint: endpoint(grpc) }, http: { endpoint: endpoint(http) } } } },
    processors: {
      ...(withoutClaims && { "transform/claims": SENDER_CLAIMS }),
      ...(kubernetes && {
        k8s_attributes: attributesOfSenders(kubernetes, kubernetes.trustsSenders),
        [DEPLOYMENT_NAMES_ID]: DEPLOYMENT_NAMES,
      }),
      ...(signals.includes("metrics") && { deltatocumulative: DELTA }),
    },
    pipelines: signals.map((signal) => ({
      id: signal,
      receivers: ["otlp"],
      processors: signal === "metrics" ? [...inCluster, "deltatocumulative"] : inCluster,
    })),
  };
}

const DELTA: Component = { max_stale: "5m", max_streams: 100_000 };

/** Without a host: every address of the machine, of IPv6 and IPv4, as far as it has them. */
function endpoint({ host, port }: ListenAddress): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}
