// Responds to requests that reach no handler: not HTTP, too slow, head too large, unknown path, wrong method. Invariant: the decision uses
// only the head of the request, before the body is read, and the response has our error format.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { METHODS } from "../../common/http.ts";
import { respondAndClose } from "./error-response.ts";
import { ApiError } from "../errors.ts";
import type { CountedRequest } from "./counted-request.ts";
import { closeAfterServing, ignoreErrors } from "./turns.ts";

/**
 * Throws the error for a request without a route. `methods`: all methods that some route of the application has. It is empty until
 * `closeRoutes` is called; without that call, the response to a wrong method is 404, too.
 */
export function refuseUnroutable(
  app: FastifyInstance,
  { routes, methods }: { routes: ReadonlyMap<string, ReadonlySet<string>>; methods: ReadonlySet<string> },
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const { headers, httpVersion } = request.raw;
  if (headers.host === undefined && httpVersion === "1.1") throw new ApiError("malformed_request", "the Host header is missing");
  refuseRepeated(request.raw);
  if (!request.is404) return;
  const path = request.url.split("?")[0] ?? "";
  const allowed = [...(methods.size === 0 ? [] : (routes.get(path) ?? methods))].filter((method) => app.findRoute({ method, url: path }));
  if (allowed.length === 0) throw new ApiError("not_found", `path ${path.slice(0, 200)} not found; ${pathAdvice(app, methods, path)}`);
  throw notAllowed(allowed, request, reply);
}

/**
 * A proxy could read another one of two values than Node.js, which takes the first. The headers of a signature are checked with it, and
 * Node's parser refuses two lengths, and a length next to `Transfer-Encoding`.
 */
const SINGLE: ReadonlySet<string> = new Set(["host", "authorization", "content-type", "x-api-key", "x-session-user", "idempotency-key"]);

function refuseRepeated({ headers, rawHeaders }: IncomingMessage): void {
  if (rawHeaders.length === 2 * Object.keys(headers).length) return;
  const seen = new Set<string>();
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] as string).toLowerCase();
    if (seen.has(name) && SINGLE.has(name)) throw new ApiError("malformed_request", `the header ${name} is given more than once`);
    seen.add(name);
  }
}

/** Senders are often configured with a base URL that ends with a slash. */
function pathAdvice(app: FastifyInstance, methods: ReadonlySet<string>, path: string): string {
  const spelled = path
    .slice(0, 200)
    .replaceAll(/\/{2,}/g, "/")
    .replace(/(?<=.)\/$/, "");
  const isKnown = spelled !== path && [...methods].some((method) => app.findRoute({ method, url: spelled }));
  return isKnown ? `send it to ${spelled}, without the additional slash` : "GET /openapi.json lists all paths";
}

/** The error for 405; sets the header `Allow`. */
export function notAllowed(allowed: Iterable<string>, request: FastifyRequest, reply: FastifyReply): ApiError {
  const allow = [...allowed].sort().join(", ");
  void reply.header("allow", allow);
  return new ApiError("method_not_allowed", `${request.method} is not allowed here; allowed: ${allow}`);
}

/** Responds in cases in which Node's HTTP server would send its own response, or none. */
export function handleServerEvents(server: Server): void {
  server.on("checkExpectation", (request: IncomingMessage) => {
    refuse(request.socket, new ApiError("expectation_failed", "the only supported value of Expect is 100-continue"));
  });
  server.on("checkContinue", (request: CountedRequest, response: ServerResponse) => {
    request.onFirstRead = () => {
      if (!response.headersSent) response.writeContinue();
    };
    server.emit("request", request, response);
  });
  server.on("connect", (_request: IncomingMessage, socket: Socket) => {
    ignoreErrors(socket);
    refuse(socket, new ApiError("method_not_allowed", "CONNECT is not allowed: this is not a proxy"), { allow: "GET, POST" });
  });
}

/** Refuses what came last, and closes the connection. Earlier requests get their own responses, and this one none. */
function refuse(socket: Socket, error: ApiError, headers?: Record<string, string>): void {
  if (!closeAfterServing(socket)) respondAndClose(socket, error, headers);
}

/** The errors of Node's HTTP parser. */
interface ClientError {
  readonly code?: string;
  readonly reason?: string;
  /** A Buffer. */
  readonly rawPacket?: unknown;
}

/** For `clientErrorHandler`: the head or the framing of the body could not be parsed, or did not arrive in time. */
export function handleClientError(error: ClientError, socket: Socket): void {
  const { code = "" } = error;
  if (code === "ECONNRESET" || code === "EPIPE" || code.startsWith("ERR_SSL") || code.startsWith("ERR_TLS")) socket.destroy();
  // The parser fails again with each TLS record that arrives after the response.
  else if (!socket.writable) return;
  else refuse(socket, asApiError(error));
}

const TLS_HANDSHAKE = 0x16;

function asApiError({ code, reason, rawPacket }: ClientError): ApiError {
  switch (code) {
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new ApiError("request_timeout", "the request did not arrive in time");
    case "HPE_HEADER_OVERFLOW":
      return new ApiError("head_too_large", "path, query and headers exceed 64 KiB: send a long query as a form in a POST");
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return new ApiError("body_too_large", "the body's chunk extensions exceed 16 KiB");
    case "HPE_INVALID_METHOD":
      if (Buffer.isBuffer(rawPacket) && rawPacket[0] === TLS_HANDSHAKE)
        return new ApiError("malformed_request", "this port expects plain HTTP, not TLS");
      return new ApiError("malformed_request", `not an HTTP method; the known methods are ${METHODS.join(", ")}`);
    default:
      return new ApiError("malformed_request", `the request is not valid HTTP/1.1: ${(reason ?? "parse error").slice(0, 200)}`);
  }
}
