// Makes the HTTP applications of the backend (API and alerting). Invariant: no answer of 400 or above leaves without a code of
// errors.ts, also where no route was reached; of a request that is refused by its head no body is read; connections, requests of one
// connection and bodies are bounded. Route modules add routes; serve.ts wires them.
import { randomUUID } from "node:crypto";
import { Server as TlsServer } from "node:tls";
import { Ajv, type ValidateFunction } from "ajv";
import addFormats from "ajv-formats";
import { fastify, LogController, type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { orgOf } from "../auth/request-identity.ts";
import { Connections, STRANGER_IDLE_S } from "./connections.ts";
import { answerError } from "./error-answer.ts";
import { ApiError } from "../errors.ts";
import { OutageLog } from "./outage-log.ts";
import { linger } from "./linger.ts";
import { RequestLog } from "./request-log.ts";
import type { Log } from "../observability/log.ts";
import { describeApi } from "./openapi.ts";
import { Answers, type AnswersOptions } from "./answers.ts";
import { ServedCertificate } from "./served-certificate.ts";
import { SMALL_BODY_BYTES, SmallBodies } from "./small-bodies.ts";
import { answerClientError, answerForServer, notAllowed, refuseUnroutable } from "./unroutable.ts";
import { routeUpgrades, wantsWebSocket } from "./upgrades.ts";

declare module "fastify" {
  interface FastifyInstance {
    outages: OutageLog;
    /** Reads bodies within their budget, for routes that take another type than JSON. */
    smallBodies: SmallBodies;
  }
  interface FastifyRequest {
    /** Its connection counts as at work for an organisation. */
    isAtWork: boolean;
  }
}

const HEAD_MS = 10_000;
/** A connection may hold some of these without anybody's noticing. */
const LARGE_ANSWER_BYTES = 16 * 1024;
/** As long as an id of any other kind may be; more than a head holds. */
const MAX_PARAMETER_LENGTH = 16 * 1024;
const DEFAULT_MAX_CONNECTIONS = 8192;

export interface AppOptions {
  log: Log;
  /** Title of /openapi.json; unset: no such route. */
  openApiTitle?: string;
  tls?: { certFile: string; keyFile: string };
  trustedProxies?: readonly string[];
  /** `settings.maxConnections`. */
  maxConnections?: number;
  smallBodies?: SmallBodies;
  /** Bounds of large answers that are not those of a query: lists. */
  answers?: AnswersOptions;
  /** A connection that has sent no whole head for this long is closed. */
  headMs?: number;
  /** How long the rest of a refused body is still read. */
  lingerMs?: number;
  /** Sees every finished request: for latency and status metrics. */
  onFinished?: (route: string, method: string, status: number, seconds: number) => void;
}

/** An application without routes. Add them, then call `closeRoutes`, then listen. */
export async function createApp(options: AppOptions): Promise<FastifyInstance> {
  const { headMs = HEAD_MS } = options;
  const certificate = options.tls && new ServedCertificate(options.tls, { log: options.log });
  const bounds = {
    headersTimeout: headMs,
    connectionsCheckingInterval: headMs / 5,
    requireHostHeader: false,
    shouldUpgradeCallback: wantsWebSocket,
  };
  const app = fastify({
    loggerInstance: options.log,
    logController: new LogController({ disableRequestLogging: true }),
    childLoggerFactory: (log, bindings, options) => new RequestLog(log, bindings, options) as unknown as Log,
    exposeHeadRoutes: false,
    bodyLimit: SMALL_BODY_BYTES,
    // Each body has a pace of its own (small-bodies.ts, ingest/body.ts), and a head has `headMs`.
    requestTimeout: 0,
    keepAliveTimeout: 75_000,
    forceCloseConnections: "idle",
    // Its own answer has neither an error code nor Retry-After; requests on kept connections are answered as ever, then closed.
    return503OnClosing: false,
    trustProxy: options.trustedProxies?.length ? [...options.trustedProxies] : false,
    genReqId: requestId,
    routerOptions: { maxParamLength: MAX_PARAMETER_LENGTH },
    clientErrorHandler: answerClientError,
    frameworkErrors: (error, request, reply) => {
      reply.raw.once("finish", () => linger(request.raw, undefined, options.lingerMs));
      return answerError(error, request, reply);
    },
    ...(certificate ? { https: { ...bounds, ...certificate.pair, handshakeTimeout: headMs } } : { http: bounds }),
  }) as unknown as FastifyInstance;
  validateStrictly(app);
  const outages = new OutageLog(options.log);
  app.decorate("outages", outages);
  app.addHook("onClose", async () => outages[Symbol.dispose]());
  if (app.server instanceof TlsServer) certificate?.keep(app.server);
  app.addHook("onClose", async () => certificate?.[Symbol.dispose]());
  rememberRoutes(app);
  boundRequests(app, options);
  takeJson(app);
  const tellsAnswers = options.log.isLevelEnabled("debug");
  app.addHook("onResponse", (request, reply, done) => {
    const { method, routeOptions } = request;
    const route = routeOptions.url ?? "unknown";
    options.onFinished?.(route, method, reply.statusCode, reply.elapsedTime / 1000);
    if (tellsAnswers) request.log.debug({ method, route, status: reply.statusCode, ms: Math.round(reply.elapsedTime) }, "answered");
    done();
  });
  app.setErrorHandler(answerError);
  if (options.openApiTitle) await describeApi(app, options.openApiTitle);
  return app;
}

/** From here on another method of a path that has routes is 405 with `Allow`. Await it once, after the last route. */
export async function closeRoutes(app: FastifyInstance): Promise<void> {
  await app.after();
  const table = routeTables.get(app) as RouteTable;
  table.isClosed = true;
  for (const methods of table.routes.values()) for (const method of methods) table.methods.add(method);
  for (const [url, methods] of table.routes) {
    // A path of its own that another route would take for one with an id: DELETE /api/clusters/register.
    const mistaken = [...table.methods].filter((method) => !url.includes(":") && !methods.has(method) && app.findRoute({ method, url }));
    const refuse = async (request: FastifyRequest, reply: FastifyReply) => await Promise.reject(notAllowed(methods, request, reply));
    if (mistaken.length > 0) app.route({ method: mistaken, url, schema: { hide: true }, onRequest: refuse, handler: refuse });
  }
}

/** Every route that was added: URL pattern → methods. The contract test holds its matrix against this. */
export function routesOf(app: FastifyInstance): ReadonlyMap<string, ReadonlySet<string>> {
  return new Map(routeTables.get(app)?.routes);
}

/**
 * What is asked of every request before its route, and what is given back after it. Hooks that call back rather than promise: they are the
 * better part of what a small request costs.
 */
function boundRequests(app: FastifyInstance, options: AppOptions): void {
  const server = app.server;
  const connections = new Connections(options.maxConnections ?? DEFAULT_MAX_CONNECTIONS, options.log);
  const bodies = options.smallBodies ?? new SmallBodies();
  const answers = new Answers(options.answers);
  connections.watch(server);
  answerForServer(server);
  routeUpgrades(app);
  app.decorate("smallBodies", bodies);
  app.decorateRequest("isAtWork", false);
  const table = routeTables.get(app) as RouteTable;
  app.addHook("onRequest", (request, reply, done) => {
    const { socket } = request.raw;
    void reply.header("x-request-id", request.id).header("x-content-type-options", "nosniff");
    reply.raw.once("close", () => {
      bodies.release(request);
      connections.end(socket, request.isAtWork);
    });
    if (connections.isStranger(socket)) void reply.header("keep-alive", `timeout=${STRANGER_IDLE_S}`);
    connections.begin(socket);
    refuseUnroutable(app, table, request, reply);
    forgetTypeOfNothing(request);
    done();
  });
  // After the guards of the route, and before anything of a body is read.
  app.addHook("preParsing", (request, reply, _payload, done) => {
    const orgId = orgOf(request);
    if (orgId !== undefined) {
      connections.authenticated(request.raw.socket, orgId);
      request.isAtWork = true;
    }
    if (request.raw.headers.expect !== undefined) reply.raw.writeContinue();
    done();
  });
  app.addHook("onSend", (request, reply, payload, done) => {
    const orgId = orgOf(request);
    const isWhole = typeof payload === "string" || Buffer.isBuffer(payload);
    if (orgId === undefined || !isWhole || payload.length < LARGE_ANSWER_BYTES || reply.raw.closed) return done(null, payload);
    answers.admit(orgId);
    done(null, answers.stream(orgId, reply, [typeof payload === "string" ? Buffer.from(payload) : payload]));
  });
  app.addHook("onResponse", (request, _reply, done) => {
    linger(request.raw, orgOf(request), options.lingerMs);
    done();
  });
}

/** Clients name a type for an empty body too (fetch: text/plain); nothing of any type is no body, which some routes allow. */
function forgetTypeOfNothing({ raw: { headers } }: FastifyRequest): void {
  if (headers["content-length"] === "0") delete headers["content-type"];
}

interface RouteTable {
  /** Set when the last route is there: what comes then refuses other methods. */
  isClosed: boolean;
  readonly routes: Map<string, Set<string>>;
  /** Those that any route has. */
  readonly methods: Set<string>;
}

const routeTables = new WeakMap<FastifyInstance, RouteTable>();

function rememberRoutes(app: FastifyInstance): void {
  const table: RouteTable = { routes: new Map(), methods: new Set(), isClosed: false };
  routeTables.set(app, table);
  app.addHook("onRoute", (route) => {
    if (table.isClosed) return;
    const methods = table.routes.get(route.url) ?? new Set<string>();
    for (const method of [route.method].flat()) methods.add(method);
    table.routes.set(route.url, methods);
  });
}

/** An announced JSON body of no bytes is no body: clients that always send the header may leave an optional body out. */
function takeJson(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser("error", "error");
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", async (request: FastifyRequest): Promise<unknown> => {
    const text = (await app.smallBodies.read(request, request.routeOptions.bodyLimit)).toString("utf8");
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    if (text === "") resolve(undefined);
    else void parse(request, text, (error, json) => (error ? reject(whyNotJson(text, error)) : resolve(json)));
    return await promise;
  });
}

function whyNotJson(text: string, error: Error): ApiError {
  try {
    JSON.parse(text);
    return new ApiError("invalid_field", 'the keys "__proto__" and "constructor" with a "prototype" are not taken');
  } catch (cause) {
    return new ApiError("malformed_body", `the body is not valid JSON: ${(cause as Error).message.slice(0, 200)}`, { cause: error });
  }
}

/** Bodies are taken as they are (no coercion, unknown fields refused where the schema says so); query strings are text, so coerced. */
function validateStrictly(app: FastifyInstance): void {
  const shared = { allErrors: false, useDefaults: true, removeAdditional: false as const, strict: false, verbose: true };
  const strict = addFormats.default(new Ajv({ ...shared, coerceTypes: false }));
  const coercing = addFormats.default(new Ajv({ ...shared, coerceTypes: true }));
  app.setValidatorCompiler(({ schema, httpPart }) => atFirstUse(httpPart === "body" ? strict : coercing, schema as object));
}

/** Compiling all schemas would take a tenth of the backend's start. */
function atFirstUse(ajv: Ajv, schema: object): ValidateFunction {
  const validate = ((data: unknown): boolean => {
    const compiled = ajv.compile(schema);
    const isValid = compiled(data);
    validate.errors = compiled.errors;
    return isValid;
  }) as ValidateFunction;
  return validate;
}

function requestId(request: { headers: Record<string, string | string[] | undefined> }): string {
  const given = request.headers["x-request-id"];
  return typeof given === "string" && /^[\w.-]{1,64}$/.test(given) ? given : randomUUID();
}
