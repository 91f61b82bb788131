// Serves GET /query/traces/facets, /heatmap and /differences: statistics over spans (docs/contract.md, "Query").
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../../errors.ts";
import { addRoute, endpoint } from "../../http/route.ts";
import { PAGE_PARAMETERS, readPage } from "../../storage/page.ts";
import type { StatisticsFilter } from "../../storage/traces/span-statistics.ts";
import type { SpanStatistic } from "../../storage/traces/span-store.ts";
import { answerJson, refuseUnknown } from "../page-route.ts";
import { listSchema, TIME_SCHEMA } from "../../http/schemas.ts";
import { LABEL_PARAMETERS, MILLISECONDS, nanosecondsOf, SPAN_PARAMETERS, type SpanParameters, spanOf } from "./trace-search-route.ts";
import type { TraceRouteOptions } from "../route-parts.ts";

const text = { type: "string" } as const;
const number = { type: "number" } as const;
const { start, end } = PAGE_PARAMETERS;

interface StatisticsParameters extends SpanParameters {
  start?: string;
  end?: string;
  points?: number;
  slower_than_ms?: string;
}

interface StatisticsRoute {
  readonly path: string;
  readonly summary: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, object>>;
  readonly response: object;
  readonly statistic: SpanStatistic;
}

const ROUTES: readonly StatisticsRoute[] = [
  {
    path: "/query/traces/facets",
    summary: "Fields of matching spans with their most frequent values",
    description:
      "Reads the newest 20,000 matching spans: at most 100 fields, and 20 values of each. Names and values above 256 bytes are left out.",
    parameters: {},
    response: listSchema({
      name: text,
      spans: { type: "integer", description: "spans with this field, of those that were read; every span has a service" },
      values: listSchema({ value: text, count: { type: "integer" } }),
    }),
    statistic: "spanFacets",
  },
  {
    path: "/query/traces/heatmap",
    summary: "Counts and durations of matching spans over time",
    description: "Each point covers a whole number of minutes; buckets end at 2^(n/4) ms.",
    parameters: { points: { type: "integer", minimum: 1, maximum: 500, default: 60 } },
    response: listSchema({
      start: TIME_SCHEMA,
      end: TIME_SCHEMA,
      spans: number,
      errors: number,
      buckets: listSchema({ max_ms: number, count: number }),
    }),
    statistic: "durationHeatmap",
  },
  {
    path: "/query/traces/differences",
    summary: "Fields and attributes that differ between slow or failed spans and the others",
    description:
      "Compares the newest 10,000 matching spans that took at least slower_than_ms with the newest 10,000 others; without slower_than_ms, it compares spans with an error. At most 50 values, the largest difference first; names and values above 256 bytes are left out.",
    parameters: {
      slower_than_ms: {
        ...text,
        pattern: MILLISECONDS,
        description: "compare spans that took at least this long; default: compare spans with an error",
      },
    },
    response: listSchema({
      name: text,
      value: text,
      compared: number,
      compared_share: number,
      others: number,
      others_share: number,
      difference: { ...number, description: "compared_share - others_share" },
    }),
    statistic: "spanDifferences",
  },
];

export function registerTraceStatistics(app: FastifyInstance, { store, answers, guards, now = () => new Date() }: TraceRouteOptions): void {
  for (const { path, summary, description, parameters, response, statistic } of ROUTES) {
    const knownParameters = { ...SPAN_PARAMETERS, start, end, ...parameters };
    addRoute(app, guards, {
      ...endpoint("GET", path, "reader"),
      limited: "filtered",
      summary,
      description,
      query: { type: "object", properties: knownParameters, patternProperties: LABEL_PARAMETERS },
      response: { 200: response },
      handler: async (request: FastifyRequest<{ Querystring: StatisticsParameters }>, reply: FastifyReply) => {
        refuseUnknown(request, knownParameters, ["label."]);
        const filter = readStatisticsFilter(request, now());
        return answerJson(request, reply, {
          answers,
          ask: async (orgId, options) => [await store.statistics(statistic, orgId, filter, options)],
        });
      },
    });
  }
}

function readStatisticsFilter(request: FastifyRequest<{ Querystring: StatisticsParameters }>, now: Date): StatisticsFilter {
  const { range } = readPage(request, now);
  const { min_duration_ms: min, max_duration_ms: max, slower_than_ms: slower, points = 60 } = request.query;
  const [startNs = 0n, endNs = 0n] = [range.start, range.end];
  if (endNs < startNs) throw new ApiError("invalid_parameter", "end: must not be before start");
  return {
    span: { ...spanOf(request.query), minDurationNs: nanosecondsOf(min), maxDurationNs: nanosecondsOf(max) },
    range: { start: startNs, end: endNs },
    points,
    compared: slower === undefined ? "errors" : { minNs: nanosecondsOf(slower) ?? 0n },
  };
}
