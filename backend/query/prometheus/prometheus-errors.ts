// Formats errors of the Prometheus HTTP API. Prometheus' clients parse 400, 422 and 503 only as {"status":"error","errorType","error"}; for
// any other body they show a parse error instead of the message.
import type { FastifyReply, FastifyRequest } from "fastify";
import type { ApiError } from "../../errors.ts";
import { sendError, type ErrorBody, renderJson } from "../../http/error-response.ts";

/** As in Prometheus' web/api/v1/api.go. */
const ERROR_TYPES: Readonly<Record<number, string>> = { 400: "bad_data", 422: "execution", 503: "unavailable" };

export function answerPrometheusError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  return sendError(error, request, reply, prometheusForm);
}

function prometheusForm(error: ApiError): ErrorBody {
  return error.status in ERROR_TYPES ? { type: "application/json", text: errorText(error.status, error.message) } : renderJson(error);
}

/** The engine's error in Prometheus' form, without the engine's preamble. A response of another form is returned unchanged. */
export function readEngineError(status: number, pieces: readonly Buffer[]): readonly Buffer[] {
  try {
    const { error } = JSON.parse(Buffer.concat(pieces).toString("utf8")) as { error: unknown };
    return typeof error === "string" ? [Buffer.from(errorText(status, withoutPreamble(error)))] : pieces;
  } catch {
    // A response that is not JSON reaches the client unchanged.
    return pieces;
  }
}

function errorText(status: number, message: string): string {
  return JSON.stringify({ status: "error", errorType: ERROR_TYPES[status] ?? "internal", error: message });
}

/** VictoriaMetrics repeats the query and the time before the actual message. */
function withoutPreamble(message: string): string {
  const match = /^error when executing query="[^]*?" (?:for|on the time range) \([^()]*\): (?<cause>[^]+)$/.exec(message);
  return match?.groups?.["cause"] ?? message;
}
