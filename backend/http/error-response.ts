// Turns an error into a response, for requests with and without a route. Invariant: the response body is always {"error": code, "message"}
// with a code of errors.ts, or a page with the same status and message. A 5xx body never contains the cause, and no message quotes a
// regular expression.
import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { FastifyError, FastifyReply, FastifyRequest } from "fastify";
import { STATUS_CODES } from "../../common/http.ts";
import { ApiError } from "../errors.ts";
import { ClientGoneError } from "./http-client.ts";
import { closeUnread, stopParser } from "./turns.ts";

export interface ErrorBody {
  readonly type: string;
  readonly text: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Logs what operators need to know, and sends the error: as JSON, or in browser logins as a page (sso/pages.ts). */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply, render = renderJson): FastifyReply {
  // There is no client to answer, and no failure to log.
  if (error instanceof ClientGoneError) return reply.code(499).send();
  const answer = asApiError(error);
  const context = { code: answer.code, url: request.url.split("?")[0] };
  if (answer.status > 500) request.server.outages.failed(answer.message, answer.cause ?? answer, { ...context, reqId: request.id });
  // If an engine refuses data, it is lost, and the sender cannot know the reason.
  else if (answer.status === 500 || answer.code === "unstorable")
    request.log.error({ event: "http.request_failed", err: answer.cause ?? error, ...context }, answer.message);
  if (answer.retryAfterS !== undefined) void reply.header("retry-after", String(Math.ceil(answer.retryAfterS)));
  // Fastify closes the connection after a failed body. If the body is drained instead, the client sees the response and not a reset.
  if (request.server.server.listening) void reply.removeHeader("connection");
  // During a stop, a client that retries on the same connection would delay the stop.
  else void reply.header("connection", "close");
  const { type, text, headers = {} } = render(answer);
  return reply.code(answer.status).headers(headers).type(type).send(text);
}

/** The same response as bytes of HTTP/1.1 that end the connection, for a socket on which no request could be parsed. */
function rawErrorResponse(error: ApiError, headers: Record<string, string> = {}): string {
  const body = jsonBody(error);
  const lines = Object.entries({
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    "x-request-id": randomUUID(),
    ...(error.retryAfterS !== undefined && { "retry-after": String(Math.ceil(error.retryAfterS)) }),
    ...headers,
    connection: "close",
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}\r\n${lines.join("")}\r\n${body}`;
}

export function renderJson(error: ApiError): ErrorBody {
  return { type: "application/json", text: jsonBody(error) };
}

function jsonBody({ code, message }: ApiError): string {
  return JSON.stringify({ error: code, message });
}

function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const { code, statusCode, message, validation, validationContext } = error as FastifyError;
  if (validation)
    return new ApiError(validationContext === "body" ? "invalid_field" : "invalid_parameter", describeValidation(error as FastifyError));
  if (code === "FST_ERR_BAD_URL") return new ApiError("not_found", "the path is not a valid URL path");
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") return new ApiError("malformed_body", "send the body as `Content-Type: application/json`");
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) return new ApiError("malformed_body", message.slice(0, 300));
  return new ApiError("internal", "unexpected failure; the cause is logged under the request id", { cause: error });
}

function describeValidation(error: FastifyError): string {
  const first = error.validation?.[0] as Violation | undefined;
  const { params } = first ?? {};
  const at = (first?.instancePath ?? "").replace(/^\//, "").replaceAll("/", ".");
  if (params?.additionalProperty !== undefined) return `${joinPath(at, params.additionalProperty)}: unknown field`;
  if (params?.missingProperty !== undefined) return `${joinPath(at, params.missingProperty)}: required`;
  const allowed = params?.allowedValues ? `: ${params.allowedValues.join(", ")}` : "";
  return `${at || error.validationContext || "body"}: ${describeViolation(first)}${allowed}`;
}

interface Violation {
  readonly keyword?: string;
  readonly instancePath?: string;
  readonly message?: string;
  readonly params?: { additionalProperty?: string; missingProperty?: string; allowedValues?: unknown[] };
  /** The violated schema. Its `description`, up to a semicolon, explains a pattern to users. */
  readonly parentSchema?: { description?: string };
}

const SIZE_LIMIT = /^must NOT have (fewer|more) than (\d+) (characters|items|properties)$/;

function describeViolation(violation: Violation | undefined): string {
  if (violation?.keyword !== "pattern") return rephraseLimit(violation?.message ?? "invalid");
  const [description] = violation.parentSchema?.description?.split(";") ?? [];
  return description ? `must be ${description}` : "has the wrong form";
}

/** Rewords the validator's "must NOT have fewer than", which is hard to read. */
function rephraseLimit(message: string): string {
  const [, comparison, limit, unit] = SIZE_LIMIT.exec(message) ?? [];
  if (limit === undefined) return message;
  if (comparison === "fewer" && limit === "1") return "must not be empty";
  return `must have at ${comparison === "fewer" ? "least" : "most"} ${limit} ${unit}`;
}

function joinPath(at: string, name: string): string {
  return at ? `${at}.${name}` : name;
}

/** Sends the error unless a response has already started, reads nothing more, and closes the connection. */
export function respondAndClose(socket: Socket, error: ApiError, headers?: Record<string, string>): void {
  stopParser(socket);
  // Node's default handler uses this field, too; a socket has no public accessor for its current response.
  const current = (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage;
  if (!socket.writable || current?.headersSent) return void socket.destroy();
  socket.end(rawErrorResponse(error, headers));
  closeUnread(socket);
}
