// Answers requests that reach no handler: not HTTP, too slow, too large a head, no such path, another method. Invariant: all of it is
// decided from the head of a request, before anything of its body is read, and is answered in our own form.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { METHODS } from "../../agent/common/node-http.ts";
import { rawAnswer } from "./error-answer.ts";
import { ApiError } from "../errors.ts";
import { stopParser } from "./stop-parser.ts";

/** Throws what a request without a route is answered; `methods`: those that the application has routes for. */
export function refuseUnroutable(
  app: FastifyInstance,
  { routes, methods }: { routes: ReadonlyMap<string, ReadonlySet<string>>; methods: ReadonlySet<string> },
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const { headers, httpVersion } = request.raw;
  if (headers.host === undefined && httpVersion === "1.1") throw new ApiError("malformed_request", "the Host header is missing");
  if (!request.is404) return;
  const path = request.url.split("?")[0] ?? "";
  const allowed = [...(methods.size === 0 ? [] : (routes.get(path) ?? methods))].filter((method) => app.findRoute({ method, url: path }));
  if (allowed.length === 0)
    throw new ApiError("not_found", `there is no ${path.slice(0, 200)} here; GET /openapi.json lists what there is`);
  throw notAllowed(allowed, request, reply);
}

/** 405, with `Allow` set. */
export function notAllowed(allowed: Iterable<string>, request: FastifyRequest, reply: FastifyReply): ApiError {
  const allow = [...allowed].sort().join(", ");
  void reply.header("allow", allow);
  return new ApiError("method_not_allowed", `${request.method} is not allowed here; allowed: ${allow}`);
}

/** Answers what Node's HTTP server would answer by itself, or not at all. */
export function answerForServer(server: Server): void {
  server.on("checkExpectation", (request: IncomingMessage, response: ServerResponse) => {
    cut(response.socket, new ApiError("expectation_failed", "the only Expect that is known is 100-continue"));
    stopParser(request.socket);
  });
  // A sender that asks first is told to go on only where its body is read.
  server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => server.emit("request", request, response));
  server.on("connect", (_request: IncomingMessage, socket: Socket) =>
    cut(socket, new ApiError("method_not_allowed", "CONNECT is not allowed here: this is no proxy"), { allow: "GET, POST" }),
  );
}

/** As Node's parser gives it. */
interface ClientError {
  readonly code?: string;
  readonly reason?: string;
  /** A Buffer. */
  readonly rawPacket?: unknown;
}

/** Of `clientErrorHandler`: the head, or the framing of the body, could not be parsed, or did not come in time. */
export function answerClientError(error: ClientError, socket: Socket): void {
  const { code = "" } = error;
  if (code === "ECONNRESET" || code === "EPIPE" || code.startsWith("ERR_SSL") || code.startsWith("ERR_TLS")) socket.destroy();
  else cut(socket, asApiError(error));
}

const TLS_HANDSHAKE = 0x16;

function asApiError({ code, reason, rawPacket }: ClientError): ApiError {
  switch (code) {
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new ApiError("request_timeout", "the request did not come in time");
    case "HPE_HEADER_OVERFLOW":
      return new ApiError("head_too_large", "path, query and headers exceed 16 KiB: send a long query as the form of a POST");
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return new ApiError("body_too_large", "the body's chunk extensions exceed 16 KiB");
    case "HPE_INVALID_METHOD":
      if (Buffer.isBuffer(rawPacket) && rawPacket[0] === TLS_HANDSHAKE)
        return new ApiError("malformed_request", "this port takes plain HTTP, not TLS");
      return new ApiError("malformed_request", `not a method of HTTP: the known ones are ${METHODS.join(", ")}`);
    default:
      return new ApiError("malformed_request", `the request is not valid HTTP/1.1: ${(reason ?? "it cannot be parsed").slice(0, 200)}`);
  }
}

/** Answers unless an answer is already on its way, and ends the connection. */
function cut(socket: Socket | null, error: ApiError, headers?: Record<string, string>): void {
  if (!socket) return;
  // Node's own default handler looks at it too: what is being answered here has no public name.
  const answering = (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage;
  if (!socket.writable || answering?.headersSent) return void socket.destroy();
  socket.end(rawAnswer(error, headers), () => socket.destroy());
}
