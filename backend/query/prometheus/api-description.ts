// Describes the Prometheus HTTP API for /openapi.json: parameters, form, and the two forms of its errors. Invariant: it only describes;
// promql-routes.ts and the engine validate the parameters, so that errors have Prometheus' form.
import { endpoint, type RouteDeclaration } from "../../http/route.ts";
import type { QueryEndpoint } from "../../storage/metrics/metric-store.ts";
import { FORM } from "../page-route.ts";
import { objectSchema } from "../../http/schemas.ts";

const text = (description: string) => ({ type: "string", description });
const TIME = "RFC 3339 or Unix seconds";
const matchers = { type: "array", items: { type: "string" }, description: "series selectors; repeatable" };
const range = { start: text(TIME), end: text(TIME) };
const limit = { type: "integer", minimum: 0, description: "maximum number of results; 0: all" };
const timeout = text("a duration such as 10s; at most 30s");

/** An empty value counts as missing. */
export const REQUIRED_PARAMETERS: Record<QueryEndpoint, readonly string[]> = {
  query: ["query"],
  query_range: ["query", "start", "end", "step"],
  series: ["match[]"],
  labels: [],
  label_values: [],
};

const PARAMETERS: Record<QueryEndpoint, Record<string, object>> = {
  query: { query: text("PromQL or MetricsQL"), time: text(`${TIME}; default: now`), timeout },
  query_range: { query: text("PromQL or MetricsQL"), ...range, step: text("a duration or seconds"), timeout },
  series: { "match[]": matchers, ...range, limit, timeout },
  labels: { "match[]": matchers, ...range, limit, timeout },
  label_values: { "match[]": matchers, ...range, limit, timeout },
};

/** The form of Prometheus' errors. */
const ENGINE_ERROR = objectSchema({
  status: { type: "string", enum: ["error"] },
  errorType: { type: "string" },
  error: { type: "string" },
});
const ERRORS = { otherErrors: { schemas: { 400: ENGINE_ERROR, 422: ENGINE_ERROR } } };
const ANSWER = {
  description: "in the format of Prometheus",
  type: "object",
  required: ["status"],
  properties: { status: { type: "string", enum: ["success"] }, data: {} },
  additionalProperties: true,
};

const BASE = "/query/prometheus/api/v1";

/** Declares an endpoint that always returns `data`, and accepts any parameters. */
export function declareConstant(path: string, summary: string, data: object): RouteDeclaration {
  const response = { ...ANSWER, properties: { ...ANSWER.properties, data: constantSchema(data) } };
  return {
    ...endpoint("GET", `${BASE}/${path}`, "reader", "metrics"),
    limited: "filtered",
    summary: `Prometheus HTTP API: ${summary}`,
    documented: { response: { 200: response } },
  };
}

const texts = { type: "object", additionalProperties: { type: "string" } };
const EXEMPLARS = {
  type: "array",
  items: objectSchema({
    seriesLabels: texts,
    exemplars: {
      type: "array",
      items: objectSchema({
        labels: { ...texts, description: "such as trace_id and span_id" },
        value: text("the value; for a span, its duration in seconds"),
        timestamp: { type: "number", description: "Unix seconds; for a span, its start" },
      }),
    },
  }),
};

export function declareExemplars(method: "GET" | "POST"): RouteDeclaration {
  const parameters = { type: "object", properties: { query: text("PromQL or MetricsQL"), ...range } };
  return {
    ...endpoint(method, `${BASE}/query_exemplars`, "reader", "metrics"),
    limited: "filtered",
    summary: "Prometheus HTTP API: query_exemplars, traces of series",
    description:
      "For each selector of the expression the newest exemplars that were sent by remote write or OTLP; for traces_spanmetrics_latency_bucket also the slowest span of each bucket in 20 parts of the range. At most 100 of a series, and 1,000 of each kind.",
    ...(method === "POST" && FORM),
    documented: {
      query: parameters,
      ...(method === "POST" && { body: parameters }),
      response: { 200: { ...ANSWER, properties: { ...ANSWER.properties, data: EXEMPLARS } } },
    },
    ...ERRORS,
  };
}

const METADATA = objectSchema({
  type: { type: "string", enum: ["counter", "gauge", "histogram", "summary", "unknown"] },
  help: { type: "string", description: "empty for metrics without one, such as those of applications" },
  unit: text("from the suffix of the name, or empty"),
});

/** Declares `metadata`, which is derived from metric names. */
export function declareMetadata(): RouteDeclaration {
  const data = { type: "object", additionalProperties: { type: "array", items: METADATA } };
  const properties = { limit: { type: "integer", description: "maximum number of metrics" }, metric: text("only the metric of this name") };
  return {
    ...endpoint("GET", `${BASE}/metadata`, "reader", "metrics"),
    limited: "filtered",
    summary: "Prometheus HTTP API: metadata, derived from the names of the metrics that the tenant sent today or yesterday (UTC)",
    documented: {
      query: { type: "object", properties },
      response: {
        200: { ...ANSWER, properties: { ...ANSWER.properties, data, warnings: { type: "array", items: { type: "string" } } } },
      },
    },
    ...ERRORS,
  };
}

/** Declares an endpoint. The parameters of a POST are in the body, in the query string, or in both. */
export function declareEndpoint(method: "GET" | "POST", name: QueryEndpoint): RouteDeclaration {
  const optional = { type: "object", required: [], properties: PARAMETERS[name] };
  const parameters = { ...optional, required: REQUIRED_PARAMETERS[name] };
  return {
    ...endpoint(method, `${BASE}/${name === "label_values" ? "label/:name/values" : name}`, "reader", "metrics"),
    limited: "filtered",
    summary: `Prometheus HTTP API: ${name}, over the tenant's own metrics`,
    description: "The response has the format of Prometheus; parameters other than those of this endpoint are ignored.",
    ...(method === "POST" && FORM),
    documented: { ...(method === "POST" ? { query: optional, body: optional } : { query: parameters }), response: { 200: ANSWER } },
    ...ERRORS,
  };
}

/** Names each constant by itself, because generators of clients know no constant objects. */
function constantSchema(data: object): object {
  if (Array.isArray(data)) return { type: "array", items: {}, maxItems: 0 };
  const properties = Object.entries(data as Record<string, unknown>).map(([name, value]) => [
    name,
    typeof value === "object" && value !== null ? constantSchema(value) : { const: value },
  ]);
  return { type: "object", required: Object.keys(data), properties: Object.fromEntries(properties), additionalProperties: false };
}
