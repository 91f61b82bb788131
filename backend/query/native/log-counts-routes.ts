// Serves GET /query/logs/histogram, /query/logs/fields and /query/logs/patterns: counts of records (docs/contract.md, "Query").
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { addRoute, endpoint } from "../../http/route.ts";
import { MAX_COUNTED_FIELDS, MAX_COUNTED_VALUES, MAX_MESSAGE_PATTERNS, MAX_PATTERN_SAMPLE_RECORDS } from "../../storage/storage-limits.ts";
import { MAX_BUCKETS } from "../query-limits.ts";
import { answerJson } from "../page-route.ts";
import { PAGE_PARAMETERS, type PageParameters, readPage } from "../../storage/page.ts";
import { type RangeFilter, SAMPLED_RECORDS } from "../../storage/logs/counts.ts";
import { filterSchema } from "./log-filter-parameters.ts";
import { countedFilter, readSelection } from "./log-selection.ts";
import type { LogRouteOptions } from "../route-parts.ts";
import { listSchema, objectSchema, TIME_SCHEMA } from "../../http/schemas.ts";

const { start, end } = PAGE_PARAMETERS;
const FIELDS_SCHEMA = filterSchema({ start, end });
const HISTOGRAM_SCHEMA = filterSchema({
  start,
  end,
  buckets: {
    type: "integer",
    minimum: 1,
    maximum: MAX_BUCKETS,
    default: 60,
    description:
      "approximate number of intervals: the length of intervals of a minute or longer is rounded up to whole minutes, and there may be one more",
  },
});

const PATTERNS_SCHEMA = filterSchema({
  start,
  end,
  limit: { type: "integer", minimum: 1, maximum: MAX_MESSAGE_PATTERNS, default: 50, description: "patterns, the most frequent first" },
});

const PATTERNS_ANSWER = objectSchema({
  records: { type: "integer", description: "records that match" },
  sampled_one_of: { type: "integer", description: "one of this number of periods was read; 1: all were read, and counts are exact" },
  patterns: listSchema({
    pattern: { type: "string", description: "the first line of its messages, with <_> for the parts that differ" },
    count: { type: "integer", description: "records, estimated if a sample was read" },
    example: { type: "string", description: "the first line of one of the messages" },
  }),
});

const INTERVAL_SCHEMA = objectSchema({
  start: TIME_SCHEMA,
  end: { ...TIME_SCHEMA, description: "start of the next interval; for the last one, the end of the range" },
  counts: {
    type: "object",
    additionalProperties: { type: "integer" },
    description: "records by level; rare levels are counted as other",
  },
});

const FIELD_SCHEMA = objectSchema({
  name: { type: "string", description: "level, source, host_id, node, scope, or label.<key>" },
  records: { type: "integer", description: "records with this field, of those that were read; every record has a level" },
  values: listSchema({ value: { type: "string" }, count: { type: "integer" } }),
});

export function registerCountRoutes(
  app: FastifyInstance,
  { store, sandbox, answers, guards, now = () => new Date() }: LogRouteOptions,
): void {
  const read = async (request: FastifyRequest, reply: FastifyReply, schema: ReturnType<typeof filterSchema>): Promise<RangeFilter> => {
    const filter = countedFilter(await readSelection(request, reply, schema, sandbox));
    const page = readPage(request as FastifyRequest<{ Querystring: PageParameters }>, now());
    return { ...filter, range: page.range as RangeFilter["range"] };
  };
  addRoute(app, guards, {
    ...endpoint("GET", "/query/logs/histogram", "reader"),
    limited: "filtered",
    summary: "Counts of log records by time and level",
    description:
      "Counts for equal intervals of the range, oldest first. Intervals of a minute or longer begin at whole minutes, so the first and the last " +
      "one may be shorter. Filters as in GET /query/logs.",
    query: HISTOGRAM_SCHEMA,
    response: { 200: { type: "array", items: INTERVAL_SCHEMA } },
    handler: async (request: FastifyRequest<{ Querystring: { buckets: number } }>, reply: FastifyReply) => {
      const filter = await read(request, reply, HISTOGRAM_SCHEMA);
      const { buckets } = request.query;
      return answerJson(request, reply, {
        answers,
        ask: async (orgId, options) => [await store.histogram(orgId, filter, buckets, options)],
      });
    },
  });
  addRoute(app, guards, {
    ...endpoint("GET", "/query/logs/patterns", "reader"),
    limited: "filtered",
    summary: "Patterns of messages, and how many records each has",
    description:
      "Messages that differ in numbers, ids or single words form one pattern, in which <_> replaces the differing parts. If more than " +
      `${MAX_PATTERN_SAMPLE_RECORDS} records match, only evenly spread periods of the range are read, and counts are estimates. ` +
      "Filters as in GET /query/logs.",
    query: PATTERNS_SCHEMA,
    response: { 200: PATTERNS_ANSWER },
    handler: async (request: FastifyRequest<{ Querystring: { limit: number } }>, reply: FastifyReply) => {
      const filter = await read(request, reply, PATTERNS_SCHEMA);
      const { limit } = request.query;
      return answerJson(request, reply, { answers, ask: async (orgId, options) => [await store.patterns(orgId, filter, limit, options)] });
    },
  });
  addRoute(app, guards, {
    ...endpoint("GET", "/query/logs/fields", "reader"),
    limited: "filtered",
    summary: "The fields of log records and their values",
    description:
      `Reads the newest ${SAMPLED_RECORDS} matching records: at most ${MAX_COUNTED_FIELDS} fields, labels last, and the most ` +
      `frequent ${MAX_COUNTED_VALUES} values of each. Filters as in GET /query/logs.`,
    query: FIELDS_SCHEMA,
    response: { 200: { type: "array", items: FIELD_SCHEMA } },
    handler: async (request, reply) => {
      const filter = await read(request, reply, FIELDS_SCHEMA);
      return answerJson(request, reply, { answers, ask: async (orgId, options) => [await store.fields(orgId, filter, options)] });
    },
  });
}
