// Jaeger's HTTP API under /query/jaeger, as far as Grafana's Jaeger data source asks it (docs/contract.md, "Query"). Invariant: each answer
// is of the caller's organisation; services and operations are answered without reading spans.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../../errors.ts";
import { READERS } from "../../http/openapi.ts";
import { answerJson } from "../page-route.ts";
import { JAEGER_PARAMETERS, type JaegerParameters, readJaegerSearch } from "./jaeger-parameters.ts";
import type { TraceRouteOptions } from "../trace-route-parts.ts";

const BASE = "/query/jaeger/api";

const schemaOf = (summary: string, items: object, rest: object = {}) => ({
  tags: ["jaeger"],
  security: READERS,
  summary: `Jaeger's HTTP API: ${summary}`,
  description: "Answers as Jaeger does, with integers for times in microseconds.",
  described: { response: { 200: dataOf(items) } },
  ...rest,
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
/** Older clients leave zeros at the front out. */
const TRACE_ID = { type: "string", pattern: "^[0-9a-fA-F]{1,32}$", description: "up to 32 hex digits of any case" };

export function registerJaegerRoutes(app: FastifyInstance, options: TraceRouteOptions): void {
  const { store, answers, guards, now = () => new Date() } = options;
  const onRequest = guards.reader();
  const answer = (request: FastifyRequest, reply: FastifyReply, ask: Parameters<typeof answerJson>[2]["ask"]) =>
    answerJson(request, reply, { answers, ask: async (...asked) => enveloped(await ask(...asked)) });

  app.get(`${BASE}/services`, { onRequest, schema: schemaOf("services", NAME) }, (request, reply) =>
    answer(request, reply, async (...asked) => [await store.serviceNames(...asked)]),
  );

  const operations = (request: FastifyRequest, reply: FastifyReply, service: string) =>
    answer(request, reply, async (orgId, asked) => [await store.operationNames(orgId, service, asked)]);
  app.get<{ Params: { service: string } }>(
    `${BASE}/services/:service/operations`,
    { onRequest, schema: schemaOf("operations of a service", NAME) },
    (request, reply) => operations(request, reply, request.params.service),
  );
  // Grafana does not encode the name, so one with a slash has several segments.
  app.get<{ Params: { "*": string } }>(`${BASE}/services/*`, { onRequest, schema: { hide: true } }, async (request, reply) => {
    const [, service] = /^(.+)\/operations$/s.exec(request.params["*"]) ?? [];
    if (service === undefined) throw new ApiError("not_found", "there is services, and services/{service}/operations");
    return operations(request, reply, service);
  });

  app.get<{ Querystring: JaegerParameters }>(
    `${BASE}/traces`,
    {
      onRequest,
      schema: schemaOf("traces, newest first, each with its first 100 spans", TRACE, {
        described: { querystring: { type: "object", properties: JAEGER_PARAMETERS }, response: { 200: dataOf(TRACE) } },
      }),
    },
    async (request, reply) => {
      const filter = readJaegerSearch(request.query, now());
      return answer(request, reply, (orgId, asked) => store.jaegerSearch(orgId, filter, asked));
    },
  );

  app.get<{ Params: { trace_id: string } }>(
    `${BASE}/traces/:trace_id`,
    {
      onRequest,
      schema: schemaOf("one trace", TRACE, { params: { type: "object", properties: { trace_id: TRACE_ID } } }),
    },
    async (request, reply) => {
      const traceId = request.params.trace_id.toLowerCase().padStart(32, "0");
      return answer(request, reply, async (orgId, asked) => {
        const trace = await store.jaegerTrace(orgId, traceId, asked);
        if (!trace) throw new ApiError("not_found", "there is no span of this trace in your organisation");
        return trace;
      });
    },
  );

  app.get(`${BASE}/dependencies`, { onRequest, schema: schemaOf("dependencies, always empty", TRACE) }, (request, reply) =>
    answer(request, reply, async () => [Buffer.from("[]")]),
  );
}

function dataOf(items: object): object {
  return { type: "object", required: ["data"], properties: { data: { type: "array", items } }, additionalProperties: true };
}

/** Jaeger counts nothing here either. */
function enveloped(data: readonly Buffer[]): Buffer[] {
  return [Buffer.from('{"data":'), ...data, Buffer.from(',"total":0,"limit":0,"offset":0,"errors":null}')];
}
