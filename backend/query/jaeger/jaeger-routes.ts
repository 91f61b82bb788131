// Serves the part of Jaeger's HTTP API that Grafana's Jaeger data source uses, under /query/jaeger (docs/contract.md, "Query"). Invariant:
// each response contains only data of the caller's organisation; services and operations are listed without reading spans.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { addRoute, endpoint } from "../../http/route.ts";
import { ApiError } from "../../errors.ts";
import { minutesOf } from "../../storage/traces/red.ts";
import { answerJson, type JsonQuery } from "../page-route.ts";
import { registerJaegerMetrics } from "./jaeger-metrics.ts";
import { registerJaegerV3Routes } from "./jaeger-v3.ts";
import {
  FOUND_TRACES,
  JAEGER_PARAMETERS,
  type JaegerParameters,
  milliseconds,
  ONE_TRACE,
  readJaegerSearch,
  readTraceId,
  readTraceIds,
  TRACE_ID_PARAMETER,
} from "./jaeger-parameters.ts";
import type { TraceRouteOptions } from "../route-parts.ts";
import { objectSchema } from "../../http/schemas.ts";

const BASE = "/query/jaeger/api";

const describe = (summary: string, items: object) => ({
  method: "GET" as const,
  access: "reader" as const,
  limited: "filtered" as const,
  tag: "jaeger" as const,
  summary: `Jaeger's HTTP API: ${summary}`,
  description: "The response has the format of Jaeger, with integers for times in microseconds.",
  documented: { response: { 200: dataOf(items) } },
});

const TRACE = {
  type: "object",
  required: ["traceID", "spans", "processes"],
  properties: {
    traceID: { type: "string" },
    spans: { type: "array", items: { type: "object", additionalProperties: true } },
    processes: { type: "object", additionalProperties: true },
  },
  additionalProperties: true,
};
const NAME = { type: "string" };
const DEPENDENCY = objectSchema({ parent: NAME, child: NAME, callCount: { type: "number" } });
const DAY_MS = 86_400_000;
const DEPENDENCY_PARAMETERS = {
  endTs: { type: "string", description: "milliseconds since 1970; default now" },
  lookback: { type: "string", description: "milliseconds before endTs; default one day" },
};

export function registerJaegerRoutes(app: FastifyInstance, options: TraceRouteOptions): void {
  const { store, answers, guards, now = () => new Date() } = options;
  const answer = (request: FastifyRequest, reply: FastifyReply, ask: JsonQuery) =>
    answerJson(request, reply, { answers, ask: async (...query) => wrapData(await ask(...query)) });

  addRoute(app, guards, {
    path: `${BASE}/services`,
    ...describe("services", NAME),
    handler: (request, reply) => answer(request, reply, async (...query) => [await store.serviceNames(...query)]),
  });

  const operations = (request: FastifyRequest, reply: FastifyReply, service: string) =>
    answer(request, reply, async (orgId, options) => [await store.operationNames(orgId, service, options)]);
  addRoute(app, guards, {
    path: `${BASE}/services/:service/operations`,
    ...describe("operations of a service", NAME),
    handler: (request: FastifyRequest<{ Params: { service: string } }>, reply: FastifyReply) =>
      operations(request, reply, request.params.service),
  });
  // Grafana does not encode the name, so a name with a slash takes several segments.
  addRoute(app, guards, {
    ...endpoint("GET", `${BASE}/services/*`, "reader"),
    limited: "filtered",
    handler: async (request: FastifyRequest<{ Params: { "*": string } }>, reply: FastifyReply) => {
      const [, service] = /^(.+)\/operations$/s.exec(request.params["*"]) ?? [];
      if (service === undefined) throw new ApiError("not_found", "there is services, and services/{service}/operations");
      return operations(request, reply, service);
    },
  });

  addRoute(app, guards, {
    path: `${BASE}/traces`,
    ...describe(FOUND_TRACES, TRACE),
    documented: { query: { type: "object", properties: JAEGER_PARAMETERS }, response: { 200: dataOf(TRACE) } },
    handler: async (request: FastifyRequest<{ Querystring: JaegerParameters }>, reply: FastifyReply) => {
      const ids = readTraceIds(request.query);
      if (ids.length > 0) return answer(request, reply, (...query) => wholeTraces(store, ids, ...query));
      const filter = readJaegerSearch(request.query, now());
      return answer(request, reply, (orgId, options) => store.jaegerSearch(orgId, filter, "jaeger", options));
    },
  });

  addRoute(app, guards, {
    path: `${BASE}/traces/:trace_id`,
    ...describe(ONE_TRACE, TRACE),
    params: { type: "object", properties: { trace_id: TRACE_ID_PARAMETER } },
    handler: async (request: FastifyRequest<{ Params: { trace_id: string } }>, reply: FastifyReply) => {
      const traceId = readTraceId(request.params.trace_id);
      return answer(request, reply, async (orgId, options) => {
        const trace = await store.jaegerTrace(orgId, traceId, "jaeger", options);
        if (!trace) throw new ApiError("not_found", "there is no span of this trace in your organisation");
        return trace;
      });
    },
  });
  registerDependencies(app, options);
  registerJaegerV3Routes(app, options);
  registerJaegerMetrics(app, options);
}

/** The traces that exist, as one array. */
async function wholeTraces(store: TraceRouteOptions["store"], ids: readonly string[], ...[orgId, options]: Parameters<JsonQuery>) {
  const found: Buffer[] = [];
  for (const id of new Set(ids)) {
    const trace = (await store.jaegerTrace(orgId, id, "jaeger", options)) ?? [];
    if (found.length > 0 && trace.length > 0) found.push(Buffer.from(","));
    found.push(...trace.slice(1, -1));
  }
  return [Buffer.from("["), ...found, Buffer.from("]")];
}

function registerDependencies(app: FastifyInstance, { store, answers, guards, now = () => new Date() }: TraceRouteOptions): void {
  addRoute(app, guards, {
    path: `${BASE}/dependencies`,
    ...describe("which services call which", DEPENDENCY),
    documented: { query: { type: "object", properties: DEPENDENCY_PARAMETERS }, response: { 200: dataOf(DEPENDENCY) } },
    handler: (request: FastifyRequest<{ Querystring: { endTs?: string; lookback?: string } }>, reply: FastifyReply) => {
      const { endTs, lookback } = request.query;
      const endMs = milliseconds("endTs", endTs) ?? now().getTime();
      const startMs = Math.max(0, endMs - (milliseconds("lookback", lookback) ?? DAY_MS));
      const range = minutesOf(BigInt(startMs) * 1_000_000n, BigInt(endMs) * 1_000_000n);
      const ask: JsonQuery = async (orgId, options) => wrapData([await store.graph("jaegerDependencies", orgId, range, options)]);
      return answerJson(request, reply, { answers, ask });
    },
  });
}

function dataOf(items: object): object {
  return { type: "object", required: ["data"], properties: { data: { type: "array", items } }, additionalProperties: true };
}

/** Like Jaeger, leaves the counts in the envelope at zero. */
function wrapData(data: readonly Buffer[]): Buffer[] {
  return [Buffer.from('{"data":'), ...data, Buffer.from(',"total":0,"limit":0,"offset":0,"errors":null}')];
}
