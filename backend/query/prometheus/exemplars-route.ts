// Serves `query_exemplars` of the Prometheus HTTP API: links from series to traces, for series that senders write with remote write or
// OTLP, and for the buckets of traces_spanmetrics_latency.
import type { FastifyReply, FastifyRequest } from "fastify";
import { ApiError, createParameterError } from "../../errors.ts";
import type { ResponseBudget } from "../../http/response-budget.ts";
import type { Route } from "../../http/route.ts";
import { checkPatterns, isCostly } from "../../storage/logs/pattern.ts";
import { timeOf } from "../../storage/metrics/query-cost.ts";
import type { ExemplarSelector } from "../../storage/traces/exemplars.ts";
import type { SpanStore } from "../../storage/traces/span-store.ts";
import { MAX_EXEMPLAR_QUERY_BYTES, MAX_EXEMPLAR_SELECTORS } from "../query-limits.ts";
import { parametersOf } from "../../http/query-string.ts";
import { answerJson, formFields } from "../page-route.ts";
import { declareExemplars } from "./api-description.ts";
import { selectorsOf } from "./exemplar-selectors.ts";

export interface ExemplarsRouteOptions {
  readonly spans: Pick<SpanStore, "exemplars">;
  readonly answers: ResponseBudget;
}

const DEFAULT_RANGE_MS = 3_600_000;
const MAX_TIME_MS = 9_223_372_036_000;

export function createExemplarsRoutes({ spans, answers }: ExemplarsRouteOptions): Route[] {
  const handler = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
    answerJson(request, reply, {
      answers,
      ask: async (orgId, options) => {
        const parameters = new URLSearchParams([...formFields(request), ...parametersOf(request)]);
        const query = parameters.get("query");
        if (!query) throw createParameterError("query", "is missing");
        const selectors = readSelectors(query);
        const range = readRange(parameters);
        const data = selectors.length === 0 ? Buffer.from("[]") : await spans.exemplars(orgId, selectors, range, options);
        return [Buffer.from('{"status":"success","data":'), data, Buffer.from("}")];
      },
    });
  return [
    { ...declareExemplars("GET"), handler },
    { ...declareExemplars("POST"), handler },
  ];
}

function readSelectors(query: string): ExemplarSelector[] {
  if (Buffer.byteLength(query) > MAX_EXEMPLAR_QUERY_BYTES)
    throw new ApiError("query_too_expensive", `query: the expression is longer than ${MAX_EXEMPLAR_QUERY_BYTES} bytes`);
  const selectors = selectorsOf(query);
  if (selectors.length > MAX_EXEMPLAR_SELECTORS)
    throw new ApiError("query_too_expensive", `query: the expression has more than ${MAX_EXEMPLAR_SELECTORS} selectors`);
  const patterns = selectors.flat().flatMap(({ operator, value }) => (operator.endsWith("~") ? [value] : []));
  checkPatterns({ query: patterns });
  if (isCostly(patterns)) throw new ApiError("query_too_expensive", "query: its regular expressions are too complex");
  return selectors;
}

function readRange(parameters: URLSearchParams): { start: bigint; end: bigint } {
  const endMs = timeOf("end", parameters, Date.now());
  const startMs = timeOf("start", parameters, endMs - DEFAULT_RANGE_MS);
  if (endMs < startMs) throw new ApiError("invalid_parameter", "end: must not be before start");
  return { start: nanoseconds(startMs), end: nanoseconds(endMs) };
}

/** Clamped to the engine's range of times. */
function nanoseconds(ms: number): bigint {
  return BigInt(Math.round(Math.min(Math.max(ms, 0), MAX_TIME_MS) * 1000)) * 1000n;
}
