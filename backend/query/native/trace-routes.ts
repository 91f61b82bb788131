// Serves GET /query/traces: spans, newest first (docs/contract.md, "Query"). Also registers the other routes of traces.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { addRoute, endpoint } from "../../http/route.ts";
import { answerPage } from "../page-route.ts";
import { PAGE_PARAMETERS, type PageParameters, readCursor, readPage } from "../../storage/page.ts";
import { registerJaegerRoutes } from "../jaeger/jaeger-routes.ts";
import { SPAN_SCHEMA, TRACE_ID, type TraceRouteOptions } from "../route-parts.ts";
import { registerSearchRoute } from "./trace-search-route.ts";
import { registerServicesRoute } from "./services-route.ts";
import { registerTraceStatistics } from "./trace-statistics-routes.ts";
import { listSchema, objectSchema, optionalSchema, TIME_SCHEMA } from "../../http/schemas.ts";
import { ApiError } from "../../errors.ts";
import { TRACE_PAGE_SPANS } from "../../storage/traces/span-fields.ts";

interface TraceParameters extends PageParameters {
  service?: string;
  error?: boolean;
  trace_id?: string;
}

const QUERY_SCHEMA = optionalSchema({
  service: { type: "string", description: "service.name of the sender" },
  error: { type: "boolean", default: false, description: "true: only spans whose status is ERROR" },
  trace_id: { ...TRACE_ID, description: `${TRACE_ID.description}; without start and end, the whole retention is searched` },
  ...PAGE_PARAMETERS,
});

export function registerTraceRoutes(app: FastifyInstance, options: TraceRouteOptions): void {
  const { store, answers, guards, now = () => new Date() } = options;
  registerSearchRoute(app, options);
  registerWholeTraceRoute(app, options);
  registerServicesRoute(app, options);
  registerTraceStatistics(app, options);
  registerJaegerRoutes(app, options);
  addRoute(app, guards, {
    ...endpoint("GET", "/query/traces", "reader"),
    limited: "filtered",
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

// GET /query/traces/{trace_id}: all spans of one trace of the caller's organisation, oldest first, with all stored fields
// (docs/contract.md, "Query"). Invariant: a trace of another organisation is not found.

const text = { type: "string" } as const;
const attributes = { type: "object", additionalProperties: text } as const;

const WHOLE_SPAN_SCHEMA = objectSchema([...SPAN_SCHEMA.required, "Kind", "StatusMessage", "Events", "Links", "Scope"], {
  ...SPAN_SCHEMA.properties,
  Kind: { type: "string", description: "UNSPECIFIED, INTERNAL, SERVER, CLIENT, PRODUCER or CONSUMER" },
  StatusMessage: text,
  Events: listSchema({ Timestamp: TIME_SCHEMA, Name: text, Attributes: attributes }),
  Links: listSchema({ TraceID: text, SpanID: text, TraceState: text, Attributes: attributes }),
  Scope: { type: "object", properties: { Name: text, Version: text } },
});

const SCHEMA = {
  summary: "All spans of a trace, oldest first",
  description: `A page has at most ${TRACE_PAGE_SPANS} spans or 8 MiB. A Link header with rel="next" leads to the next page.`,
  params: { type: "object", properties: { trace_id: TRACE_ID } },
  query: optionalSchema({ cursor: { type: "string", description: 'opaque; from the Link header with rel="next"' } }),
  response: { 200: { type: "array", items: WHOLE_SPAN_SCHEMA } },
};

function registerWholeTraceRoute(app: FastifyInstance, { store, answers, guards }: TraceRouteOptions): void {
  addRoute(app, guards, {
    ...endpoint("GET", "/query/traces/:trace_id", "reader"),
    limited: "filtered",
    ...SCHEMA,
    handler: async (request: FastifyRequest<{ Params: { trace_id: string }; Querystring: { cursor?: string } }>, reply: FastifyReply) => {
      const traceId = request.params.trace_id.toLowerCase();
      const { cursor } = request.query;
      const after = cursor === undefined ? undefined : readCursor(cursor);
      const page = { range: { start: undefined, end: undefined }, limit: TRACE_PAGE_SPANS, after };
      return answerPage(request, reply, {
        answers,
        page,
        ask: async (orgId, options) => {
          const found = await store.trace(orgId, traceId, after, options);
          if (found.isEmpty && !after) throw new ApiError("not_found", "there is no span of this trace in your organisation");
          return found;
        },
      });
    },
  });
}
