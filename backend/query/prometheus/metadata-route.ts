// Serves `metadata` of the Prometheus HTTP API, which Grafana's editor reads for types and units. It is derived from the organisation's own
// metric names, at most MAX_METADATA_NAMES, because it is computed on the event loop.
import { parametersOf } from "../../http/query-string.ts";
import { answerReader } from "../page-route.ts";
import type { FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../../errors.ts";
import type { ResponseBudget } from "../../http/response-budget.ts";
import type { Route } from "../../http/route.ts";
import type { MetricsStore } from "../../storage/metrics/metric-store.ts";
import { MAX_LABEL_LENGTH, MAX_METADATA_BYTES, MAX_METADATA_NAMES, MAX_QUERY_TIMEOUT_MS } from "../query-limits.ts";
import { declareMetadata } from "./api-description.ts";
import { metadataOf, seriesNamesOf } from "./metric-metadata.ts";
import { readEngineError } from "./prometheus-errors.ts";

export interface MetadataRouteOptions {
  readonly store: Pick<MetricsStore, "query">;
  readonly answers: ResponseBudget;
}

const DAY_S = 86_400;

export function createMetadataRoute({ store, answers }: MetadataRouteOptions): Route {
  const handler = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const parameters = readParameters(request);
    return await answerReader(request, reply, answers, async (orgId, options) => {
      const { status, pieces } = await store.query(orgId, "label_values", namesOf(parameters.metric), { ...options, label: "__name__" });
      const body = status < 400 ? [describe(pieces, parameters)] : readEngineError(status, pieces);
      return answers.send(orgId, reply.code(status).type("application/json"), body);
    });
  };
  return { ...declareMetadata(), handler };
}

interface MetadataParameters {
  readonly metric: string | undefined;
  readonly limit: number;
}

/** As in Prometheus, a negative limit means none. Throws ApiError invalid_parameter. */
function readParameters(request: FastifyRequest): MetadataParameters {
  const parameters = parametersOf(request);
  const limit = parameters.get("limit") || "-1";
  if (!/^[+-]?\d{1,15}$/.test(limit)) throw new ApiError("invalid_parameter", "limit: must be a number");
  const metric = parameters.get("metric") || undefined;
  if (metric && (metric.length > MAX_LABEL_LENGTH || /[\u0000-\u001f\u007f]/.test(metric)))
    throw new ApiError("invalid_parameter", "metric: not a metric name");
  return { metric, limit: Number(limit) < 0 ? Infinity : Number(limit) };
}

/** Parameters for the engine: names of the last day. A shorter time would cost the engine as much, because its index is by day. */
function namesOf(metric: string | undefined): URLSearchParams {
  const parameters = new URLSearchParams({
    start: String(Math.floor(Date.now() / 1000) - DAY_S),
    limit: String(MAX_METADATA_NAMES),
    timeout: `${MAX_QUERY_TIMEOUT_MS}ms`,
  });
  if (metric !== undefined) for (const name of seriesNamesOf(metric)) parameters.append("match[]", `{__name__=${JSON.stringify(name)}}`);
  return parameters;
}

function describe(pieces: readonly Buffer[], { metric, limit }: MetadataParameters): Buffer {
  if (pieces.reduce((sum, { length }) => sum + length, 0) > MAX_METADATA_BYTES)
    return success({}, ["the metric names are too long together: request one with the parameter `metric`"]);
  const { data } = JSON.parse(Buffer.concat(pieces).toString("utf8")) as { data: string[] };
  const found = [...metadataOf(data)].filter(([name]) => metric === undefined || name === metric).slice(0, limit);
  const isCut = data.length >= MAX_METADATA_NAMES;
  const warnings = isCut ? [`only ${MAX_METADATA_NAMES} names of metrics were read: request one with the parameter \`metric\``] : undefined;
  return success(Object.fromEntries(found.map(([name, metadata]) => [name, [metadata]])), warnings);
}

function success(data: object, warnings?: readonly string[]): Buffer {
  return Buffer.from(JSON.stringify({ status: "success", data, warnings }));
}
