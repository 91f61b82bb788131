// Serves Prometheus remote write 1.0 and 2.0 for programs with an ingest token. Invariant: the statuses are those of the specification: 204
// if the whole request is stored, 400 if some of it never will be, 429 and 5xx if the sender should retry; version 2.0 also gets the
// written numbers in headers. Source: prometheus.io/docs/specs/prw/remote_write_spec_2_0.
import type { FastifyReply, FastifyRequest } from "fastify";
import { senderOf } from "../../http/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { endpoint, type Route } from "../../http/route.ts";
import { type IngestResult, type IngestSignal, isExemplarReason } from "../ingest-handler.ts";
import { MAX_SERIES_LABEL_BYTES } from "../ingest-limits.ts";
import { notStored } from "../record-faults.ts";
import { CONTENT_TYPES, contentTypeOf, STORED, type TokenRouteOptions } from "../ingest-routes.ts";

const MESSAGES: Readonly<Record<string, "remote_write" | "remote_write_2">> = {
  "": "remote_write",
  "prometheus.writerequest": "remote_write",
  "io.prometheus.write.v2.request": "remote_write_2",
};
const WRITTEN = "x-prometheus-remote-write";
/** Prometheus sends these in normal operation: rejecting them would fill the log of the sender. */
const isIgnored = (reason: string): boolean => reason === "not_a_number" || isExemplarReason(reason);
const ADVICE: Readonly<Record<string, string>> = {
  float_histogram: "float_histogram: native histograms with fractions cannot be stored; send the histogram that they were computed from",
  malformed_histogram: "malformed_histogram: its spans and buckets do not match, or its schema is not one of -53 and -4 to 8",
  native_histogram_limit: "native_histogram_limit: send fewer native histograms in a request",
  before_retention: "before_retention: older than the retention; a time in seconds instead of milliseconds is one of 1970",
  too_far_ahead: "too_far_ahead: set the sender's clock, and send times in milliseconds",
  too_many_labels: "too_many_labels: at most 37 with the name",
  too_long_labels: `too_long_labels: at most ${MAX_SERIES_LABEL_BYTES} bytes in all names and values of a series`,
};

export function remoteWriteRoute(ingest: IngestSignal, { handler, ingestTokens }: TokenRouteOptions): Route {
  return {
    ...endpoint("POST", "/api/v1/write", ingestTokens.access("metrics"), "ingest"),
    summary: "Prometheus remote write 1.0 or 2.0, with an ingest token",
    description: "Requires `INGEST_TOKENS=true`. In 2.0 the headers `X-Prometheus-Remote-Write-*-Written` have the number of stored items.",
    consumes: [CONTENT_TYPES.protobuf],
    bodyIsOptional: true,
    documented: {
      body: { description: "compressed with Snappy", type: "object" },
      response: { 204: { description: STORED, type: "null" } },
    },
    errors: ["forbidden", "not_found", "over_quota", "unsupported_encoding"],
    config: { signal: "metrics" },
    handler: async (request, reply) => {
      const encoding = encodingOf(request);
      const read = handler.readRequest(request, { isSnappy: true });
      const result = await handler.handle({ sender: senderOf(request), signal: "metrics", ingest, encoding, read });
      // A sender of 1.0 must not mistake the response for one of 2.0.
      if (encoding === "remote_write_2") setWritten(reply, result);
      refusePartial(result);
      return await reply.code(204).send();
    },
  };
}

function encodingOf(request: FastifyRequest): "remote_write" | "remote_write_2" {
  const { type, parameters } = contentTypeOf(request);
  const [, name = ""] = /(?:^|;)\s*proto\s*=\s*"?([\w.]*)"?/i.exec(parameters) ?? [];
  const encoding = type === CONTENT_TYPES.protobuf || type === "" ? MESSAGES[name.toLowerCase()] : undefined;
  if (encoding === undefined)
    throw new ApiError(
      "unsupported_encoding",
      `send \`Content-Type: ${CONTENT_TYPES.protobuf}\`, with \`proto=io.prometheus.write.v2.Request\` for 2.0`,
    );
  const compression = request.headers["content-encoding"]?.trim().toLowerCase() ?? "";
  if (compression !== "snappy" && compression !== "")
    throw new ApiError("unsupported_encoding", "send remote write with `Content-Encoding: snappy`");
  return encoding;
}

function setWritten(reply: FastifyReply, { accepted, dropped, exemplars = 0, histograms = 0 }: IngestResult): void {
  void reply.header(`${WRITTEN}-samples-written`, String(accepted - histograms + (dropped["not_a_number"] ?? 0)));
  void reply.header(`${WRITTEN}-histograms-written`, String(histograms));
  void reply.header(`${WRITTEN}-exemplars-written`, String(exemplars));
}

/** The other samples are stored; the sender logs the error and does not retry. */
function refusePartial({ accepted, dropped, faults }: IngestResult): void {
  const refused = Object.fromEntries(Object.entries(dropped).filter(([reason]) => !isIgnored(reason)));
  const list = notStored({ dropped: refused, ...(faults && { faults }) }, ADVICE);
  if (list !== "") throw new ApiError("invalid_payload", `samples that were not stored: ${list}; ${accepted} samples are stored`);
}
