// Defines the endpoints of Loki's API that return JSON, in the order of their documentation. The backend adds a route for each; a sandbox
// process evaluates them, so this module must not import the HTTP server.
import type { QueryOptions } from "../../admission/query-queue.ts";
import { MAX_VOLUMES } from "../limits.ts";
import { answerLogs, answerMetrics, type Reading } from "./evaluate.ts";
import { formatQuery } from "./format.ts";
import { wrongQuery } from "./grammar.ts";
import { detectedFields, detectedLabels, patterns, labelNames, labelValues, seriesOf, statistics } from "./label-queries.ts";
import { type RequestParameters, readBounds, readLimit, readSpan, readSteps, readTime, textOf, wrongParameter } from "./parameters.ts";
import { readQuery, readSelectorAlone } from "./read-query.ts";
import { Patterns } from "./regex.ts";
import { volume, volumeByName, volumeRange } from "./volumes.ts";
import type { LogQuery, Query } from "./syntax.ts";

/** The parts of a request other than its parameters. */
export interface Requested {
  readonly engine: Reading;
  readonly nowNs: bigint;
  /** The variable part of the path, such as the name of a label. */
  readonly name: string | undefined;
  readonly categorize: boolean;
}

/** Reads the parameters, and returns a function that computes the result. */
export type Endpoint = (parameters: RequestParameters, requested: Requested) => (orgId: string, options: QueryOptions) => Promise<Buffer>;
export type Add = (path: string, summary: string, parameters: Record<string, object>, endpoint: Endpoint) => void;

export const text = (description: string) => ({ type: "string", description });
export const TIME = "nanoseconds or seconds since 1970, or RFC 3339";
export const SPAN = {
  start: text(`${TIME}; default one hour before the end`),
  end: text(`${TIME}; default now`),
  since: text("a duration before the end"),
};
export const QUERY = text("LogQL");
export const SELECTOR = text('a selector, such as {service_name="shop"}');

export function requiredQuery(parameters: RequestParameters): Query {
  const query = textOf(parameters, "query");
  if (query === undefined) throw wrongQuery("required: LogQL");
  return readQuery(query);
}

export function requiredLogs(parameters: RequestParameters): LogQuery {
  const query = requiredQuery(parameters);
  if (query.kind !== "log") throw wrongQuery("must be a query of logs, not of metrics");
  return query;
}

export function optionalSelector(parameters: RequestParameters): LogQuery[] {
  const query = textOf(parameters, "query");
  // An editor sends this before anything is selected.
  return query === undefined || query === "{}" ? [] : [readSelectorAlone("query", query)];
}

const BOUNDS = { limit: text("entries; 100 by default, at most 5000"), direction: text("backward (newest first) or forward") };

export function addQueries(add: Add): void {
  add(
    "query",
    "a query of metrics at one moment",
    { query: QUERY, time: text(`${TIME}; default now`), ...BOUNDS },
    (parameters, requested) => {
      const { engine, nowNs } = requested;
      const query = requiredQuery(parameters);
      if (query.kind === "log")
        throw wrongQuery("log queries are not supported as an instant query type, please change your query to a range query type");
      const time = textOf(parameters, "time");
      const steps = { start: time === undefined ? nowNs : readTime("time", time), step: 1n, count: 1 };
      return (orgId, asked) => answerMetrics(engine, orgId, { query, steps, isInstant: true }, asked);
    },
  );

  const parameters = { query: QUERY, ...SPAN, step: text("a duration, or seconds"), ...BOUNDS, interval: text("not supported") };
  add("query_range", "a query over a range", parameters, (parameters, { engine, nowNs, categorize }) => {
    const query = requiredQuery(parameters);
    const span = readSpan(parameters, nowNs);
    if (textOf(parameters, "interval") !== undefined && parameters["interval"] !== "0")
      throw wrongParameter("interval", "is not supported: leave it out");
    if (query.kind !== "log") {
      const steps = readSteps(parameters, span);
      return (orgId, asked) => answerMetrics(engine, orgId, { query, steps, isInstant: false }, asked);
    }
    const bounds = readBounds(parameters);
    return (orgId, asked) => answerLogs(engine, orgId, { query, span, ...bounds, categorize }, asked);
  });
}

export function addFormat(add: Add): void {
  add("format_query", "a query, written with one space between its parts", { query: QUERY }, (parameters) => {
    const query = textOf(parameters, "query");
    if (query === undefined) throw wrongQuery("required: LogQL");
    const answer = Buffer.from(JSON.stringify({ status: "success", data: formatQuery(query) }));
    return async () => await Promise.resolve(answer);
  });
}

const LIMITS = {
  limit: text("maximum number of results; 1000 by default, at most 5000"),
  line_limit: text("records to read; 1000 by default"),
};

const selected = (parameters: RequestParameters, nowNs: bigint) => ({
  span: readSpan(parameters, nowNs),
  selectors: optionalSelector(parameters),
});

export function addLabels(add: Add): void {
  add("labels", "names of labels of streams", { ...SPAN, query: SELECTOR }, (parameters, { engine, nowNs }) => {
    const asked = selected(parameters, nowNs);
    return (orgId, options) => labelNames(engine, orgId, asked, options);
  });
  add("label/:name/values", "values of a label", { ...SPAN, query: SELECTOR }, (parameters, { engine, nowNs, name }) => {
    const [asked, label] = [selected(parameters, nowNs), checkedName(name)];
    return (orgId, options) => labelValues(engine, orgId, { name: label, ...asked }, options);
  });
  add("series", "streams by their labels", { ...SPAN, "match[]": { type: "array", items: SELECTOR } }, (parameters, { engine, nowNs }) => {
    const texts = [parameters["match[]"] ?? [], parameters["match"] ?? []].flat();
    const patterns = new Patterns();
    const asked = { span: readSpan(parameters, nowNs), selectors: texts.map((one) => readSelectorAlone("match[]", one, patterns)) };
    return (orgId, options) => seriesOf(engine, orgId, asked, options);
  });
  add(
    "detected_labels",
    "labels of streams, and how many values they have",
    { ...SPAN, query: SELECTOR },
    (parameters, { engine, nowNs }) => {
      const asked = selected(parameters, nowNs);
      return (orgId, options) => detectedLabels(engine, orgId, asked, options);
    },
  );
}

export function addAmounts(add: Add): void {
  add("index/stats", "how much a selector selects", { ...SPAN, query: SELECTOR }, (parameters, { engine, nowNs }) => {
    const asked = { span: readSpan(parameters, nowNs), selectors: optionalSelector(parameters) };
    return (orgId, options) => statistics(engine, orgId, asked, options);
  });
  const parameters = {
    limit: text("100 by default"),
    targetLabels: text("names of labels, separated by commas"),
    aggregateBy: text("labels or series"),
  };
  add("index/volume", "bytes by labels", { ...SPAN, query: SELECTOR, ...parameters }, (parameters, { engine, nowNs }) => {
    const { byName, ...asked } = volumeAsked(parameters, nowNs);
    return (orgId, options) => (byName ? volumeByName : volume)(engine, orgId, asked, options);
  });
  const rangeParameters = { ...SPAN, query: SELECTOR, ...parameters, step: text("a duration, or seconds") };
  add("index/volume_range", "bytes by labels, in steps", rangeParameters, (parameters, { engine, nowNs }) => {
    const { byName, ...asked } = volumeAsked(parameters, nowNs);
    if (byName) throw wrongParameter("aggregateBy", "only series is supported in a range");
    const steps = readSteps(parameters, asked.span);
    return (orgId, options) => volumeRange(engine, orgId, { ...asked, steps }, options);
  });
  const patternParameters = { ...SPAN, query: QUERY, step: text("a duration, or seconds") };
  add("patterns", "patterns of lines with counts over time", patternParameters, (parameters, { engine, nowNs }) => {
    const query = requiredLogs(parameters);
    const span = readSpan(parameters, nowNs);
    const { step } = readSteps(parameters, span);
    return (orgId, options) => patterns(engine, orgId, { query, span, stepNs: step }, options);
  });
}

function volumeAsked(parameters: RequestParameters, nowNs: bigint) {
  const aggregateBy = textOf(parameters, "aggregateBy") ?? "series";
  if (aggregateBy !== "series" && aggregateBy !== "labels") throw wrongParameter("aggregateBy", "must be series or labels");
  const labels = (textOf(parameters, "targetLabels") ?? "").split(",").filter(Boolean);
  if (!labels.every((label) => /^[a-zA-Z_]\w{0,255}$/.test(label)) || labels.length > 20)
    throw wrongParameter("targetLabels", "must be 20 names of labels at most");
  const limit = readLimit(parameters, "limit", 100, MAX_VOLUMES);
  return { ...selected(parameters, nowNs), limit, labels, byName: aggregateBy === "labels" };
}

const fieldsAsked = (parameters: RequestParameters, nowNs: bigint) => ({
  query: requiredLogs(parameters),
  span: readSpan(parameters, nowNs),
  lineLimit: readLimit(parameters, "line_limit", 1000, 5000),
  limit: readLimit(parameters, "limit", 1000, 5000),
});

export function addFields(add: Add): void {
  const parameters = { ...SPAN, query: QUERY, ...LIMITS, step: text("ignored") };
  add("detected_fields", "fields of the newest records", parameters, (parameters, { engine, nowNs }) => {
    const fields = fieldsAsked(parameters, nowNs);
    return (orgId, options) => detectedFields(engine, orgId, fields, options);
  });
  add("detected_field/:name/values", "values of a field of the newest records", parameters, (parameters, { engine, nowNs, name }) => {
    const fields = { ...fieldsAsked(parameters, nowNs), name: checkedName(name) };
    return (orgId, options) => detectedFields(engine, orgId, fields, options);
  });
}

function checkedName(name = ""): string {
  if (!/^[a-zA-Z_]\w{0,255}$/.test(name)) throw wrongParameter("name", "must be the name of a label");
  return name;
}

export interface DescribedEndpoint {
  readonly summary: string;
  readonly parameters: Record<string, object>;
  readonly endpoint: Endpoint;
}

/** Endpoints by path. */
export const ENDPOINTS: ReadonlyMap<string, DescribedEndpoint> = collectEndpoints();

function collectEndpoints(): Map<string, DescribedEndpoint> {
  const endpoints = new Map<string, DescribedEndpoint>();
  const add: Add = (path, summary, parameters, endpoint) => void endpoints.set(path, { summary, parameters, endpoint });
  addQueries(add);
  addLabels(add);
  addAmounts(add);
  addFields(add);
  addFormat(add);
  return endpoints;
}
