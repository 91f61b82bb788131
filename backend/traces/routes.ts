// GET /query/traces: the caller's organisation's spans, newest first (docs/contract.md, "Query").
import type { FastifyInstance } from "fastify";
import type { Answers } from "../http/answers.ts";
import { answerPage } from "../query/page-route.ts";
import { PAGE_PARAMETERS, type PageParameters, readPage } from "../query/page.ts";
import type { Guards } from "../auth/request-identity.ts";
import { READERS } from "../http/openapi.ts";
import type { SpanStore } from "./store.ts";

export interface TraceRouteOptions {
  store: Pick<SpanStore, "query">;
  answers: Answers;
  guards: Pick<Guards, "reader">;
  now?: () => Date;
}

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
    trace_id: {
      type: "string",
      pattern: "^[0-9a-fA-F]{32}$",
      description: "32 hex digits of any case; without start and end, the whole retention is searched",
    },
    ...PAGE_PARAMETERS,
  },
};

const SPAN_SCHEMA = {
  type: "object",
  required: ["Timestamp", "TraceID", "SpanID", "ParentSpanID", "Service", "Operation", "DurationMs", "StatusCode", "Error", "Attributes"],
  properties: {
    Timestamp: { type: "string", format: "date-time" },
    TraceID: { type: "string" },
    SpanID: { type: "string" },
    ParentSpanID: { type: "string" },
    Service: { type: "string" },
    Operation: { type: "string" },
    DurationMs: { type: "number" },
    StatusCode: { type: "string", enum: ["UNSET", "OK", "ERROR"] },
    Error: { type: "boolean" },
    Attributes: { type: "object", additionalProperties: { type: "string" } },
  },
};

export function registerTraceRoutes(app: FastifyInstance, { store, answers, guards, now = () => new Date() }: TraceRouteOptions): void {
  app.get<{ Querystring: TraceParameters }>(
    "/query/traces",
    {
      onRequest: guards.reader(),
      schema: {
        summary: "Spans, newest first",
        description: 'A Link header with rel="next" leads to the next page.',
        security: READERS,
        querystring: QUERY_SCHEMA,
        response: { 200: { type: "array", items: SPAN_SCHEMA } },
      },
    },
    async (request, reply) => {
      const { service, error, trace_id: traceId } = request.query;
      const page = readPage(request, now(), traceId !== undefined);
      const filter = { ...page, service, error, traceId: traceId?.toLowerCase() };
      return answerPage(request, reply, { answers, page, ask: (orgId, options) => store.query(orgId, filter, options) });
    },
  );
}
