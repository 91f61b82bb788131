// Loki's HTTP API under /query/loki, as far as Grafana's Loki data source asks it (docs/contract.md, "Query"). Invariant: each answer is of
// the caller's organisation; a query that is not answered exactly is refused by the name of what is not supported.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { QueryOptions } from "../admission/in-turn.ts";
import type { Guards } from "../auth/request-identity.ts";
import type { Answers } from "../http/answers.ts";
import { READERS } from "../http/openapi.ts";
import { answerJson } from "../query/page-route.ts";
import { wrongQuery } from "./literals.ts";
import { checkKnown, type Given, readBounds, readSpan, readSteps, readTime, textOf, wrongParameter } from "./parameters.ts";
import type { LokiReader } from "./reader.ts";
import { readQuery, readSelectorAlone } from "./read-query.ts";
import type { LogQuery, Query } from "./syntax.ts";

export interface LokiRouteOptions {
  readonly reader: LokiReader;
  readonly answers: Answers;
  readonly guards: Pick<Guards, "reader">;
  readonly now?: () => Date;
}

export const BASE = "/query/loki/loki/api/v1";

const text = (description: string) => ({ type: "string", description });
const TIME = "nanoseconds or seconds since 1970, or RFC 3339";
const SPAN = {
  start: text(`${TIME}; default one hour before the end`),
  end: text(`${TIME}; default now`),
  since: text("a duration before the end"),
};
const BOUNDS = { limit: text("entries; 100 by default, at most 5000"), direction: text("backward (newest first) or forward") };
const QUERY = text("LogQL");
const SELECTOR = text('a selector, such as {service_name="shop"}');

const ANSWER = {
  description: "as Loki answers",
  type: "object",
  required: ["status"],
  properties: { status: { type: "string", enum: ["success"] }, data: {} },
  additionalProperties: true,
};

export function lokiSchema(summary: string, parameters: Record<string, object>, answer: object = ANSWER) {
  return {
    tags: ["loki"],
    security: READERS,
    summary: `Loki's HTTP API: ${summary}`,
    described: { querystring: { type: "object", properties: parameters }, response: { 200: answer } },
  };
}

/** Reads what is given, and answers what asks for it. */
type Endpoint = (given: Given, request: FastifyRequest) => (orgId: string, asked: QueryOptions) => Promise<Buffer>;
type Get = (path: string, summary: string, parameters: Record<string, object>, ask: Endpoint) => void;

export function registerLokiRoutes(app: FastifyInstance, options: LokiRouteOptions): void {
  const { reader, answers, guards, now = () => new Date() } = options;
  const onRequest = guards.reader();
  const get: Get = (path, summary, parameters, ask) => {
    const schema = lokiSchema(summary, parameters);
    app.get(`${BASE}/${path}`, { onRequest, schema }, async (request: FastifyRequest, reply: FastifyReply) => {
      const given = request.query as Given;
      checkKnown(given, Object.keys(parameters), path === "series" ? ["match[]", "match"] : []);
      const work = ask(given, request);
      return answerJson(request, reply, { answers, ask: async (...asked) => [await work(...asked)] });
    });
  };
  const nowNs = (): bigint => BigInt(now().getTime()) * 1_000_000n;
  addQueries(get, reader, nowNs);
  addLabels(get, reader, nowNs);
}

function addQueries(get: Get, reader: LokiReader, nowNs: () => bigint): void {
  get("query", "a query of metrics at one moment", { query: QUERY, time: text(`${TIME}; default now`), ...BOUNDS }, (given) => {
    const query = requiredQuery(given);
    if (query.kind === "log")
      throw wrongQuery("log queries are not supported as an instant query type, please change your query to a range query type");
    const time = textOf(given, "time");
    const steps = { start: time === undefined ? nowNs() : readTime("time", time), step: 1n, count: 1 };
    return (orgId, asked) => reader.metrics(orgId, { query, steps, isInstant: true }, asked);
  });

  get(
    "query_range",
    "a query over a range",
    { query: QUERY, ...SPAN, step: text("a duration, or seconds"), ...BOUNDS, interval: text("not supported") },
    (given, request) => {
      const query = requiredQuery(given);
      const span = readSpan(given, nowNs());
      if (textOf(given, "interval") !== undefined && given["interval"] !== "0")
        throw wrongParameter("interval", "is not supported: leave it out");
      if (query.kind !== "log") {
        const steps = readSteps(given, span);
        return (orgId, asked) => reader.metrics(orgId, { query, steps, isInstant: false }, asked);
      }
      const bounds = readBounds(given);
      return (orgId, asked) => reader.logs(orgId, query, { span, ...bounds, categorize: wantsCategories(request) }, asked);
    },
  );
}

function addLabels(get: Get, reader: LokiReader, nowNs: () => bigint): void {
  get("labels", "names of labels of streams", { ...SPAN, query: SELECTOR }, (given) => {
    const [span, selector] = [readSpan(given, nowNs()), optionalSelector(given)];
    return (orgId, asked) => reader.labelNames(orgId, { span, selectors: selector }, asked);
  });

  get("label/:name/values", "values of a label", { ...SPAN, query: SELECTOR }, (given, request) => {
    const [span, selector] = [readSpan(given, nowNs()), optionalSelector(given)];
    const { name } = request.params as { name: string };
    if (!/^[a-zA-Z_]\w{0,255}$/.test(name)) throw wrongParameter("name", "must be the name of a label");
    return (orgId, asked) => reader.labelValues(orgId, name, { span, selectors: selector }, asked);
  });

  get("series", "streams by their labels", { ...SPAN, "match[]": { type: "array", items: SELECTOR } }, (given) => {
    const texts = [given["match[]"] ?? [], given["match"] ?? []].flat();
    const [span, selectors] = [readSpan(given, nowNs()), texts.map((one) => readSelectorAlone("match[]", one))];
    return (orgId, asked) => reader.series(orgId, { span, selectors }, asked);
  });
}

function requiredQuery(given: Given): Query {
  const query = textOf(given, "query");
  if (query === undefined) throw wrongQuery("required: LogQL");
  return readQuery(query);
}

function optionalSelector(given: Given): LogQuery[] {
  const query = textOf(given, "query");
  // What an editor sends before anything is chosen.
  return query === undefined || query === "{}" ? [] : [readSelectorAlone("query", query)];
}

function wantsCategories(request: FastifyRequest): boolean {
  return String(request.headers["x-loki-response-encoding-flags"] ?? "")
    .split(",")
    .some((flag) => flag.trim() === "categorize-labels");
}
