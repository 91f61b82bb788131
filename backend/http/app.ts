// Creates the HTTP applications of the backend (API and alerting); route modules add routes, and serve.ts wires them. Invariants: every
// response of 400 or above has a code of errors.ts, even if no route matched; if the head of a request is refused, its body is not read;
// connections, requests per connection and bodies are limited.
import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { Server as TlsServer } from "node:tls";
import { Ajv, type ValidateFunction } from "ajv";
import addFormats from "ajv-formats";
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest, LogController, type RawServerDefault } from "fastify";
import { runFor } from "../admission/request-owner.ts";
import { orgOf } from "./request-identity.ts";
import { networkOf } from "./http-client.ts";
import { Connections, UNAUTHENTICATED_IDLE_S } from "./server-connections.ts";
import { CountedRequest } from "./counted-request.ts";
import { sendError } from "./error-response.ts";
import { ApiError } from "../errors.ts";
import { MAX_HEAD_BYTES, MAX_HELD_ANONYMOUS_RESPONSE_BYTES, MAX_PARAMETER_LENGTH } from "./http-limits.ts";
import { OutageLog, RequestLog } from "./outage-log.ts";
import { drainBody, isLongBody, SMALL_BODY_BYTES, SmallBodies } from "./small-bodies.ts";
import type { Log } from "../log.ts";
import { describeApi } from "./openapi.ts";
import { ResponseBudget, type ResponseBudgetOptions } from "./response-budget.ts";
import { ServedCertificate } from "./listeners.ts";
import { keepText, readQuery, withoutUnreadQuery } from "./query-string.ts";
import { serveInTurns, beginInTurns } from "./turns.ts";
import { handleClientError, handleServerEvents, notAllowed, refuseUnroutable } from "./unroutable.ts";
import { routeUpgrades, wantsWebSocket } from "./websocket.ts";

declare module "fastify" {
  interface FastifyInstance {
    outages: OutageLog;
    /** Reads bodies within a memory budget, for routes that accept content types other than JSON. */
    smallBodies: SmallBodies;
  }
  interface FastifyRequest {
    /** The connection counts as busy for its organisation. */
    isConnectionBusy: boolean;
  }
}

const HEAD_MS = 10_000;
/** Smaller responses fit into socket buffers and are not counted. */
const LARGE_RESPONSE_BYTES = 16 * 1024;
const DEFAULT_MAX_CONNECTIONS = 8192;

export interface AppOptions {
  log: Log;
  /** Title of /openapi.json; unset: the route does not exist. */
  openApiTitle?: string;
  tls?: { certFile: string; keyFile: string };
  trustedProxies?: readonly string[];
  /** Shared by listeners that count their connections together. */
  connections?: Connections;
  /** Once it is aborted, every response ends its connection, so that clients move to another replica before the listeners close. */
  draining?: AbortSignal;
  smallBodies?: SmallBodies;
  /** Limits for responses that are not query results, such as lists. */
  responses?: ResponseBudgetOptions;
  /** A connection that does not complete a request head within this time is closed. */
  headMs?: number;
  /** How long the rest of a refused body is read and discarded. */
  drainMs?: number;
  /** Called after every request, for latency and status metrics. */
  onFinished?: (route: string, method: string, status: number, seconds: number) => void;
}

/** Creates an application without routes. Add the routes, call `closeRoutes`, then listen. */
export async function createApp(options: AppOptions): Promise<FastifyInstance> {
  const { headMs = HEAD_MS } = options;
  const certificate = options.tls && new ServedCertificate(options.tls, { log: options.log });
  const serverOptions = serverOptionsWith(headMs);
  const app = fastify<RawServerDefault>({
    loggerInstance: options.log,
    logController: new LogController({ disableRequestLogging: true }),
    childLoggerFactory: (log, bindings, options) => new RequestLog(log, bindings, options),
    exposeHeadRoutes: false,
    bodyLimit: SMALL_BODY_BYTES,
    // Bodies have a minimum speed instead (small-bodies.ts, ingest/body.ts); the head of a request has `headMs`.
    requestTimeout: 0,
    keepAliveTimeout: 75_000,
    // The platform's probes decide how long a start may take: on a machine with little CPU, a password hash alone takes seconds.
    pluginTimeout: 0,
    forceCloseConnections: "idle",
    // Fastify's own 503 has no error code and no Retry-After; keep-alive connections are closed after a normal response.
    return503OnClosing: false,
    trustProxy: options.trustedProxies?.length ? [...options.trustedProxies] : false,
    genReqId: readRequestId,
    rewriteUrl,
    routerOptions: { maxParamLength: MAX_PARAMETER_LENGTH, querystringParser: keepText },
    clientErrorHandler: handleClientError,
    frameworkErrors: (error, request, reply) => {
      reply.raw.once("finish", () => drainBody(request.raw, undefined, options.drainMs));
      return sendError(error, request, reply);
    },
    ...(certificate ? { https: { ...serverOptions, ...certificate.pair, handshakeTimeout: headMs } } : { http: serverOptions }),
  });
  validateStrictly(app);
  const outages = new OutageLog(options.log);
  app.decorate("outages", outages);
  app.addHook("onClose", async () => outages[Symbol.dispose]());
  if (app.server instanceof TlsServer) {
    certificate?.watch(app.server);
    beginInTurns(app.server, headMs);
  }
  app.addHook("onClose", async () => certificate?.[Symbol.dispose]());
  recordRoutes(app);
  limitRequests(app, options);
  parseJsonBodies(app);
  const logsRequests = options.log.isLevelEnabled("debug");
  app.addHook("onResponse", (request, reply, done) => {
    const { method, routeOptions } = request;
    const route = routeOptions.url ?? "unknown";
    options.onFinished?.(route, method, reply.statusCode, reply.elapsedTime / 1000);
    if (logsRequests) {
      const ms = Math.round(reply.elapsedTime);
      request.log.debug({ event: "http.request_completed", method, route, status: reply.statusCode, ms }, "request completed");
    }
    done();
  });
  app.setErrorHandler(sendError);
  if (options.openApiTitle) await describeApi(app, options.openApiTitle);
  return app;
}

function serverOptionsWith(headMs: number) {
  return {
    headersTimeout: headMs,
    connectionsCheckingInterval: headMs / 5,
    maxHeaderSize: MAX_HEAD_BYTES,
    requireHostHeader: false,
    shouldUpgradeCallback: wantsWebSocket,
    IncomingMessage: CountedRequest,
    allowHalfOpen: true,
  };
}

/** Call once, after the last route. From then on, an unknown method on a known path returns 405 with `Allow`. */
export async function closeRoutes(app: FastifyInstance): Promise<void> {
  await app.after();
  const table = routeTables.get(app) as RouteTable;
  table.isClosed = true;
  for (const methods of table.routes.values()) for (const method of methods) table.methods.add(method);
  for (const [url, methods] of table.routes) {
    // A literal path that a route with an id would otherwise match: DELETE /api/clusters/register.
    const ambiguous = [...table.methods].filter((method) => !url.includes(":") && !methods.has(method) && app.findRoute({ method, url }));
    const refuse = async (request: FastifyRequest, reply: FastifyReply) => await Promise.reject(notAllowed(methods, request, reply));
    if (ambiguous.length > 0) app.route({ method: ambiguous, url, schema: { hide: true }, onRequest: refuse, handler: refuse });
  }
}

/** All routes: URL pattern → methods. The contract test compares its matrix with this. */
export function listRoutes(app: FastifyInstance): ReadonlyMap<string, ReadonlySet<string>> {
  return new Map(routeTables.get(app)?.routes);
}

/**
 * Applies the limits to every request, and releases what it used when it ends. The hooks use callbacks instead of promises, because hooks
 * are most of the cost of a small request.
 */
function limitRequests(app: FastifyInstance, options: AppOptions): void {
  const server = app.server;
  const connections = options.connections ?? new Connections(DEFAULT_MAX_CONNECTIONS, options.log);
  const bodies = options.smallBodies ?? new SmallBodies();
  const responses = new ResponseBudget(options.responses);
  const anonymous = new ResponseBudget({ ...options.responses, bytes: MAX_HELD_ANONYMOUS_RESPONSE_BYTES });
  connections.watch(server);
  handleServerEvents(server);
  const ownerOf = (socket: Socket) => connections.ownerOf(socket) || networkOf(socket.remoteAddress ?? "");
  serveInTurns(server, ownerOf, options.responses?.stallMs);
  routeUpgrades(app);
  app.decorate("smallBodies", bodies);
  app.decorateRequest("isConnectionBusy", false);
  const table = routeTables.get(app) as RouteTable;
  app.addHook("onRequest", (request, reply, done) => {
    const { socket } = request.raw;
    void reply.header("x-request-id", request.id).header("x-content-type-options", "nosniff");
    reply.raw.on("close", () => {
      bodies.release(request);
      connections.end(socket, request.isConnectionBusy);
    });
    if (connections.isUnauthenticated(socket)) void reply.header("keep-alive", `timeout=${UNAUTHENTICATED_IDLE_S}`);
    connections.begin(socket);
    refuseUnroutable(app, table, request, reply);
    ignoreTypeOfEmptyBody(request);
    done();
  });
  // Runs after the guards of the route, and before the body is read.
  app.addHook("preParsing", (request, _reply, _payload, done) => {
    const orgId = orgOf(request);
    if (orgId !== undefined) {
      connections.authenticated(request.raw.socket, orgId);
      request.isConnectionBusy = true;
    }
    readQuery(request, orgId !== undefined);
    // Ingest looks up its senders before, many at once, and pays for no owner: storage/write-path/once-writer.ts sets it where it is needed.
    if (request.routeOptions.config.signal !== undefined) done();
    else runFor(orgId ?? networkOf(request.ip), done);
  });
  app.addHook("onSend", (request, reply, payload, done) => {
    announceClose(request, reply, options.draining?.aborted ?? false);
    const isWhole = typeof payload === "string" || Buffer.isBuffer(payload);
    if (!isWhole || payload.length < LARGE_RESPONSE_BYTES || reply.raw.closed) return done(null, payload);
    const orgId = orgOf(request);
    const [budget, owner] = orgId === undefined ? [anonymous, networkOf(request.ip)] : [responses, orgId];
    done(null, budget.stream(owner, reply, [typeof payload === "string" ? Buffer.from(payload) : payload]));
  });
  app.addHook("onResponse", (request, _reply, done) => {
    drainBody(request.raw, orgOf(request), options.drainMs);
    done();
  });
}

/** A refused body that is long is not read to its end: the client learns from the response that the connection closes, as in a drain. */
function announceClose({ raw, declaredBytes }: FastifyRequest, reply: FastifyReply, isDraining: boolean): void {
  const isUnread = !raw.complete && isLongBody(raw, declaredBytes);
  // A connection whose short body is still arriving stays open for it.
  if (!isUnread && !(isDraining && raw.complete)) return;
  void reply.removeHeader("keep-alive").header("connection", "close");
  if (!isUnread) return;
  // Node.js closes it right after the response, which would reset it. `drainBody` closes it later.
  raw.socket.destroySoon = () => undefined;
}

/** Some clients send a type with an empty body (fetch: text/plain). An empty body of any type counts as no body. */
function ignoreTypeOfEmptyBody({ raw: { headers } }: FastifyRequest): void {
  if (headers["content-length"] === "0") delete headers["content-type"];
}

interface RouteTable {
  /** Set after the last route; routes that are added later only refuse methods. */
  isClosed: boolean;
  readonly routes: Map<string, Set<string>>;
  /** All methods that some route has. */
  readonly methods: Set<string>;
}

const routeTables = new WeakMap<FastifyInstance, RouteTable>();

function recordRoutes(app: FastifyInstance): void {
  const table: RouteTable = { routes: new Map(), methods: new Set(), isClosed: false };
  routeTables.set(app, table);
  app.addHook("onRoute", (route) => {
    if (table.isClosed) return;
    const methods = table.routes.get(route.url) ?? new Set<string>();
    for (const method of [route.method].flat()) methods.add(method);
    table.routes.set(route.url, methods);
  });
}

/** An empty JSON body counts as no body, because some clients always send the header. */
function parseJsonBodies(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser("error", "error");
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", async (request: FastifyRequest): Promise<unknown> => {
    const text = (await app.smallBodies.read(request, request.routeOptions.bodyLimit)).toString("utf8");
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    if (text === "") resolve(undefined);
    else void parse(request, text, (error, json) => (error ? reject(describeJsonError(text, error)) : resolve(json)));
    return await promise;
  });
}

function describeJsonError(text: string, error: Error): ApiError {
  try {
    JSON.parse(text);
    return new ApiError("invalid_field", 'the keys "__proto__" and "constructor" with a "prototype" are not allowed');
  } catch (cause) {
    return new ApiError("malformed_body", `the body is not valid JSON: ${(cause as Error).message.slice(0, 200)}`, { cause: error });
  }
}

/** Bodies are validated without coercion, and unknown fields are refused if the schema says so. Query strings are text, so coerced. */
function validateStrictly(app: FastifyInstance): void {
  const shared = { allErrors: false, useDefaults: true, removeAdditional: false as const, strict: false, verbose: true };
  const strict = addFormats.default(new Ajv({ ...shared, coerceTypes: false }));
  const coercing = addFormats.default(new Ajv({ ...shared, coerceTypes: true }));
  app.setValidatorCompiler(({ schema, httpPart }) => compileOnFirstUse(httpPart === "body" ? strict : coercing, schema as object));
}

/** Compiling all schemas at the start would take a tenth of the start-up time. */
function compileOnFirstUse(ajv: Ajv, schema: object): ValidateFunction {
  const validate = ((data: unknown): boolean => {
    const compiled = ajv.compile(schema);
    const isValid = compiled(data);
    validate.errors = compiled.errors;
    return isValid;
  }) as ValidateFunction;
  return validate;
}

function rewriteUrl(this: FastifyInstance, request: IncomingMessage): string {
  return withoutUnreadQuery(this, request);
}

function readRequestId(request: { headers: Record<string, string | string[] | undefined> }): string {
  const id = request.headers["x-request-id"];
  return typeof id === "string" && /^[\w.-]{1,64}$/.test(id) ? id : randomUUID();
}
