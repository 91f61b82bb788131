// Serves OTLP over HTTP at its standard paths for programs with an ingest token: protobuf and JSON, gzip and zstd. Invariant: a response
// has the encoding of the request, and the status by which OTLP clients decide whether to retry (OTLP specification 1.10, "OTLP/HTTP").
import type { FastifyReply, FastifyRequest } from "fastify";
import { senderOf } from "../../http/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { sendError } from "../../http/error-response.ts";
import { endpoint, type Route } from "../../http/route.ts";
import type { Signal } from "../../operations/own-metrics.ts";
import type { IngestSignal } from "../ingest-handler.ts";
import { CONTENT_TYPES, contentTypeOf, STORED, type TokenRouteOptions } from "../ingest-routes.ts";
import { errorBody, type OtlpEncoding, successBody } from "./answers.ts";

const MESSAGES: Readonly<Record<Signal, string>> = { logs: "Logs", traces: "Trace", metrics: "Metrics" };

/** POST /v1/logs, /v1/traces or /v1/metrics. */
export function otlpRoute(signal: Signal, ingest: IngestSignal, { handler, ingestTokens }: TokenRouteOptions): Route {
  return {
    ...endpoint("POST", `/v1/${signal}`, ingestTokens.access(signal), "ingest"),
    summary: `OTLP Export${MESSAGES[signal]}ServiceRequest, with an ingest token`,
    description: "Requires `INGEST_TOKENS=true`. The response has the encoding of the request.",
    consumes: Object.values(CONTENT_TYPES),
    bodyIsOptional: true,
    documented: {
      body: { description: "compressed with gzip or zstd, or uncompressed", type: "object" },
      response: { 200: { description: `${STORED}; \`partialSuccess\` counts records that were not stored`, type: "object" } },
    },
    errors: ["forbidden", "not_found", "over_quota", "unsupported_encoding"],
    config: { signal },
    errorHandler: sendOtlpError,
    handler: async (request, reply) => {
      const encoding = encodingOf(request);
      if (!encoding)
        throw new ApiError("unsupported_encoding", "send OTLP as `Content-Type: application/x-protobuf` or `application/json`");
      const read = handler.readRequest(request);
      const isProtobuf = encoding === "protobuf";
      const format = isProtobuf ? { encoding } : {};
      const result = await handler.handle({ sender: senderOf(request), signal, ingest, isTolerant: true, ...format, read });
      return await reply.type(CONTENT_TYPES[encoding]).send(successBody(signal, result, encoding));
    },
  };
}

function encodingOf(request: FastifyRequest): OtlpEncoding | undefined {
  const { type } = contentTypeOf(request);
  return type === CONTENT_TYPES.json ? "json" : type === CONTENT_TYPES.protobuf ? "protobuf" : undefined;
}

function sendOtlpError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const encoding = encodingOf(request) ?? "json";
  return sendError(error, request, reply, (answer) => ({ type: CONTENT_TYPES[encoding], text: errorBody(answer, encoding) }));
}
