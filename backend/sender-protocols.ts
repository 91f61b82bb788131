// Wires the protocols by which programs with an ingest token send telemetry: OTLP over HTTP and gRPC, Loki push and Prometheus remote write.
// All of them use the handler of the ingest routes, so the same limits apply.
import type { Route } from "./http/route.ts";
import type { FastifyInstance } from "fastify";
import type { IngestTokens } from "./auth/ingest-tokens/ingest-tokens.ts";
import { cannotListen } from "./errors.ts";
import type { Connections } from "./http/server-connections.ts";
import { GrpcServer, type GrpcServerOptions } from "./ingest/grpc/grpc-server.ts";
import { otlpMethods } from "./ingest/grpc/otlp-service.ts";
import type { IngestHandler, IngestSignal } from "./ingest/ingest-handler.ts";
import { lokiPushRoute } from "./ingest/loki/push-route.ts";
import { otlpRoute } from "./ingest/otlp/http-routes.ts";
import { createExpositionIngest } from "./ingest/exposition/exposition-ingest.ts";
import { createOtlpMetricsIngest, MetricsThreads } from "./ingest/otlp/metrics/metrics-threads.ts";
import { createExemplarIngest, type ExemplarIngest } from "./ingest/remote-write/exemplar-ingest.ts";
import { createRemoteWriteIngest } from "./ingest/remote-write/remote-write-ingest.ts";
import { remoteWriteRoute } from "./ingest/remote-write/write-route.ts";
import { registerTokenRoutes, type TokenRouteOptions } from "./ingest/ingest-routes.ts";
import type { OwnMetrics } from "./operations/own-metrics.ts";
import type { ActiveSeries } from "./storage/metrics/active-series.ts";
import type { SpanStore } from "./storage/traces/span-store.ts";
import type { Opening, Stores } from "./stores.ts";

type Wiring = Pick<Opening & Stores, "settings" | "log" | "stack" | "ownMetrics" | "metrics" | "retention"> & {
  readonly ingestTokens: IngestTokens;
};

/** The parts of the ingest path that all protocols share. */
interface IngestParts {
  readonly handler: IngestHandler;
  readonly metricsIngest: MetricsIngest;
  readonly logs: IngestSignal;
  readonly traces: IngestSignal;
  readonly activeSeries: ActiveSeries;
  /** Shared with the API. */
  readonly connections: Connections;
}

/** Ingest of metrics, and what remote write shares with it. */
export interface MetricsIngest {
  /** Exposition text, and OTLP in protobuf. */
  readonly signed: IngestSignal;
  readonly otlp: IngestSignal;
  readonly threads: MetricsThreads;
  readonly storeExemplars: ExemplarIngest;
}

export function openMetricsIngest(
  { stack, metrics: store, retention }: Pick<Wiring, "stack" | "metrics" | "retention">,
  { activeSeries, spanStore }: { readonly activeSeries: ActiveSeries; readonly spanStore: SpanStore },
): MetricsIngest {
  const retentionMs = retentionMsOf(retention);
  const exposition = createExpositionIngest(store, { retentionMs, activeSeries });
  const threads = stack.use(new MetricsThreads());
  const storeExemplars = createExemplarIngest({ store: spanStore, retentionDays: (orgId) => retention.admitted(orgId).traces });
  const otlp = createOtlpMetricsIngest(threads, exposition, storeExemplars, retentionMs);
  const signed: IngestSignal = (...request) => (request[2].encoding === "protobuf" ? otlp : exposition)(...request);
  return { signed, otlp, threads, storeExemplars };
}

function retentionMsOf(retention: Wiring["retention"]): (orgId: string) => number {
  return (orgId) => retention.of(orgId).metricsDays * 86_400_000;
}

export async function openSenderProtocols(wiring: Wiring, app: FastifyInstance, parts: IngestParts): Promise<void> {
  const { ownMetrics, metrics: store, retention, ingestTokens } = wiring;
  const { handler, metricsIngest, logs, traces, activeSeries, connections } = parts;
  const { otlp: metrics, threads, storeExemplars } = metricsIngest;
  const retentionMs = retentionMsOf(retention);
  const signals = { logs, traces, metrics };
  const remoteWrite = createRemoteWriteIngest({ threads, store, activeSeries, storeExemplars, retentionMs });
  const shared = { handler, ingestTokens, ownMetrics };
  registerTokenRoutes(app, ownMetrics, tokenRoutes(signals, remoteWrite, shared));
  await openGrpc(wiring, connections, otlpMethods({ ...shared, signals }));
}

/** The routes of all protocols over HTTP. */
export function tokenRoutes(
  signals: Readonly<Record<"logs" | "traces" | "metrics", IngestSignal>>,
  remoteWrite: IngestSignal,
  options: TokenRouteOptions,
): Route[] {
  return [
    ...(["logs", "traces", "metrics"] as const).map((signal) => otlpRoute(signal, signals[signal], options)),
    lokiPushRoute(signals.logs, options),
    remoteWriteRoute(remoteWrite, options),
  ];
}

async function openGrpc(
  { settings, log, stack, ownMetrics }: Wiring,
  connections: Connections,
  methods: GrpcServerOptions["methods"],
): Promise<void> {
  const { otlpGrpc: listenAt, tls, trustedProxies, hasIngestTokens } = settings;
  if (!listenAt || !hasIngestTokens) return;
  const onFinished = (...seen: Parameters<OwnMetrics["finished"]>) => ownMetrics.finished(...seen);
  const server = await GrpcServer.start({ listen: listenAt, tls, connections, trustedProxies, methods, log, onFinished }).catch((cause) => {
    throw cannotListen("OTLP_GRPC_LISTEN", listenAt, cause);
  });
  stack.use(server);
}
