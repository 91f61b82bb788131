// Serves GET /query/logs: log records, newest or oldest first (docs/contract.md, "Query"). Also registers the other log routes.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { addRoute, endpoint } from "../../http/route.ts";
import { answerPage } from "../page-route.ts";
import { PAGE_PARAMETERS, type PageParameters, readPage } from "../../storage/page.ts";
import { registerCountRoutes } from "./log-counts-routes.ts";
import { filterSchema } from "./log-filter-parameters.ts";
import { readSelection, readStagedPage } from "./log-selection.ts";
import { registerTailRoute } from "./log-tail-routes.ts";
import { LOG_SCHEMA, type LogRouteOptions } from "../route-parts.ts";

const ORDER = { type: "string", enum: ["newest", "oldest"], default: "newest", description: "which record is first" } as const;
const QUERY_SCHEMA = filterSchema({ ...PAGE_PARAMETERS, order: ORDER });

interface Parameters extends PageParameters {
  order?: "newest" | "oldest";
}

export function registerLogRoutes(app: FastifyInstance, options: LogRouteOptions): void {
  const { store, sandbox, answers, guards, now = () => new Date() } = options;
  registerCountRoutes(app, options);
  registerTailRoute(app, options);
  addRoute(app, guards, {
    ...endpoint("GET", "/query/logs", "reader"),
    limited: "filtered",
    summary: "Log records, newest first, or oldest with order=oldest",
    description:
      "Filter by label with label.<key>=<value> and not_label.<key>=<value> (repeatable). With trace_id and neither start nor end, the " +
      'whole retention is searched. A Link header with rel="next" leads to the next page.',
    query: QUERY_SCHEMA,
    response: { 200: { type: "array", items: LOG_SCHEMA } },
    handler: async (request: FastifyRequest<{ Querystring: Parameters }>, reply: FastifyReply) => {
      const { filter, staged } = await readSelection(request, reply, QUERY_SCHEMA, sandbox);
      const order = request.query.order === "oldest" ? { oldestFirst: true } : {};
      const page = { ...readPage(request, now(), filter.traceId !== undefined), ...order };
      return answerPage(request, reply, {
        answers,
        page,
        ask: (orgId, options) =>
          staged ? readStagedPage(sandbox, orgId, { page, staged }, options) : store.query(orgId, { ...page, ...filter }, options),
      });
    },
  });
}
