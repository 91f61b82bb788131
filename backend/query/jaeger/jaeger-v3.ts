// Serves Jaeger's third HTTP API under /query/jaeger/api/v3, which returns OTLP JSON. Jaeger's own UI (since version 2) and other clients use
// it. Invariant: as in the first API, each response has only data of the caller's organisation, and an error names the parameter.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError, createParameterError } from "../../errors.ts";
import { addRoutes, endpoint, type Route } from "../../http/route.ts";
import { readTime } from "../../storage/page.ts";
import type { TraceFilter } from "../../storage/traces/search.ts";
import { MAX_TRACES } from "../query-limits.ts";
import { answerJson, type JsonQuery } from "../page-route.ts";
import type { TraceRouteOptions } from "../route-parts.ts";
import { duration, FOUND_TRACES, ONE_TRACE, parseTags, readLimit, readTags, readTraceId, TRACE_ID_PARAMETER } from "./jaeger-parameters.ts";

const BASE = "/query/jaeger/api/v3";
const DEFAULT_DEPTH = 100;

type Query = Readonly<Record<string, string | string[] | undefined>>;

const text = (description: string) => ({ type: "string", description });
const SEARCH_PARAMETERS = {
  "query.serviceName": text("service.name of the sender"),
  "query.operationName": text("name of the span"),
  "query.attributes": text('a JSON object with string values, such as {"error":"true"}'),
  "query.startTimeMin": text("required; RFC 3339"),
  "query.startTimeMax": text("required; RFC 3339"),
  "query.durationMin": text("of the span, such as 1.2s, 100ms or 500us"),
  "query.durationMax": text("of the span, such as 1.2s, 100ms or 500us"),
  "query.searchDepth": text(`traces; ${DEFAULT_DEPTH} by default, above ${MAX_TRACES} counts as ${MAX_TRACES}`),
};
const OPERATION_PARAMETERS = { service: text("service.name of the sender"), spanKind: text("server, client, …; unset: every kind") };

const objectOf = (name: string, value: object) => ({ type: "object", required: [name], properties: { [name]: value } });
const listOf = (items: object) => ({ type: "array", items });
const TRACES = objectOf("result", objectOf("resourceSpans", listOf({ type: "object", additionalProperties: true })));

export function registerJaegerV3Routes(app: FastifyInstance, { store, answers, guards }: TraceRouteOptions): void {
  const route = (
    path: string,
    summary: string,
    { query, answer }: { query?: object; answer: object },
    askFor: (request: FastifyRequest) => JsonQuery,
  ): Route => ({
    ...endpoint("GET", `${BASE}/${path}`, "reader", "jaeger"),
    limited: "filtered",
    summary: `Jaeger's HTTP API v3: ${summary}`,
    description: "Names of parameters in snake case, as older clients send them, are accepted too.",
    ...(path.includes(":trace_id") && { params: { type: "object", properties: { trace_id: TRACE_ID_PARAMETER } } }),
    documented: { ...(query && { query: { type: "object", properties: query } }), response: { 200: answer } },
    handler: (request: FastifyRequest, reply: FastifyReply) => answerJson(request, reply, { answers, ask: askFor(request) }),
  });
  addRoutes(app, guards, [
    route(
      "services",
      "services",
      { answer: objectOf("services", listOf({ type: "string" })) },
      () =>
        async (...options) =>
          wrapList("services", [await store.serviceNames(...options)]),
    ),
    route(
      "operations",
      "operations of a service with their kinds",
      { query: OPERATION_PARAMETERS, answer: objectOf("operations", listOf(objectOf("name", { type: "string" }))) },
      ({ query }) =>
        async (orgId, options) => {
          const service = parameter(query as Query, "service") ?? "";
          const kind = parameter(query as Query, "spanKind")?.toLowerCase();
          return wrapList("operations", [await store.operationKinds(orgId, service, kind, options)]);
        },
    ),
    route("traces", FOUND_TRACES, { query: SEARCH_PARAMETERS, answer: TRACES }, (request) => {
      const filter = readSearch(request.query as Query);
      return async (orgId, options) => resultOf(await store.jaegerSearch(orgId, filter, "otlp", options));
    }),
    route(
      "trace-summaries",
      "traces without their spans, newest first",
      { query: SEARCH_PARAMETERS, answer: objectOf("summaries", listOf({ type: "object", additionalProperties: true })) },
      (request) => {
        const filter = readSearch(request.query as Query);
        return async (orgId, options) => wrapList("summaries", [await store.jaegerSummaries(orgId, filter, options)]);
      },
    ),
    route("traces/:trace_id", ONE_TRACE, { answer: TRACES }, ({ params }) => {
      const traceId = readTraceId((params as { trace_id: string }).trace_id);
      return async (orgId, options) => resultOf((await store.jaegerTrace(orgId, traceId, "otlp", options)) ?? []);
    }),
  ]);
}

function wrapList(name: string, json: readonly Buffer[]): Buffer[] {
  return [Buffer.from(`{"${name}":`), ...json, Buffer.from("}")];
}

/** An empty result is the single chunk `[]`. Jaeger also returns 404 for a search without a result. Throws ApiError not_found. */
function resultOf(resourceSpans: readonly Buffer[]): Buffer[] {
  if (resourceSpans.length < 2) throw new ApiError("not_found", "there is no such trace in your organisation");
  return wrapList("result", wrapList("resourceSpans", resourceSpans));
}

/** The parameter with this name in camel case or in snake case. Throws ApiError invalid_parameter. */
function parameter(query: Query, name: string): string | undefined {
  const value = query[name] || query[name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)];
  if (Array.isArray(value)) throw createParameterError(name, "is given more than once");
  return value || undefined;
}

function readSearch(query: Query): TraceFilter {
  const read = (name: string) => parameter(query, `query.${name}`);
  if (read("filter") !== undefined) throw createParameterError("query.filter", "expressions are not supported; use query.attributes");
  const [start, end] = ["startTimeMin", "startTimeMax"].map((name) => readTime(`query.${name}`, read(name) ?? ""));
  const depth = read("searchDepth") ?? read("numTraces");
  return {
    range: { start, end },
    limit: readLimit("query.searchDepth", depth, DEFAULT_DEPTH),
    after: undefined,
    span: {
      service: read("serviceName"),
      operation: read("operationName"),
      minDurationNs: duration("query.durationMin", read("durationMin")),
      maxDurationNs: duration("query.durationMax", read("durationMax")),
      ...readTags(parseTags("query.attributes", read("attributes"))),
    },
  };
}
