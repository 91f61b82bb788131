// Defines the endpoints of Loki's API that return JSON, in the order of their documentation. The backend adds a route for each; a sandbox
// process evaluates them, so this module must not import the HTTP server.
import { MAX_VOLUMES } from "../limits.ts";
import { dataOf } from "./answers.ts";
import { answerLogs, answerMetrics } from "./evaluate.ts";
import { formatQuery } from "./format.ts";
import { wrongQuery } from "./grammar.ts";
import { detectedFields, detectedLabels, labelNames, labelValues, patterns, seriesOf, statistics } from "./label-queries.ts";
import { readBounds, readLimit, readSpan, readSteps, readTime, type RequestParameters, textOf, wrongParameter } from "./parameters.ts";
import type { QueryContext, Selected } from "./range-points.ts";
import { readQuery, readSelectorAlone } from "./read-query.ts";
import { Patterns } from "./regex.ts";
import type { LogQuery, Query } from "./syntax.ts";
import { volume, volumeByName, volumeRange } from "./volumes.ts";

/** The parts of a request other than its parameters. */
export interface EndpointRequest {
  readonly context: QueryContext;
  readonly nowNs: bigint;
  /** The variable part of the path, such as the name of a label. */
  readonly name: string | undefined;
  readonly categorize: boolean;
}

interface Endpoint {
  readonly summary: string;
  readonly parameters: Record<string, object>;
  /** Computes the body of the response. */
  readonly answer: (parameters: RequestParameters, request: EndpointRequest) => Promise<Buffer>;
}

export const text = (description: string) => ({ type: "string", description });
const TIME = "nanoseconds or seconds since 1970, or RFC 3339";
const SPAN = {
  start: text(`${TIME}; default one hour before the end`),
  end: text(`${TIME}; default now`),
  since: text("a duration before the end"),
};
export const QUERY = text("LogQL");
const SELECTOR = text('a selector, such as {service_name="shop"}');
const BOUNDS = { limit: text("entries; 100 by default, at most 5000"), direction: text("backward (newest first) or forward") };
const STEP = text("a duration, or seconds");
const SELECTION = { ...SPAN, query: SELECTOR };
const VOLUMES = {
  ...SELECTION,
  limit: text("100 by default"),
  targetLabels: text("names of labels, separated by commas"),
  aggregateBy: text("labels or series"),
};
const FIELDS = {
  ...SPAN,
  query: QUERY,
  limit: text("maximum number of results; 1000 by default, at most 5000"),
  line_limit: text("records to read; 1000 by default"),
  step: text("ignored"),
};

/** Endpoints by path. */
export const ENDPOINTS: ReadonlyMap<string, Endpoint> = new Map(
  Object.entries<Endpoint>({
    query: {
      summary: "a query of metrics at one moment",
      parameters: { query: QUERY, time: text(`${TIME}; default now`), ...BOUNDS },
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
      parameters: { query: QUERY, ...SPAN, step: STEP, ...BOUNDS, interval: text("not supported") },
      async answer(parameters, { context, nowNs, categorize }) {
        const query = requiredQuery(parameters);
        const span = readSpan(parameters, nowNs);
        if (textOf(parameters, "interval") !== undefined && parameters["interval"] !== "0")
          throw wrongParameter("interval", "is not supported: leave it out");
        if (query.kind === "log") return await answerLogs(context, { query, span, ...readBounds(parameters), categorize });
        return await answerMetrics(context, { query, steps: readSteps(parameters, span), isInstant: false });
      },
    },
    labels: {
      summary: "names of labels of streams",
      parameters: SELECTION,
      answer: async (parameters, { context, nowNs }) => await labelNames(context, readSelection(parameters, nowNs)),
    },
    "label/:name/values": {
      summary: "values of a label",
      parameters: SELECTION,
      answer: async (parameters, { context, nowNs, name }) =>
        await labelValues(context, readSelection(parameters, nowNs), checkedName(name)),
    },
    series: {
      summary: "streams by their labels",
      parameters: { ...SPAN, "match[]": { type: "array", items: SELECTOR } },
      async answer(parameters, { context, nowNs }) {
        const span = readSpan(parameters, nowNs);
        const texts = [parameters["match[]"] ?? [], parameters["match"] ?? []].flat();
        const regularExpressions = new Patterns();
        const selectors = texts.map((selector) => readSelectorAlone("match[]", selector, regularExpressions));
        return await seriesOf(context, { span, selectors });
      },
    },
    detected_labels: {
      summary: "labels of streams, and how many values they have",
      parameters: SELECTION,
      answer: async (parameters, { context, nowNs }) => await detectedLabels(context, readSelection(parameters, nowNs)),
    },
    "index/stats": {
      summary: "how much a selector selects",
      parameters: SELECTION,
      answer: async (parameters, { context, nowNs }) => await statistics(context, readSelection(parameters, nowNs)),
    },
    "index/volume": {
      summary: "bytes by labels",
      parameters: VOLUMES,
      async answer(parameters, { context, nowNs }) {
        const { byName, ...request } = readVolumeRequest(parameters, nowNs);
        return await (byName ? volumeByName : volume)(context, request);
      },
    },
    "index/volume_range": {
      summary: "bytes by labels, in steps",
      parameters: { ...VOLUMES, step: STEP },
      async answer(parameters, { context, nowNs }) {
        const { byName, ...request } = readVolumeRequest(parameters, nowNs);
        if (byName) throw wrongParameter("aggregateBy", "only series is supported in a range");
        return await volumeRange(context, request, readSteps(parameters, request.span));
      },
    },
    patterns: {
      summary: "patterns of lines with counts over time",
      parameters: { ...SPAN, query: QUERY, step: STEP },
      async answer(parameters, { context, nowNs }) {
        const query = requiredLogs(parameters);
        const span = readSpan(parameters, nowNs);
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
        await detectedFields(context, { ...readFieldsRequest(parameters, nowNs), name: checkedName(name) }),
    },
    format_query: {
      summary: "a query, written with one space between its parts",
      parameters: { query: QUERY },
      async answer(parameters) {
        const query = textOf(parameters, "query");
        if (query === undefined) throw wrongQuery("required: LogQL");
        return await Promise.resolve(dataOf(formatQuery(query)));
      },
    },
  }),
);

function requiredQuery(parameters: RequestParameters): Query {
  const query = textOf(parameters, "query");
  if (query === undefined) throw wrongQuery("required: LogQL");
  return readQuery(query);
}

export function requiredLogs(parameters: RequestParameters): LogQuery {
  const query = requiredQuery(parameters);
  if (query.kind !== "log") throw wrongQuery("must be a query of logs, not of metrics");
  return query;
}

function readSelection(parameters: RequestParameters, nowNs: bigint): Selected {
  const span = readSpan(parameters, nowNs);
  const query = textOf(parameters, "query");
  // An editor sends `{}` before anything is selected.
  return { span, selectors: query === undefined || query === "{}" ? [] : [readSelectorAlone("query", query)] };
}

function readVolumeRequest(parameters: RequestParameters, nowNs: bigint) {
  const aggregateBy = textOf(parameters, "aggregateBy") ?? "series";
  if (aggregateBy !== "series" && aggregateBy !== "labels") throw wrongParameter("aggregateBy", "must be series or labels");
  const labels = (textOf(parameters, "targetLabels") ?? "").split(",").filter(Boolean);
  if (!labels.every((label) => LABEL_NAME.test(label)) || labels.length > 20)
    throw wrongParameter("targetLabels", "must be 20 names of labels at most");
  const limit = readLimit(parameters, "limit", 100, MAX_VOLUMES);
  return { ...readSelection(parameters, nowNs), limit, labels, byName: aggregateBy === "labels" };
}

function readFieldsRequest(parameters: RequestParameters, nowNs: bigint) {
  return {
    query: requiredLogs(parameters),
    span: readSpan(parameters, nowNs),
    lineLimit: readLimit(parameters, "line_limit", 1000, 5000),
    limit: readLimit(parameters, "limit", 1000, 5000),
  };
}

const LABEL_NAME = /^[a-zA-Z_]\w{0,255}$/;

function checkedName(name = ""): string {
  if (!LABEL_NAME.test(name)) throw wrongParameter("name", "must be the name of a label");
  return name;
}
