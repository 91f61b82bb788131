// GET /query/logs: the caller's organisation's log records, newest first (docs/decisions.md, "Query").
import type { FastifyInstance } from "fastify";
import type { Answers } from "../http/answers.ts";
import { answerPage } from "../query/page-route.ts";
import { PAGE_PARAMETERS, type PageParameters, readPage } from "../query/page.ts";
import type { Guards } from "../auth/request-identity.ts";
import { READERS } from "../http/openapi.ts";
import { filterSchema, readFilter } from "./filter-parameters.ts";
import type { LogStore } from "./store.ts";

export interface LogRouteOptions {
  store: Pick<LogStore, "query">;
  answers: Answers;
  guards: Pick<Guards, "reader">;
  now?: () => Date;
}

const QUERY_SCHEMA = filterSchema(PAGE_PARAMETERS);

const LOG_SCHEMA = {
  type: "object",
  required: ["timestamp", "level", "source", "message", "labels", "host_id", "node", "trace_id", "span_id", "severity_number", "scope"],
  properties: {
    timestamp: { type: "string", format: "date-time" },
    level: { type: "string" },
    source: { type: "string" },
    message: { type: "string" },
    labels: { type: "object", additionalProperties: { type: "string" } },
    host_id: { type: "string" },
    node: { type: "string" },
    trace_id: { type: "string", description: "32 hex digits, or empty" },
    span_id: { type: "string", description: "16 hex digits, or empty" },
    severity_number: { type: "integer", minimum: 0, maximum: 24, description: "of OpenTelemetry; 0: not said" },
    scope: { type: "string", description: "name of the instrumentation scope" },
  },
};

export function registerLogRoutes(app: FastifyInstance, { store, answers, guards, now = () => new Date() }: LogRouteOptions): void {
  app.get<{ Querystring: PageParameters }>(
    "/query/logs",
    {
      onRequest: guards.reader(),
      schema: {
        summary: "Log records, newest first",
        description:
          "Filter by label with label.<key>=<value> and not_label.<key>=<value> (repeatable). With trace_id and neither start nor end, the " +
          'whole retention is searched. A Link header with rel="next" leads to the next page.',
        security: READERS,
        querystring: QUERY_SCHEMA,
        response: { 200: { type: "array", items: LOG_SCHEMA } },
      },
    },
    async (request, reply) => {
      const record = readFilter(request, QUERY_SCHEMA);
      const filter = { ...readPage(request, now(), record.traceId !== undefined), ...record };
      return answerPage(request, reply, { answers, page: filter, ask: (orgId, options) => store.query(orgId, filter, options) });
    },
  );
}
