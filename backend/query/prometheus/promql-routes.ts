// Serves the Prometheus HTTP API over the tenant's own metrics, for Grafana and scripts with a bearer token. Invariant: only the parameters
// listed here reach the engine, and none of the caller's headers; the tenant comes from the session or the read token.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { expressionDurationMs } from "../../../common/duration.ts";
import { ApiError, createParameterError } from "../../errors.ts";
import type { ResponseBudget } from "../../http/response-budget.ts";
import { parametersOf } from "../../http/query-string.ts";
import { addRoutes, type Route } from "../../http/route.ts";
import type { Guards } from "../../http/request-identity.ts";
import { addFormParser, answerReader, formFields } from "../page-route.ts";
import { MAX_LABEL_LENGTH, MAX_QUERY_TIMEOUT_MS } from "../query-limits.ts";
import { timeOf } from "../../storage/metrics/query-cost.ts";
import { declareConstant, declareEndpoint, REQUIRED_PARAMETERS } from "./api-description.ts";
import { answerPrometheusError, readEngineError } from "./prometheus-errors.ts";
import { createExemplarsRoutes } from "./exemplars-route.ts";
import { createMetadataRoute } from "./metadata-route.ts";
import { answerString, engineExpression, isScalar, toScalar } from "./prometheus-semantics.ts";
import type { MetricsStore, QueryEndpoint } from "../../storage/metrics/metric-store.ts";
import type { SpanStore } from "../../storage/traces/span-store.ts";

export interface MetricsRoutesOptions {
  readonly store: MetricsStore;
  readonly spans: Pick<SpanStore, "exemplars">;
  readonly answers: ResponseBudget;
  readonly guards: Guards;
}

const FORWARDED = new Set(["query", "start", "end", "step", "time", "match[]", "limit"]);

/**
 * Adds GET and POST of query, query_range, series, labels; GET of label/<name>/values and metadata; query_exemplars and the constant
 * responses. Each needs a session or a read token.
 */
export function registerMetricsRoutes(app: FastifyInstance, { store, spans, answers, guards }: MetricsRoutesOptions): void {
  void app.register(async (scope) => {
    addFormParser(scope);
    scope.setErrorHandler(answerPrometheusError);
    const routes = [...createConstantRoutes(), createMetadataRoute({ store, answers }), ...createExemplarsRoutes({ spans, answers })];
    for (const endpoint of ["query", "query_range", "series", "labels"] as const) {
      const handler = (request: FastifyRequest, reply: FastifyReply) => answer({ store, answers }, endpoint, request, reply);
      routes.push({ ...declareEndpoint("GET", endpoint), handler }, { ...declareEndpoint("POST", endpoint), handler });
    }
    routes.push({
      ...declareEndpoint("GET", "label_values"),
      handler: (request: FastifyRequest<{ Params: { name: string } }>, reply: FastifyReply) =>
        answer({ store, answers }, "label_values", request, reply, labelOf(request.params.name)),
    });
    addRoutes(scope, guards, routes);
  });
}

async function answer(
  { store, answers }: Pick<MetricsRoutesOptions, "store" | "answers">,
  endpoint: QueryEndpoint,
  request: FastifyRequest,
  reply: FastifyReply,
  label?: string,
): Promise<FastifyReply> {
  const params = forwardedParams(request);
  checkParameters(endpoint, params);
  const text = endpoint === "query" ? answerString(params) : undefined;
  if (text) return reply.type("application/json").send(text);
  const inEngine = new URLSearchParams(params);
  if (endpoint === "query" || endpoint === "query_range") inEngine.set("query", engineExpression(params.get("query") ?? ""));
  return await answerReader(request, reply, answers, async (orgId, options) => {
    const result = await store.query(orgId, endpoint, inEngine, { ...options, label });
    let { pieces } = result;
    if (result.status >= 400) pieces = readEngineError(result.status, pieces);
    else if (endpoint === "query" && isScalar(params.get("query") ?? "")) pieces = [toScalar(Buffer.concat(pieces), params)];
    // The engine sets application/stream+json for raw samples, which Prometheus does not.
    return answers.send(orgId, reply.code(result.status).type("application/json"), pieces);
  });
}

/**
 * Refuses what Prometheus refuses (web/api/v1/api.go); the engine has a default for a missing step, and ignores other values. As in
 * Prometheus, the first value of a repeated parameter counts. Throws ApiError invalid_parameter.
 */
function checkParameters(endpoint: QueryEndpoint, params: URLSearchParams): void {
  const missing = REQUIRED_PARAMETERS[endpoint].find((name) => !params.get(name));
  if (missing !== undefined) throw createParameterError(missing, "is missing");
  const limit = params.get("limit");
  if (limit && !/^\+?\d{1,15}$/.test(limit)) throw createParameterError("limit", "must be a whole number of at least 0");
  const [start, end] = [timeOf("start", params, -Infinity), timeOf("end", params, Infinity)];
  timeOf("time", params, 0);
  if (end < start) throw createParameterError("end", "must not be before start");
}

/** The parameters of the query string and of a form that are forwarded: the listed names, and a timeout of at most 30 s. */
function forwardedParams(request: FastifyRequest): URLSearchParams {
  const form = formFields(request);
  const query = parametersOf(request);
  const forwarded = new URLSearchParams([...form, ...query].filter(([name]) => FORWARDED.has(name)));
  const timeout = form.get("timeout") ?? query.get("timeout");
  forwarded.set("timeout", `${timeout === null ? MAX_QUERY_TIMEOUT_MS : timeoutMs(timeout)}ms`);
  return forwarded;
}

/** A duration in the notation of queries. Throws ApiError invalid_parameter. */
function timeoutMs(text: string): number {
  const ms = expressionDurationMs(text, Number.NaN) ?? Number.NaN;
  if (!(ms > 0)) throw new ApiError("invalid_parameter", "timeout: must be a duration such as 10s");
  return Math.min(MAX_QUERY_TIMEOUT_MS, Math.ceil(ms));
}

function labelOf(name: string): string {
  if (name === "" || name.length > MAX_LABEL_LENGTH || /[\u0000-\u001f\u007f/]/.test(name)) {
    throw new ApiError("invalid_parameter", "label: not a label name");
  }
  return name;
}

// Endpoints that Grafana and other clients of Prometheus request in addition to queries; they do not use the engine. Invariant: each
// response is a constant, so it contains no flags, configuration or targets of this server and no data of an organisation.

/** From this version on, Grafana requests label values by `match[]`. The engine reports it for the same reason. */
const COMPATIBLE_VERSION = "2.24.0";

const CONSTANTS = [
  ["status/buildinfo", "status/buildinfo, the version of Prometheus whose API is implemented", { version: COMPATIBLE_VERSION }],
  ["status/config", "status/config, always empty", { yaml: "" }],
  ["status/flags", "status/flags, always empty", {}],
  [
    "status/runtimeinfo",
    "status/runtimeinfo, without the times and settings of the server",
    { reloadConfigSuccess: true, corruptionCount: 0 },
  ],
  ["targets", "targets, always empty: agents scrape, not this server", { activeTargets: [], droppedTargets: [], droppedTargetCounts: {} }],
  ["targets/metadata", "targets/metadata, always empty", []],
] as const;

/** The base address, status/*, targets and targets/metadata. */
function createConstantRoutes(): Route[] {
  const base = declareConstant("", "the base address, with which clients check the connection", {});
  return [
    { ...base, path: "/query/prometheus/", handler: sendConstant({}) },
    ...CONSTANTS.map(([path, summary, data]) => ({ ...declareConstant(path, summary, data), handler: sendConstant(data) })),
  ];
}

function sendConstant(data: object): (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply> {
  return async (_request, reply) => await reply.type("application/json").send(JSON.stringify({ status: "success", data }));
}
