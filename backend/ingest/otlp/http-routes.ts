// Serves OTLP over HTTP at its standard paths for programs with an ingest token: protobuf and JSON, gzip and zstd. Invariant: a response
// has the encoding of the request, and the status by which OTLP clients decide whether to retry (OTLP specification 1.10, "OTLP/HTTP").
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { IngestTokens } from "../../auth/ingest-tokens/ingest-tokens.ts";
import { senderOf } from "../../auth/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { sendError } from "../../http/error-response.ts";
import { endpoint, type Route } from "../../http/route.ts";
import type { OwnMetrics, Signal } from "../../operations/own-metrics.ts";
import type { IngestHandler, IngestSignal } from "../ingest-handler.ts";
import { CONTENT_TYPES, contentTypeOf, registerTokenRoutes } from "../routes.ts";
import { errorBody, type OtlpEncoding, successBody } from "./answers.ts";

export interface OtlpRoutesOptions {
  readonly handler: IngestHandler;
  readonly ingestTokens: Pick<IngestTokens, "access">;
  readonly ownMetrics: OwnMetrics;
  readonly signals: Readonly<Record<Signal, IngestSignal>>;
}

const MESSAGES: Readonly<Record<Signal, string>> = { logs: "Logs", traces: "Trace", metrics: "Metrics" };

/** Adds POST /v1/logs, /v1/traces and /v1/metrics. */
export function registerOtlpRoutes(app: FastifyInstance, options: OtlpRoutesOptions): void {
  const routes = (["logs", "traces", "metrics"] as const).map((signal) => otlpRoute(signal, options));
  registerTokenRoutes(app, options.ownMetrics, routes);
}

function otlpRoute(signal: Signal, { handler, ingestTokens, signals }: OtlpRoutesOptions): Route {
  const ingest = signals[signal];
  return {
    ...endpoint("POST", `/v1/${signal}`, ingestTokens.access(signal), "ingest"),
    summary: `OTLP Export${MESSAGES[signal]}ServiceRequest, with an ingest token`,
    description: "Requires `INGEST_TOKENS=true`. The response has the encoding of the request.",
    consumes: Object.values(CONTENT_TYPES),
    bodyIsOptional: true,
    documented: {
      body: { description: "compressed with gzip or zstd, or uncompressed", type: "object" },
      response: { 200: { description: "durable; `partialSuccess` counts records that were not stored", type: "object" } },
    },
    errors: ["forbidden", "not_found", "over_quota", "unsupported_encoding"],
    config: { signal },
    errorHandler: sendOtlpError,
    handler: async (request, reply) => {
      const encoding = requireEncoding(request);
      const read = handler.readRequest(request);
      const isProtobuf = encoding === "protobuf";
      const result = await handler.take({ sender: senderOf(request), signal, ingest, ...(isProtobuf && { encoding }), read });
      return await reply.type(CONTENT_TYPES[encoding]).send(successBody(signal, result, encoding));
    },
  };
}

function encodingOf(request: FastifyRequest): OtlpEncoding | undefined {
  const { type } = contentTypeOf(request);
  return type === CONTENT_TYPES.json ? "json" : type === CONTENT_TYPES.protobuf ? "protobuf" : undefined;
}

function requireEncoding(request: FastifyRequest): OtlpEncoding {
  const encoding = encodingOf(request);
  if (encoding) return encoding;
  throw new ApiError("unsupported_encoding", "send OTLP as `Content-Type: application/x-protobuf` or `application/json`");
}

function sendOtlpError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const encoding = encodingOf(request) ?? "json";
  return sendError(error, request, reply, (answer) => ({ type: CONTENT_TYPES[encoding], text: errorBody(answer, encoding) }));
}
