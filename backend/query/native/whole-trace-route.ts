// GET /query/traces/{trace_id}: all spans of one trace of the caller's organisation, oldest first, each with all that is kept of it
// (docs/contract.md, "Query"). Invariant: another organisation's trace is not there.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { objectSchema } from "../../http/schemas.ts";
import { addRoute } from "../../http/route.ts";
import { ApiError } from "../../errors.ts";
import { answerPage } from "../page-route.ts";
import { readCursor } from "../../storage/page.ts";
import { SPAN_SCHEMA, TRACE_ID, type TraceRouteOptions } from "../trace-route-parts.ts";
import { TRACE_PAGE_SPANS } from "../../storage/traces/span-fields.ts";

const text = { type: "string" } as const;
const attributes = { type: "object", additionalProperties: text } as const;
const arrayOf = (properties: Record<string, object>) => ({ type: "array", items: objectSchema(properties) });

const WHOLE_SPAN_SCHEMA = {
  type: "object",
  required: [...SPAN_SCHEMA.required, "Kind", "StatusMessage", "Events", "Links", "Scope"],
  properties: {
    ...SPAN_SCHEMA.properties,
    Kind: { type: "string", description: "UNSPECIFIED, INTERNAL, SERVER, CLIENT, PRODUCER or CONSUMER" },
    StatusMessage: text,
    Events: arrayOf({ Timestamp: { type: "string", format: "date-time" }, Name: text, Attributes: attributes }),
    Links: arrayOf({ TraceID: text, SpanID: text, TraceState: text, Attributes: attributes }),
    Scope: { type: "object", properties: { Name: text, Version: text } },
  },
};

const SCHEMA = {
  summary: "All spans of a trace, oldest first",
  description: `In pages of ${TRACE_PAGE_SPANS} spans or 8 MiB. A Link header with rel="next" leads to the next page.`,
  params: { type: "object", properties: { trace_id: TRACE_ID } },
  query: {
    type: "object",
    properties: { cursor: { type: "string", description: 'opaque; from the Link header with rel="next"' } },
  },
  response: { 200: { type: "array", items: WHOLE_SPAN_SCHEMA } },
};

export function registerWholeTraceRoute(app: FastifyInstance, { store, answers, guards }: TraceRouteOptions): void {
  addRoute(app, guards, {
    method: "GET",
    path: "/query/traces/:trace_id",
    access: "reader",
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
