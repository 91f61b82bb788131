// Makes the HTTP applications of the backend (API and alerting) and decides how every error is answered. Invariant: no answer of 400
// or above leaves without a code of errors.ts, and no 5xx body tells its cause. Route modules add routes; serve.ts wires them.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { Ajv, type ValidateFunction } from "ajv";
import addFormats from "ajv-formats";
import {
  fastify,
  LogController,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type HTTPMethods,
} from "fastify";
import { ApiError, ERROR_CODES } from "./errors.ts";
import { FailureStory } from "./failure-story.ts";
import type { Log } from "./log.ts";
import { describeApi } from "./openapi.ts";

declare module "fastify" {
  interface FastifyInstance {
    failureStory: FailureStory;
  }
}

/** Bodies of JSON endpoints; ingest reads its own stream under its own limit. */
const JSON_BODY_LIMIT_BYTES = 1024 * 1024;
const METHODS: HTTPMethods[] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

export interface AppOptions {
  log: Log;
  /** Title of /openapi.json; unset: no such route. */
  openApiTitle?: string;
  tls?: { certFile: string; keyFile: string };
  trustedProxies?: readonly string[];
  /** Sees every finished request: for latency and status metrics. */
  onFinished?: (route: string, method: string, status: number, seconds: number) => void;
}

/** An application without routes. Add them, then call `closeRoutes`, then listen. */
export async function createApp(options: AppOptions): Promise<FastifyInstance> {
  const app = fastify({
    loggerInstance: options.log,
    logController: new LogController({ disableRequestLogging: true }),
    exposeHeadRoutes: false,
    bodyLimit: JSON_BODY_LIMIT_BYTES,
    requestTimeout: 120_000,
    keepAliveTimeout: 75_000,
    forceCloseConnections: "idle",
    // Its own answer has neither an error code nor Retry-After; requests on kept connections are answered as ever, then closed.
    return503OnClosing: false,
    trustProxy: options.trustedProxies?.length ? [...options.trustedProxies] : false,
    genReqId: requestId,
    routerOptions: { maxParamLength: 200 },
    frameworkErrors: (error, request, reply) => answerError(toPathError(error), request as FastifyRequest, reply as FastifyReply),
    ...(options.tls && { https: { cert: readFileSync(options.tls.certFile), key: readFileSync(options.tls.keyFile) } }),
  }) as unknown as FastifyInstance;
  validateStrictly(app);
  const story = new FailureStory(options.log);
  app.decorate("failureStory", story);
  app.addHook("onClose", async () => story[Symbol.dispose]());
  takeEmptyJson(app);
  app.addHook("onRequest", async (request, reply) => void reply.header("x-request-id", request.id));
  app.addHook("onRequest", forgetTypeOfNothing);
  app.addHook("onResponse", async (request, reply) => {
    const route = request.routeOptions.url ?? "unknown";
    options.onFinished?.(route, request.method, reply.statusCode, reply.elapsedTime / 1000);
    request.log.debug({ method: request.method, route, status: reply.statusCode, ms: Math.round(reply.elapsedTime) }, "answered");
  });
  app.setErrorHandler(answerError);
  app.setNotFoundHandler((request, reply) =>
    answerError(
      new ApiError("not_found", `there is no ${request.url.split("?")[0]} here; GET /openapi.json lists what there is`),
      request,
      reply,
    ),
  );
  rememberRoutes(app);
  if (options.openApiTitle) await describeApi(app, options.openApiTitle);
  return app;
}

/** Answers 405 with `Allow` on every other method of the routes that were added. Await it once, after the last route. */
export async function closeRoutes(app: FastifyInstance): Promise<void> {
  await app.after();
  for (const [url, methods] of routesOf(app)) {
    const rest = METHODS.filter((method) => !methods.has(method));
    const allow = [...methods].sort().join(", ");
    app.route({
      method: rest,
      url,
      schema: { hide: true },
      handler: (request, reply) => {
        void reply.header("allow", allow);
        return answerError(new ApiError("method_not_allowed", `${request.method} is not allowed here; allowed: ${allow}`), request, reply);
      },
    });
  }
}

/** Every route that was added: URL pattern → methods. The contract test holds its matrix against this. */
export function routesOf(app: FastifyInstance): ReadonlyMap<string, ReadonlySet<string>> {
  return new Map(routeTables.get(app));
}

/** Clients name a type for an empty body too (fetch: text/plain); nothing of any type is no body, which some routes allow. */
async function forgetTypeOfNothing({ raw }: FastifyRequest): Promise<void> {
  if (raw.headers["content-length"] === "0") delete raw.headers["content-type"];
}

const routeTables = new WeakMap<FastifyInstance, Map<string, Set<string>>>();

function rememberRoutes(app: FastifyInstance): void {
  const table = new Map<string, Set<string>>();
  routeTables.set(app, table);
  app.addHook("onRoute", (route) => {
    if (route.schema?.hide) return;
    const methods = table.get(route.url) ?? new Set<string>();
    for (const method of [route.method].flat()) methods.add(method);
    table.set(route.url, methods);
  });
}

/** An announced JSON body of no bytes is no body: clients that always send the header may leave an optional body out. */
function takeEmptyJson(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser("error", "error");
  app.removeContentTypeParser("application/json");
  app.addContentTypeParser("application/json", { parseAs: "string" }, (request, body, done) =>
    body === "" ? done(null) : parse(request, body as string, done),
  );
}

/** Bodies are taken as they are (no coercion, unknown fields refused where the schema says so); query strings are text, so coerced. */
function validateStrictly(app: FastifyInstance): void {
  const shared = { allErrors: false, useDefaults: true, removeAdditional: false as const, strict: false };
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

function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const answer = asApiError(error);
  const context = { code: answer.code, url: request.url.split("?")[0] };
  if (answer.status > 500) request.server.failureStory.failed(answer.message, answer.cause ?? answer, { ...context, reqId: request.id });
  // What an engine refuses is lost for good, and the sender cannot know why.
  else if (answer.status === 500 || answer.code === "unstorable")
    request.log.error({ err: answer.cause ?? error, ...context }, answer.message);
  if (answer.retryAfterS !== undefined) void reply.header("retry-after", String(Math.ceil(answer.retryAfterS)));
  return reply
    .code(answer.status)
    .type("application/json")
    .send(JSON.stringify({ error: answer.code, message: answer.message }));
}

function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const { code, statusCode, message, validation, validationContext } = error as FastifyError;
  if (validation)
    return new ApiError(validationContext === "body" ? "invalid_field" : "invalid_parameter", describeValidation(error as FastifyError));
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") return new ApiError("body_too_large", `the body exceeds ${JSON_BODY_LIMIT_BYTES} bytes`);
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) return new ApiError("malformed_body", message.slice(0, 300));
  return new ApiError("internal", ERROR_CODES.internal[1], { cause: error });
}

function describeValidation(error: FastifyError): string {
  const first = error.validation?.[0];
  const params = first?.params as { additionalProperty?: string; missingProperty?: string; allowedValues?: unknown[] } | undefined;
  const at = (first?.instancePath ?? "").replace(/^\//, "").replaceAll("/", ".");
  if (params?.additionalProperty !== undefined) return `${joined(at, params.additionalProperty)}: unknown field`;
  if (params?.missingProperty !== undefined) return `${joined(at, params.missingProperty)}: required`;
  const allowed = params?.allowedValues ? `: ${params.allowedValues.join(", ")}` : "";
  return `${at || error.validationContext || "body"}: ${first?.message ?? "invalid"}${allowed}`;
}

function joined(at: string, name: string): string {
  return at ? `${at}.${name}` : name;
}

function requestId(request: { headers: Record<string, string | string[] | undefined> }): string {
  const given = request.headers["x-request-id"];
  return typeof given === "string" && /^[\w.-]{1,64}$/.test(given) ? given : randomUUID();
}

function toPathError(error: FastifyError): unknown {
  return error.code === "FST_ERR_BAD_URL" ? new ApiError("not_found", "the path is not a valid URL path") : error;
}
