// OTLP of applications, over gRPC and HTTP. In a cluster the sender's pod is found by its address or uid and its Kubernetes names are
// added. Delta metrics become cumulative here, because exposition text knows no delta. Called by config.ts.
import type { ListenAddress, Signal } from "../../settings.ts";
import type { Component, Fragment } from "../fragment.ts";
import { kubernetesAttributes } from "./kubernetes-attributes.ts";

export interface OtlpInput {
  readonly grpc: ListenAddress;
  readonly http: ListenAddress;
  /** Node whose pods send; undefined outside a cluster. */
  readonly nodeName?: string | undefined;
}

export function otlp(input: OtlpInput, signals: readonly Signal[]): Fragment {
  const inCluster = input.nodeName === undefined ? [] : ["k8sattributes"];
  return {
    receivers: { otlp: { protocols: { grpc: { endpoint: endpoint(input.grpc) }, http: { endpoint: endpoint(input.http) } } } },
    processors: {
      ...(input.nodeName !== undefined && { k8sattributes: kubernetesAttributes(input.nodeName) }),
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

function endpoint({ host, port }: ListenAddress): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}
