// Listens for unary gRPC calls, over TLS or plain HTTP/2. It is built on node:http2 instead of the gRPC library, so that connections,
// streams, buffers and the certificate have the limits of the other listeners. Invariants: no message is read before its sender is
// authenticated; an unauthenticated client takes at most 64 KiB of memory; every call gets exactly one response.
import { once } from "node:events";
import proxyAddress from "@fastify/proxy-addr";
import {
  constants,
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { CODING_NAMES } from "../../../common/content-coding/decoder.ts";
import { ApiError } from "../../errors.ts";
import { type Connections, UNAUTHENTICATED_IDLE_S } from "../../http/server-connections.ts";
import { limitPieces } from "../../http/counted-request.ts";
import { MAX_REQUESTS_PER_CONNECTION } from "../../http/http-limits.ts";
import { type CertificateFiles, ServedCertificate } from "../../http/listeners.ts";
import { beginInTurns } from "../../http/turns.ts";
import type { Log } from "../../log.ts";
import { failureTrailers, frameMessage } from "./grpc-messages.ts";

/** One call. The method calls `authenticated` with the organisation before it reads any of the message. */
export interface Call {
  readonly stream: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
  readonly address: string;
  readonly isEncrypted: boolean;
  readonly authenticated: (orgId: string) => void;
}

/** Returns the message of the response. Throws ApiError. */
export type Method = (call: Call) => Promise<Uint8Array>;

export interface GrpcServerOptions {
  readonly listen: { readonly host: string; readonly port: number };
  readonly tls?: CertificateFiles | undefined;
  /** Shared with the API, so that one limit applies to both listeners. */
  readonly connections: Connections;
  /** As TRUSTED_PROXIES: the proxies whose headers x-forwarded-for and x-forwarded-proto are used, as on the HTTP routes. */
  readonly trustedProxies: readonly string[];
  readonly methods: ReadonlyMap<string, Method>;
  readonly log: Log;
  readonly onFinished?: (path: string, method: string, status: number, seconds: number) => void;
}

const HANDSHAKE_MS = 10_000;
const IDLE_MS = 300_000;
/** After the response, a client has this long to end its side of the call. */
const HALF_CLOSED_MS = 1000;
/** How long running calls may take when the server stops. */
const STOP_MS = 30_000;
/**
 * Bytes of a call, and of all calls of a connection, that a client may send before they are read. Until a call is authenticated, the limit
 * is HTTP/2's default.
 */
const STREAM_WINDOW_BYTES = 256 * 1024;
const SESSION_WINDOW_BYTES = 1024 * 1024;
const LIMITS = {
  maxSessionMemory: 4,
  maxHeaderListPairs: 64,
  maxSessionInvalidFrames: 32,
  maxSessionRejectedStreams: 32,
  // Each costs as much as a call, also before it is authenticated.
  streamResetBurst: 64,
  streamResetRate: 33,
  settings: {
    maxConcurrentStreams: MAX_REQUESTS_PER_CONNECTION,
    maxHeaderListSize: 16 * 1024,
    initialWindowSize: STREAM_WINDOW_BYTES,
    enablePush: false,
  },
};
const GRPC_TYPE = /^application\/grpc(?:\+proto)?(?:;|$)/i;
const ACCEPTED = ["identity", ...CODING_NAMES].join(",");
const HTTP_OK = { ":status": 200, "content-type": "application/grpc", "grpc-accept-encoding": ACCEPTED };

export class GrpcServer implements AsyncDisposable {
  readonly #options: GrpcServerOptions;
  readonly #connections: Connections;
  readonly #isProxy: (address: string, hop: number) => boolean;
  readonly #certificate: ServedCertificate | undefined;
  readonly #server: Http2Server | Http2SecureServer;
  readonly #sockets = new WeakMap<ServerHttp2Session, Socket>();
  readonly #sessions = new Set<ServerHttp2Session>();
  /** Socket of the session that is being created. */
  #socket: Socket | undefined;

  /** Resolves when the server listens. Throws like `listen` if the port is taken. */
  static async start(options: GrpcServerOptions): Promise<GrpcServer> {
    const server = new GrpcServer(options);
    server.#server.listen({ ...options.listen, backlog: 4096 });
    await once(server.#server, "listening");
    return server;
  }

  private constructor(options: GrpcServerOptions) {
    this.#options = options;
    this.#isProxy = proxyAddress.compile([...options.trustedProxies]);
    this.#connections = options.connections;
    this.#certificate = options.tls && new ServedCertificate(options.tls, { log: options.log });
    this.#server = this.#certificate
      ? createSecureServer({ ...LIMITS, ...this.#certificate.pair, handshakeTimeout: HANDSHAKE_MS })
      : createServer(LIMITS);
    const server = this.#server;
    if ("setSecureContext" in server) this.#certificate?.watch(server);
    // Runs before node:http2 creates the session of the connection, because the session only exposes another socket object.
    server.prependListener(this.#certificate ? "secureConnection" : "connection", (socket: Socket) => (this.#socket = socket));
    beginInTurns(server, HANDSHAKE_MS);
    this.#connections.watch(server);
    server.on("session", (session) => this.#watch(session));
    server.on("stream", (stream, headers) => void this.#handleCall(stream, headers));
    // Safe to ignore: a client that breaks its connection or the protocol affects no other.
    for (const event of ["sessionError", "tlsClientError", "clientError"]) server.on(event, () => undefined);
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === "object" && address ? address.port : 0;
  }

  /** Accepts no more calls, and waits for running ones. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#certificate?.[Symbol.dispose]();
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const session of this.#sessions) session.close();
    const timer = setTimeout(() => this.#sessions.forEach((session) => session.destroy()), STOP_MS);
    await closed.finally(() => clearTimeout(timer));
  }

  #watch(session: ServerHttp2Session): void {
    const socket = this.#socket;
    if (socket) this.#sockets.set(session, socket);
    this.#sessions.add(session);
    session.setTimeout(UNAUTHENTICATED_IDLE_S * 1000, () => session.destroy());
    session.once("close", () => this.#sessions.delete(session));
    session.on("error", () => session.destroy());
  }

  async #handleCall(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): Promise<void> {
    const startedMs = performance.now();
    const { session } = stream;
    const socket = session && this.#sockets.get(session as ServerHttp2Session);
    // Safe to ignore: the call has its response or is gone.
    stream.on("error", () => undefined);
    if (!session || !socket) return;
    limitPieces(stream, () => session.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM));
    if (stream.destroyed) return;
    let isBusy = false;
    const authenticated = (orgId: string): void => {
      this.#connections.authenticated(socket, orgId);
      isBusy = true;
      session.setTimeout(IDLE_MS);
      (session as ServerHttp2Session).setLocalWindowSize(SESSION_WINDOW_BYTES);
    };
    stream.once("close", () => this.#connections.end(socket, isBusy));
    let status = 200;
    try {
      this.#connections.begin(socket);
      // `proxyAddress` reads only these two fields of a request.
      const address = socket.remoteAddress ? proxyAddress({ socket, headers } as IncomingMessage, this.#isProxy) : "";
      const call = { stream, headers, address, isEncrypted: this.#isEncrypted(socket, headers), authenticated };
      sendMessage(stream, await this.#methodOf(headers)(call));
    } catch (error) {
      const failure = this.#failureOf(error);
      status = failure.status;
      sendFailure(stream, failure);
    } finally {
      const path = String(headers[":path"]);
      const knownPath = this.#options.methods.has(path) ? path : "unknown";
      this.#options.onFinished?.(knownPath, "gRPC", status, (performance.now() - startedMs) / 1000);
    }
  }

  /** Whether the client uses TLS. As Fastify's `request.protocol`: of several entries in the header, the nearest proxy's is the last. */
  #isEncrypted({ remoteAddress }: Socket, { "x-forwarded-proto": forwarded }: IncomingHttpHeaders): boolean {
    if (!forwarded || remoteAddress === undefined || !this.#isProxy(remoteAddress, 0)) return this.#certificate !== undefined;
    return String(forwarded).split(",").at(-1)?.trim() === "https";
  }

  #methodOf(headers: IncomingHttpHeaders): Method {
    const { ":method": method, ":path": path, "content-type": type = "" } = headers;
    if (method !== "POST" || !GRPC_TYPE.test(type)) throw new ApiError("not_found", "this port takes gRPC with protobuf only");
    const handler = this.#options.methods.get(String(path));
    if (!handler) throw new ApiError("not_found", "this gRPC method does not exist here");
    return handler;
  }

  #failureOf(error: unknown): ApiError {
    const failure = error instanceof ApiError ? error : new ApiError("internal", "unexpected failure", { cause: error });
    if (failure.status >= 500 || failure.code === "unstorable")
      this.#options.log.error({ event: "grpc.call_failed", err: failure.cause ?? error, code: failure.code }, "gRPC call failed");
    return failure;
  }
}

function sendMessage(stream: ServerHttp2Stream, message: Uint8Array): void {
  if (stream.destroyed) return;
  stream.respond(HTTP_OK, { waitForTrailers: true });
  stream.once("wantTrailers", () => {
    stream.sendTrailers({ "grpc-status": "0" });
    closeSoon(stream);
  });
  stream.end(frameMessage(message));
}

/** A client that still sends would keep the call and its unread bytes in memory. Closing immediately could lose the response. */
function closeSoon(stream: ServerHttp2Stream): void {
  stream.resume();
  if (stream.readableEnded) return;
  const timer = setTimeout(() => stream.close(constants.NGHTTP2_NO_ERROR), HALF_CLOSED_MS);
  stream.once("close", () => clearTimeout(timer));
}

/** Discards the unread rest of the message, because it counts against the bytes that the connection may send. */
function sendFailure(stream: ServerHttp2Stream, failure: ApiError): void {
  if (stream.destroyed || stream.headersSent) return;
  stream.respond({ ...HTTP_OK, ...failureTrailers(failure) }, { endStream: true });
  stream.resume();
  stream.close(constants.NGHTTP2_NO_ERROR);
}
