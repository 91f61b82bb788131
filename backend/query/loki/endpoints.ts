// Defines the endpoints of Loki's API that return JSON, in the order of Loki's documentation. The backend adds a route for each; a sandbox
// process evaluates them, so this module must not import the HTTP server.
import { createParameterError } from "../../errors.ts";
import { MAX_VOLUMES } from "../query-limits.ts";
import { dataOf } from "./answers.ts";
import { answerLogs, answerMetrics } from "./evaluate.ts";
import { formatQuery } from "./format.ts";
import { wrongQuery } from "./grammar.ts";
import { detectedFields, detectedLabels, labelNames, labelValues, patterns, seriesOf, statistics } from "./label-queries.ts";
import { readLimitAndDirection, readLimit, readTimeRange, readSteps, readTime, type RequestParameters, textOf } from "./parameters.ts";
import type { QueryContext, Selected } from "./range-points.ts";
import { readQuery, readSelectorAlone } from "./read-query.ts";
import { Patterns } from "./regex.ts";
import type { LogQuery, Query } from "./syntax.ts";
import { volume, volumePerLabelName, volumeRange } from "./volumes.ts";

/** The parts of a request other than its parameters. */
export interface EndpointRequest {
  readonly context: QueryContext;
  readonly nowNs: bigint;
  /** The variable part of the path, such as a label name. */
  readonly name: string | undefined;
  readonly categorize: boolean;
}

interface Endpoint {
  readonly summary: string;
  readonly parameters: Record<string, object>;
  readonly answer: (parameters: RequestParameters, request: EndpointRequest) => Promise<Buffer>;
}

export const textSchema = (description: string) => ({ type: "string", description });
const TIME = "nanoseconds or seconds since 1970, or RFC 3339";
const TIME_RANGE = {
  start: textSchema(`${TIME}; default one hour before the end`),
  end: textSchema(`${TIME}; default now`),
  since: textSchema("a duration before the end"),
};
export const QUERY = textSchema("LogQL");
const IGNORED = textSchema("ignored");
const SELECTOR = textSchema('a selector, such as {service_name="shop"}');
const LIMIT_AND_DIRECTION = {
  limit: textSchema("entries of a log query; 100 by default, at most 5000"),
  direction: textSchema("of a log query: backward (newest first, the default) or forward"),
};
const STEP = textSchema("a duration, or seconds; by default the range divided by 250, at least 1 s");
const SELECTION = { ...TIME_RANGE, query: SELECTOR };
const VOLUMES = {
  ...SELECTION,
  limit: textSchema(`100 by default, at most ${MAX_VOLUMES}`),
  targetLabels: textSchema("at most 20 label names, separated by commas"),
  aggregateBy: textSchema("labels, or series (the default)"),
};
const FIELDS = {
  ...TIME_RANGE,
  query: QUERY,
  limit: textSchema("maximum number of results; 1000 by default, at most 5000"),
  line_limit: textSchema("records to read; 1000 by default, at most 5000"),
  step: IGNORED,
};

export const ENDPOINTS: ReadonlyMap<string, Endpoint> = new Map(
  Object.entries<Endpoint>({
    query: {
      summary: "an instant metric query",
      parameters: { query: QUERY, time: textSchema(`${TIME}; default now`), limit: IGNORED, direction: IGNORED },
      async answer(parameters, { context, nowNs }) {
        const query = requiredQuery(parameters);
        if (query.kind === "log")
          throw wrongQuery("log queries are not supported as an instant query type, please change your query to a range query type");
        const time = textOf(parameters, "time");
        const steps = { start: time === undefined ? nowNs : readTime("time", time), step: 1n, count: 1 };
        return await answerMetrics(context, { query, steps, isInstant: true });
      },
    },
    query_range: {
      summary: "a query over a range",
      parameters: { query: QUERY, ...TIME_RANGE, step: STEP, ...LIMIT_AND_DIRECTION, interval: textSchema("not supported") },
      async answer(parameters, { context, nowNs, categorize }) {
        const query = requiredQuery(parameters);
        const span = readTimeRange(parameters, nowNs);
        if (textOf(parameters, "interval") !== undefined && parameters["interval"] !== "0")
          throw createParameterError("interval", "is not supported: leave it out");
        if (query.kind === "log") return await answerLogs(context, { query, span, ...readLimitAndDirection(parameters), categorize });
        return await answerMetrics(context, { query, steps: readSteps(parameters, span), isInstant: false });
      },
    },
    labels: {
      summary: "names of stream labels",
      parameters: SELECTION,
      answer: async (parameters, { context, nowNs }) => await labelNames(context, readSelection(parameters, nowNs)),
    },
    "label/:name/values": {
      summary: "values of a label",
      parameters: SELECTION,
      answer: async (parameters, { context, nowNs, name }) =>
        await labelValues(context, readSelection(parameters, nowNs), checkLabelName(name)),
    },
    series: {
      summary: "streams by their labels",
      parameters: { ...TIME_RANGE, "match[]": { type: "array", items: SELECTOR } },
      async answer(parameters, { context, nowNs }) {
        const span = readTimeRange(parameters, nowNs);
        const texts = [parameters["match[]"] ?? [], parameters["match"] ?? []].flat();
        const regularExpressions = new Patterns();
        const selectors = texts.map((selector) => readSelectorAlone("match[]", selector, regularExpressions));
        return await seriesOf(context, { span, selectors });
      },
    },
    detected_labels: {
      summary: "stream labels, and how many values they have",
      parameters: SELECTION,
      answer: async (parameters, { context, nowNs }) => await detectedLabels(context, readSelection(parameters, nowNs)),
    },
    "index/stats": {
      summary: "number of streams, records and bytes that a selector matches",
      parameters: SELECTION,
      answer: async (parameters, { context, nowNs }) => await statistics(context, readSelection(parameters, nowNs)),
    },
    "index/volume": {
      summary: "bytes per label set, or per label name",
      parameters: VOLUMES,
      async answer(parameters, { context, nowNs }) {
        const { perLabelName, ...request } = readVolumeRequest(parameters, nowNs);
        return await (perLabelName ? volumePerLabelName : volume)(context, request);
      },
    },
    "index/volume_range": {
      summary: "bytes per label set over time",
      parameters: { ...VOLUMES, aggregateBy: textSchema("only series"), step: STEP },
      async answer(parameters, { context, nowNs }) {
        const { perLabelName, ...request } = readVolumeRequest(parameters, nowNs);
        if (perLabelName) throw createParameterError("aggregateBy", "only series is supported in a range");
        return await volumeRange(context, request, readSteps(parameters, request.span));
      },
    },
    patterns: {
      summary: "patterns of lines with counts over time",
      parameters: { ...TIME_RANGE, query: QUERY, step: STEP },
      async answer(parameters, { context, nowNs }) {
        const query = requiredLogs(parameters);
        const span = readTimeRange(parameters, nowNs);
        return await patterns(context, { query, span, stepNs: readSteps(parameters, span).step });
      },
    },
    detected_fields: {
      summary: "fields of the newest records",
      parameters: FIELDS,
      answer: async (parameters, { context, nowNs }) => await detectedFields(context, readFieldsRequest(parameters, nowNs)),
    },
    "detected_field/:name/values": {
      summary: "values of a field of the newest records",
      parameters: FIELDS,
      answer: async (parameters, { context, nowNs, name }) =>
        await detectedFields(context, { ...readFieldsRequest(parameters, nowNs), name: checkLabelName(name) }),
    },
    format_query: {
      summary: "the formatted query",
      parameters: { query: QUERY },
      async answer(parameters) {
        return await Promise.resolve(dataOf(formatQuery(requiredText(parameters))));
      },
    },
  }),
);

function requiredText(parameters: RequestParameters): string {
  const query = textOf(parameters, "query");
  if (query === undefined) throw wrongQuery("a LogQL query is required");
  return query;
}

function requiredQuery(parameters: RequestParameters): Query {
  return readQuery(requiredText(parameters));
}

export function requiredLogs(parameters: RequestParameters): LogQuery {
  const query = requiredQuery(parameters);
  if (query.kind !== "log") throw wrongQuery("must be a log query, not a metric query");
  return query;
}

function readSelection(parameters: RequestParameters, nowNs: bigint): Selected {
  const span = readTimeRange(parameters, nowNs);
  const query = textOf(parameters, "query");
  // Grafana's query builder sends `{}` before the user has selected a label.
  return { span, selectors: query === undefined || query === "{}" ? [] : [readSelectorAlone("query", query)] };
}

function readVolumeRequest(parameters: RequestParameters, nowNs: bigint) {
  const aggregateBy = textOf(parameters, "aggregateBy") ?? "series";
  if (aggregateBy !== "series" && aggregateBy !== "labels") throw createParameterError("aggregateBy", "must be series or labels");
  const labels = (textOf(parameters, "targetLabels") ?? "").split(",").filter(Boolean);
  if (!labels.every((label) => LABEL_NAME.test(label)) || labels.length > 20)
    throw createParameterError("targetLabels", "must be at most 20 label names");
  const limit = readLimit(parameters, "limit", 100, MAX_VOLUMES);
  return { ...readSelection(parameters, nowNs), limit, labels, perLabelName: aggregateBy === "labels" };
}

function readFieldsRequest(parameters: RequestParameters, nowNs: bigint) {
  return {
    query: requiredLogs(parameters),
    span: readTimeRange(parameters, nowNs),
    lineLimit: readLimit(parameters, "line_limit", 1000, 5000),
    limit: readLimit(parameters, "limit", 1000, 5000),
  };
}

const LABEL_NAME = /^[a-zA-Z_]\w{0,255}$/;

function checkLabelName(name = ""): string {
  if (!LABEL_NAME.test(name)) throw createParameterError("name", "must be a label name");
  return name;
}
