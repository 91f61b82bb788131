// GET /query/logs: the caller's organisation's log records, newest first (docs/decisions.md, "Query").
import type { FastifyInstance } from "fastify";
import type { Answers } from "../http/answers.ts";
import { answerPage, readPrefixed, refuseUnknown } from "../query/page-route.ts";
import { PAGE_PARAMETERS, type PageParameters, readPage } from "../query/page.ts";
import type { Guards } from "../auth/request-identity.ts";
import { READERS } from "../http/openapi.ts";
import type { LogStore } from "./store.ts";

export interface LogRouteOptions {
  store: Pick<LogStore, "query">;
  answers: Answers;
  guards: Pick<Guards, "reader">;
  now?: () => Date;
}

interface LogParameters extends PageParameters {
  source?: string;
  level?: string;
  q?: string;
  host_id?: string;
  node?: string;
  [label: `label.${string}`]: string | string[];
}

const QUERY_SCHEMA = {
  type: "object",
  properties: {
    source: { type: "string", description: "service.name of the sender" },
    level: { type: "string", description: "such as info or error, any case" },
    q: { type: "string", description: "substring of the message, any case" },
    host_id: { type: "string", description: "the cluster, host or key" },
    node: { type: "string", description: "its name" },
    ...PAGE_PARAMETERS,
  },
  // Others are refused by name (page-route.ts).
  patternProperties: { "^label\\.": { anyOf: [{ type: "string" }, { type: "array", items: { type: "string" } }] } },
};

const LOG_SCHEMA = {
  type: "object",
  required: ["timestamp", "level", "source", "message", "labels", "host_id", "node"],
  properties: {
    timestamp: { type: "string", format: "date-time" },
    level: { type: "string" },
    source: { type: "string" },
    message: { type: "string" },
    labels: { type: "object", additionalProperties: { type: "string" } },
    host_id: { type: "string" },
    node: { type: "string" },
  },
};

export function registerLogRoutes(app: FastifyInstance, { store, answers, guards, now = () => new Date() }: LogRouteOptions): void {
  app.get<{ Querystring: LogParameters }>(
    "/query/logs",
    {
      onRequest: guards.reader(),
      schema: {
        summary: "Log records, newest first",
        description: 'Filter by label with label.<key>=<value> (repeatable). A Link header with rel="next" leads to the next page.',
        security: READERS,
        querystring: QUERY_SCHEMA,
        response: { 200: { type: "array", items: LOG_SCHEMA } },
      },
    },
    async (request, reply) => {
      refuseUnknown(request, QUERY_SCHEMA.properties, "label.");
      const { source, level, q, host_id: hostId, node } = request.query;
      const page = readPage(request, now());
      const filter = { ...page, source, level, q, hostId, node, labels: readPrefixed(request.query, "label.") };
      return answerPage(request, reply, { answers, page, ask: (orgId, options) => store.query(orgId, filter, options) });
    },
  );
}
