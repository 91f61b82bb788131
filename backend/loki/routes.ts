// Loki's HTTP API under /query/loki, as far as Grafana's Loki data source asks it (docs/contract.md, "Query"). Invariant: each answer is of
// the caller's organisation; a query that is not answered exactly is refused by the name of what is not supported.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { answerJson } from "../query/page-route.ts";
import { addAmounts, addFields, addLabels } from "./label-routes.ts";
import { wrongQuery } from "./literals.ts";
import { checkKnown, type Given, readBounds, readSpan, readSteps, readTime, textOf, wrongParameter } from "./parameters.ts";
import type { LokiReader } from "./reader.ts";
import { BASE, type Get, type LokiRouteOptions, lokiSchema, QUERY, requiredQuery, SPAN, text, TIME } from "./route-parts.ts";
import { registerTail } from "./tail-route.ts";

const BOUNDS = { limit: text("entries; 100 by default, at most 5000"), direction: text("backward (newest first) or forward") };

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
  addAmounts(get, reader, nowNs);
  addFields(get, reader, nowNs);
  registerTail(app, options);
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

  const parameters = { query: QUERY, ...SPAN, step: text("a duration, or seconds"), ...BOUNDS, interval: text("not supported") };
  get("query_range", "a query over a range", parameters, (given, request) => {
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
  });
}

function wantsCategories(request: FastifyRequest): boolean {
  return String(request.headers["x-loki-response-encoding-flags"] ?? "")
    .split(",")
    .some((flag) => flag.trim() === "categorize-labels");
}
