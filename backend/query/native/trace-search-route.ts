// Serves GET /query/traces/search: the traces that have a matching span, newest first (docs/contract.md, "Query").
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { addRoute, endpoint } from "../../http/route.ts";
import { ApiError } from "../../errors.ts";
import { answerPage, readPrefixed, refuseUnknown } from "../page-route.ts";
import { PAGE_PARAMETERS, type PageParameters, readPage } from "../../storage/page.ts";
import { readComparisons, type SpanConditions, TRACE_ORDERS, type TraceOrder } from "../../storage/traces/search.ts";
import type { TraceRouteOptions } from "../route-parts.ts";
import { objectSchema, TIME_SCHEMA } from "../../http/schemas.ts";
import { REPEATABLE } from "./log-filter-parameters.ts";

const text = { type: "string" } as const;
const number = { type: "number" } as const;
const LABELS = "label.";

export interface SpanParameters {
  service?: string;
  operation?: string;
  min_duration_ms?: string;
  max_duration_ms?: string;
  error?: boolean;
  where?: string | string[];
  [label: `label.${string}`]: string | string[];
}

interface SearchParameters extends PageParameters, SpanParameters {
  order?: TraceOrder;
}

/** At most what the engine can represent in 64 bits of nanoseconds. */
export const MILLISECONDS = "^\\d{1,12}(\\.\\d{1,6})?$";

const duration = (meaning: string) => ({ ...text, pattern: MILLISECONDS, description: `${meaning} in milliseconds, such as 250 or 0.5` });

/** Other names are rejected by name (page-route.ts). */
export const LABEL_PARAMETERS = { "^label\\.": REPEATABLE };

export const SPAN_PARAMETERS = {
  service: { ...text, description: "service.name of the sender" },
  operation: { ...text, description: "name of the span" },
  min_duration_ms: duration("span duration"),
  max_duration_ms: duration("span duration"),
  error: { type: "boolean", default: false, description: "true: only spans whose status is ERROR" },
  where: {
    ...REPEATABLE,
    description: "a comparison with an attribute, repeatable up to 20 times: key=value, key!=value, key>=500, key<0.5, key (exists), !key",
    examples: ["http.response.status_code>=500"],
  },
} as const;

const QUERY_SCHEMA = {
  type: "object",
  properties: {
    ...SPAN_PARAMETERS,
    min_duration_ms: duration("duration of the trace within the range"),
    max_duration_ms: duration("duration of the trace within the range"),
    order: {
      type: "string",
      enum: TRACE_ORDERS,
      default: "time",
      description: "over all traces of the range, by their spans in the range, largest or newest first",
    },
    ...PAGE_PARAMETERS,
  },
  patternProperties: LABEL_PARAMETERS,
};

const TRACE_SCHEMA = objectSchema({
  trace_id: text,
  root_service: text,
  root_operation: text,
  start: TIME_SCHEMA,
  duration_ms: number,
  spans: number,
  errors: number,
  services: { type: "array", items: text },
});

export function registerSearchRoute(app: FastifyInstance, { store, answers, guards, now = () => new Date() }: TraceRouteOptions): void {
  addRoute(app, guards, {
    ...endpoint("GET", "/query/traces/search", "reader"),
    limited: "filtered",
    summary: "Traces, newest, slowest, or with most errors or spans first",
    description:
      'Finds traces with a span in the range that matches service, operation, error, each comparison of where and each label.<key>=<value> (repeatable). A Link header with rel="next" leads to the next page.',
    query: QUERY_SCHEMA,
    response: { 200: { type: "array", items: TRACE_SCHEMA } },
    handler: async (request: FastifyRequest<{ Querystring: SearchParameters }>, reply: FastifyReply) => {
      refuseUnknown(request, QUERY_SCHEMA.properties, [LABELS]);
      const { min_duration_ms: min, max_duration_ms: max, order } = request.query;
      const page = readPage(request, now());
      const filter = { ...page, order, span: spanOf(request.query), minDurationNs: nanosecondsOf(min), maxDurationNs: nanosecondsOf(max) };
      if ((filter.minDurationNs ?? 0n) > (filter.maxDurationNs ?? MAX_NS))
        throw new ApiError("invalid_parameter", "min_duration_ms: must not be above max_duration_ms");
      return answerPage(request, reply, { answers, page, ask: (orgId, options) => store.search(orgId, filter, options) });
    },
  });
}

const MAX_NS = 10n ** 18n;

/** Throws ApiError invalid_parameter that names the parameter. */
export function spanOf(parameters: SpanParameters): SpanConditions {
  const { service, operation, error, where = [] } = parameters;
  const comparisons = readComparisons("where", [where].flat());
  return { service, operation, error: error || undefined, comparisons, attributes: readPrefixed(parameters, LABELS) };
}

/** Converted without doubles, which cannot represent nanoseconds of long durations. */
export function nanosecondsOf(milliseconds: string | undefined): bigint | undefined {
  if (milliseconds === undefined) return undefined;
  const [whole = "", fraction = ""] = milliseconds.split(".");
  return BigInt(whole) * 1_000_000n + BigInt(fraction.padEnd(6, "0"));
}
