// GET /query/traces: the caller's organisation's spans, newest first (docs/contract.md, "Query"); and the other routes of traces.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { addRoute } from "../../http/route.ts";
import { answerPage } from "../page-route.ts";
import { PAGE_PARAMETERS, type PageParameters, readPage } from "../../storage/page.ts";
import { registerJaegerRoutes } from "../jaeger/jaeger-routes.ts";
import { SPAN_SCHEMA, TRACE_ID, type TraceRouteOptions } from "../trace-route-parts.ts";
import { registerSearchRoute } from "./trace-search-route.ts";
import { registerServicesRoute } from "./services-route.ts";
import { registerTraceStatistics } from "./trace-statistics-routes.ts";
import { registerWholeTraceRoute } from "./whole-trace-route.ts";

interface TraceParameters extends PageParameters {
  service?: string;
  error?: boolean;
  trace_id?: string;
}

const QUERY_SCHEMA = {
  type: "object",
  properties: {
    service: { type: "string", description: "service.name of the sender" },
    error: { type: "boolean", default: false, description: "true: only spans whose status is ERROR" },
    trace_id: { ...TRACE_ID, description: `${TRACE_ID.description}; without start and end, the whole retention is searched` },
    ...PAGE_PARAMETERS,
  },
};

export function registerTraceRoutes(app: FastifyInstance, options: TraceRouteOptions): void {
  const { store, answers, guards, now = () => new Date() } = options;
  registerSearchRoute(app, options);
  registerWholeTraceRoute(app, options);
  registerServicesRoute(app, options);
  registerTraceStatistics(app, options);
  registerJaegerRoutes(app, options);
  addRoute(app, guards, {
    method: "GET",
    path: "/query/traces",
    access: "reader",
    summary: "Spans, newest first",
    description: 'A Link header with rel="next" leads to the next page.',
    query: QUERY_SCHEMA,
    response: { 200: { type: "array", items: SPAN_SCHEMA } },
    handler: async (request: FastifyRequest<{ Querystring: TraceParameters }>, reply: FastifyReply) => {
      const { service, error, trace_id: traceId } = request.query;
      const page = readPage(request, now(), traceId !== undefined);
      const filter = { ...page, service, error, traceId: traceId?.toLowerCase() };
      return answerPage(request, reply, { answers, page, ask: (orgId, options) => store.query(orgId, filter, options) });
    },
  });
}
