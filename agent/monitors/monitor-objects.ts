// Types of the fields that are read from monitors (`monitoring.coreos.com/v1`) and Services. Their values are not validated yet.
import type { Relabeling } from "./relabeling.ts";

export interface Metadata {
  readonly name: string;
  readonly namespace: string;
  readonly labels?: Readonly<Record<string, string>>;
}

export interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly { readonly key: string; readonly operator: string; readonly values?: readonly string[] }[];
}

/** Fields of an endpoint that are read; REFUSED_FIELDS (scrape-jobs.ts) lists those that a monitor must not have. */
export interface Endpoint {
  readonly port?: string;
  readonly portNumber?: number;
  readonly targetPort?: string | number;
  readonly path?: string;
  readonly scheme?: string;
  readonly params?: Readonly<Record<string, readonly string[]>>;
  readonly interval?: string;
  readonly scrapeTimeout?: string;
  readonly honorTimestamps?: boolean;
  readonly tlsConfig?: Readonly<Record<string, unknown>>;
  readonly relabelings?: readonly Relabeling[];
  readonly metricRelabelings?: readonly Relabeling[];
}

export interface Monitor {
  readonly kind: "ServiceMonitor" | "PodMonitor";
  readonly metadata: Metadata;
  readonly spec: {
    readonly selector?: Selector;
    readonly namespaceSelector?: { readonly any?: boolean; readonly matchNames?: readonly string[] };
    readonly jobLabel?: string;
    readonly targetLabels?: readonly string[];
    readonly podTargetLabels?: readonly string[];
    readonly sampleLimit?: number;
    readonly endpoints?: readonly Endpoint[];
    readonly podMetricsEndpoints?: readonly Endpoint[];
  };
}

/** Read only to report that it is not scraped. */
export interface ForeignTarget {
  readonly kind: "Probe" | "ScrapeConfig";
  readonly metadata: Metadata;
}

export interface Service {
  readonly metadata: Metadata;
  readonly spec: {
    readonly selector?: Readonly<Record<string, string>>;
    readonly ports?: readonly { readonly name?: string; readonly port: number; readonly targetPort?: string | number }[];
  };
}

export function path({ namespace, name }: Metadata): string {
  return `${namespace}/${name}`;
}

export function nameOf({ kind, metadata }: Pick<Monitor, "metadata"> & { readonly kind: string }): string {
  return `${kind} ${path(metadata)}`;
}
