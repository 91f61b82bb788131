// Serves Loki's push API for programs with an ingest token, such as Promtail, Grafana Alloy, Vector and Fluent Bit: protobuf with Snappy,
// and JSON. Invariant: the statuses are Loki's, because clients decide by them whether to retry: 204 if everything is stored, 400 if some
// or all entries are rejected, 429 and 503 with `Retry-After` if the client should retry.
import type { FastifyRequest } from "fastify";
import { senderOf } from "../../http/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { endpoint, type Route } from "../../http/route.ts";
import type { IngestResult, IngestSignal } from "../ingest-handler.ts";
import { ADVICE, notStored } from "../record-faults.ts";
import { CONTENT_TYPES, contentTypeOf, STORED, type TokenRouteOptions } from "../ingest-routes.ts";
import type { LokiEncoding } from "./push-to-json.ts";

const { protobuf: PROTOBUF, json: JSON_TYPE } = CONTENT_TYPES;

export function lokiPushRoute(ingest: IngestSignal, { handler, ingestTokens }: TokenRouteOptions): Route {
  return {
    ...endpoint("POST", "/loki/api/v1/push", ingestTokens.access("logs"), "ingest"),
    summary: "Loki push request, with an ingest token",
    description: "Requires `INGEST_TOKENS=true`. Protobuf is compressed with Snappy, as Loki's clients send it.",
    consumes: [PROTOBUF, JSON_TYPE],
    bodyIsOptional: true,
    documented: {
      body: { description: "JSON may be compressed with gzip or zstd", type: "object" },
      response: { 204: { description: STORED, type: "null" } },
    },
    errors: ["forbidden", "not_found", "over_quota", "unsupported_encoding"],
    config: { signal: "logs" },
    handler: async (request, reply) => {
      const encoding = encodingOf(request);
      const read = handler.readRequest(request, { isSnappy: encoding === "loki_protobuf" });
      const result = await handler.handle({ sender: senderOf(request), signal: "logs", ingest, encoding, isTolerant: true, read });
      refusePartial(result);
      return await reply.code(204).send();
    },
  };
}

function encodingOf(request: FastifyRequest): LokiEncoding {
  const { type } = contentTypeOf(request);
  if (type === JSON_TYPE) return "loki_json";
  if (type === PROTOBUF) return "loki_protobuf";
  throw new ApiError("unsupported_encoding", `send \`Content-Type: ${PROTOBUF}\` or \`${JSON_TYPE}\``);
}

/** Loki has no partial success: it stores what it can, and its 400 lists the rest. */
function refusePartial(result: IngestResult): void {
  const list = notStored(result, ADVICE);
  if (list !== "") throw new ApiError("invalid_payload", `entries that were not stored: ${list}; ${result.accepted} entries are stored`);
}
