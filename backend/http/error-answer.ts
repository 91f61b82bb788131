// How an error becomes an answer, for requests that have a route and for those that never get one. Invariant: the body is always
// {"error": code, "message"} with a code of errors.ts, or a page of the same status and message; no 5xx body tells its cause; no message
// quotes a regular expression.
import { randomUUID } from "node:crypto";
import type { FastifyError, FastifyReply, FastifyRequest } from "fastify";
import { STATUS_CODES } from "../../agent/common/node-http.ts";
import { ApiError, ERROR_CODES } from "../errors.ts";

/** How an error is told. */
export interface ErrorForm {
  readonly type: string;
  readonly text: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Logs what is the operator's to know, and answers: in JSON, but for a person on a page (sso/refusal-page.ts). */
export function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply, formOf = jsonOf): FastifyReply {
  const answer = asApiError(error);
  const context = { code: answer.code, url: request.url.split("?")[0] };
  if (answer.status > 500) request.server.outages.failed(answer.message, answer.cause ?? answer, { ...context, reqId: request.id });
  // What an engine refuses is lost for good, and the sender cannot know why.
  else if (answer.status === 500 || answer.code === "unstorable")
    request.log.error({ err: answer.cause ?? error, ...context }, answer.message);
  if (answer.retryAfterS !== undefined) void reply.header("retry-after", String(Math.ceil(answer.retryAfterS)));
  // Set after a failed body; the rest of it is read for a while instead, so that the sender sees the answer and not a reset.
  if (request.server.server.listening) void reply.removeHeader("connection");
  // A client that is refused and comes again on its connection would keep a stop waiting.
  else void reply.header("connection", "close");
  const { type, text, headers = {} } = formOf(answer);
  return reply.code(answer.status).headers(headers).type(type).send(text);
}

/** The same answer as bytes of HTTP/1.1 that ends its connection, for a socket on which no request could be read. */
export function rawAnswer(error: ApiError, headers: Record<string, string> = {}): string {
  const body = bodyOf(error);
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

function jsonOf(error: ApiError): ErrorForm {
  return { type: "application/json", text: bodyOf(error) };
}

function bodyOf({ code, message }: ApiError): string {
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
  return new ApiError("internal", ERROR_CODES.internal[1], { cause: error });
}

function describeValidation(error: FastifyError): string {
  const first = error.validation?.[0] as Violation | undefined;
  const { params } = first ?? {};
  const at = (first?.instancePath ?? "").replace(/^\//, "").replaceAll("/", ".");
  if (params?.additionalProperty !== undefined) return `${joined(at, params.additionalProperty)}: unknown field`;
  if (params?.missingProperty !== undefined) return `${joined(at, params.missingProperty)}: required`;
  const allowed = params?.allowedValues ? `: ${params.allowedValues.join(", ")}` : "";
  return `${at || error.validationContext || "body"}: ${violated(first)}${allowed}`;
}

interface Violation {
  readonly keyword?: string;
  readonly instancePath?: string;
  readonly message?: string;
  readonly params?: { additionalProperty?: string; missingProperty?: string; allowedValues?: unknown[] };
  /** What was violated; its `description`, up to a semicolon, says in words what a pattern says to machines. */
  readonly parentSchema?: { description?: string };
}

const BOUND = /^must NOT have (fewer|more) than (\d+) (characters|items|properties)$/;

function violated(violation: Violation | undefined): string {
  if (violation?.keyword !== "pattern") return asOnePutsIt(violation?.message ?? "invalid");
  const [description] = violation.parentSchema?.description?.split(";") ?? [];
  return description ? `must be ${description}` : "has the wrong form";
}

/** The validator's own words for bounds shout, and turn them round. */
function asOnePutsIt(message: string): string {
  const [, way, bound, things] = BOUND.exec(message) ?? [];
  if (bound === undefined) return message;
  return way === "fewer" && bound === "1" ? "must not be empty" : `must have at ${way === "fewer" ? "least" : "most"} ${bound} ${things}`;
}

function joined(at: string, name: string): string {
  return at ? `${at}.${name}` : name;
}
