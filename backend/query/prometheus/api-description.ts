// What /openapi.json says of the Prometheus HTTP API: parameters, form, and the two forms of its errors. Invariant: it only describes;
// the engine validates the parameters, so that the caller gets the engine's messages.
import type { FastifySchema } from "fastify";
import { READERS } from "../../http/openapi.ts";
import type { QueryEndpoint } from "../../storage/metrics/store.ts";

const text = (description: string) => ({ type: "string", description });
const TIME = "RFC 3339 or Unix seconds";
const matchers = { type: "array", items: { type: "string" }, description: "series selectors; repeatable" };
const range = { start: text(TIME), end: text(TIME) };
const limit = { type: "integer", minimum: 0, description: "at most so many; 0: all" };
const timeout = text("a duration such as 10s; at most 30s");

/** Endpoint → required parameters, and all. */
const PARAMETERS: Record<QueryEndpoint, { required: string[]; properties: Record<string, object> }> = {
  query: { required: ["query"], properties: { query: text("PromQL or MetricsQL"), time: text(`${TIME}; default: now`), timeout } },
  query_range: {
    required: ["query"],
    properties: { query: text("PromQL or MetricsQL"), ...range, step: text("a duration or seconds"), timeout },
  },
  series: { required: ["match[]"], properties: { "match[]": matchers, ...range, limit, timeout } },
  labels: { required: [], properties: { "match[]": matchers, ...range, limit, timeout } },
  label_values: { required: [], properties: { "match[]": matchers, ...range, limit, timeout } },
};

/** As Prometheus answers. */
const ENGINE_ERROR = {
  type: "object",
  required: ["status", "errorType", "error"],
  properties: { status: { type: "string", enum: ["error"] }, errorType: { type: "string" }, error: { type: "string" } },
};
const ANSWER = {
  description: "as Prometheus answers",
  type: "object",
  required: ["status"],
  properties: { status: { type: "string", enum: ["success"] }, data: {} },
  additionalProperties: true,
};

const FORM = ["application/x-www-form-urlencoded"];

/** The schema of an endpoint that always answers `data`, and takes any parameters. */
export function constantSchema(summary: string, data: object, form: boolean): FastifySchema {
  const answer = { ...ANSWER, properties: { ...ANSWER.properties, data: { const: data } } };
  return {
    tags: ["metrics"],
    security: READERS,
    summary: `Prometheus HTTP API: ${summary}`,
    ...(form && { consumes: FORM }),
    described: { ...(form && { body: { type: "object" }, bodyIsOptional: true }), response: { 200: answer } },
  };
}

/** The schema of one endpoint; `form`: its parameters come in a body, in the query, or in both. */
export function prometheusSchema(endpoint: QueryEndpoint, form = false): FastifySchema {
  const parameters = { type: "object", ...PARAMETERS[endpoint] };
  return {
    tags: ["metrics"],
    security: READERS,
    summary: `Prometheus HTTP API: ${endpoint}, over the tenant's own metrics`,
    description: "Answers as Prometheus does; parameters other than those of this endpoint are ignored.",
    ...(form && { consumes: FORM }),
    described: {
      querystring: form ? { ...parameters, required: [] } : parameters,
      ...(form && { body: { ...parameters, required: [] }, bodyIsOptional: true }),
      response: { 200: ANSWER },
      otherErrors: { 400: ENGINE_ERROR, 422: ENGINE_ERROR },
    },
  };
}
