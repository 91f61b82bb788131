// Serves OTLP over gRPC: the three services of opentelemetry-proto, with the same handler as OTLP over HTTP. Invariants: after a call that
// returns OK, everything is stored except what its partial success counts; memory, quota and speed are limited as on other ingest paths.
import type { ServerHttp2Stream } from "node:http2";
import type { IngestSignal as TokenSignal, IngestTokens } from "../../auth/ingest-tokens/ingest-tokens.ts";
import { ApiError } from "../../errors.ts";
import type { OwnMetrics, Signal } from "../../operations/own-metrics.ts";
import type { IngestHandler, IngestRequest, IngestSignal } from "../ingest-handler.ts";
import { MAX_GRPC_MESSAGE_BYTES } from "../ingest-limits.ts";
import { successBody } from "../otlp/answers.ts";
import type { Method } from "./grpc-server.ts";
import { notCompressed, readEnd, readHead, secondMessage } from "./grpc-messages.ts";

export interface OtlpServiceOptions {
  readonly handler: IngestHandler;
  readonly ingestTokens: Pick<IngestTokens, "authenticate">;
  readonly ownMetrics: OwnMetrics;
  readonly signals: Readonly<Record<Signal, IngestSignal>>;
}

const SERVICES = { logs: "logs.v1.LogsService", traces: "trace.v1.TraceService", metrics: "metrics.v1.MetricsService" } as const;

export function otlpMethods(options: OtlpServiceOptions): ReadonlyMap<string, Method> {
  const signals = Object.keys(SERVICES) as TokenSignal[];
  return new Map(signals.map((signal) => [`/opentelemetry.proto.collector.${SERVICES[signal]}/Export`, exportMethod(signal, options)]));
}

function exportMethod(signal: TokenSignal, { handler, ingestTokens, ownMetrics, signals }: OtlpServiceOptions): Method {
  return async ({ stream, headers, address, isEncrypted, authenticated }) => {
    try {
      const sender = await ingestTokens.authenticate({ headers, address, isEncrypted }, signal);
      authenticated(sender.orgId);
      const head = await readHead(stream);
      if (head.byteLength > MAX_GRPC_MESSAGE_BYTES)
        throw new ApiError("body_too_large", `a message has at most ${MAX_GRPC_MESSAGE_BYTES / 1024 / 1024} MiB: send smaller batches`);
      const encoding = head.isCompressed ? String(headers["grpc-encoding"] ?? "identity") : undefined;
      if (encoding === "identity") throw notCompressed();
      const declaredBytes = head.byteLength;
      const incoming = { request: stream, declaredBytes, encoding, tooMany: secondMessage() };
      const read = wholeMessage(handler.readStream(incoming), declaredBytes, stream);
      const result = await handler.handle({ sender, signal, ingest: signals[signal], encoding: "protobuf", isTolerant: true, read });
      return successBody(signal, result, "protobuf") as Buffer;
    } catch (error) {
      ownMetrics.rejected(signal, error instanceof ApiError ? error.code : "internal");
      throw error;
    }
  };
}

/** Rejects what follows the message. */
function wholeMessage(read: IngestRequest["read"], declaredBytes: number, stream: ServerHttp2Stream): IngestRequest["read"] {
  return async (reservation) => {
    const message = declaredBytes === 0 ? Buffer.alloc(0) : await read(reservation);
    await readEnd(stream);
    return message;
  };
}
