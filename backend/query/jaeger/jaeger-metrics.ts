// Serves Jaeger's metrics of services under /query/jaeger/api/metrics, which its page "Monitor" shows: rate, errors and latency from the
// span summaries. Invariant: each response contains only data of the caller's organisation, and an error names the invalid parameter.
import { createParameterError } from "../../errors.ts";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { addRoutes, endpoint } from "../../http/route.ts";
import type { FamilyFilter, FamilyQuestion } from "../../storage/traces/metric-family.ts";
import { KINDS, MINUTE_S } from "../../storage/traces/red.ts";
import { answerJson } from "../page-route.ts";
import type { TraceRouteOptions } from "../route-parts.ts";
import { milliseconds } from "./jaeger-parameters.ts";
import { objectSchema } from "../../http/schemas.ts";

type Query = Readonly<Record<string, string | string[] | undefined>>;
type FamilyName = "calls" | "errors" | "latencies";

const HOUR_MS = 3_600_000;
/** Values of one series. */
const MAX_POINTS = 1500;
const MINUTE_MS = MINUTE_S * 1000;

const text = (description: string) => ({ type: "string", description });
const texts = (description: string) => ({ type: "array", items: { type: "string" }, description });
const PARAMETERS = {
  service: texts("required; service.name of the senders"),
  spanKind: texts("server, client, producer, consumer, internal or unspecified; repeatable; default server"),
  groupByOperation: { type: "boolean", description: "true: a series for each operation" },
  endTs: text("milliseconds since 1970; default now"),
  lookback: text("milliseconds before endTs; default one hour"),
  step: text(
    `milliseconds; at least, and by default, a minute; rounded to whole minutes, and longer if there were more than ${MAX_POINTS} points`,
  ),
  ratePer: text("ignored: a point covers its own step"),
};
const QUANTILE = text("above 0, at most 1; required");

/** Names and descriptions that Jaeger uses for its metrics. */
const FAMILIES: Readonly<Record<FamilyName, { name: string; help: (quantile: string) => string; summary: string }>> = {
  calls: { name: "call_rate", help: () => "calls/sec, grouped by service", summary: "calls per second" },
  errors: {
    name: "error_rate",
    help: () => "error rate, computed as a fraction of errors/sec over calls/sec, grouped by service",
    summary: "share of calls that failed",
  },
  latencies: {
    name: "latencies",
    help: (quantile) => `${Number(quantile).toFixed(2)}th quantile latency, grouped by service`,
    summary: "a quantile of the durations in milliseconds",
  },
};

const METRICS = objectSchema({
  name: { type: "string" },
  type: { type: "string", const: "GAUGE" },
  help: { type: "string" },
  metrics: { type: "array", items: { type: "object", additionalProperties: true } },
});

export function registerJaegerMetrics(app: FastifyInstance, { store, answers, guards, now = () => new Date() }: TraceRouteOptions): void {
  const routes = (Object.keys(FAMILIES) as FamilyName[]).map((name) => ({
    ...endpoint("GET", `/query/jaeger/api/metrics/${name}`, "reader", "jaeger"),
    limited: "filtered" as const,
    summary: `Jaeger's HTTP API: ${FAMILIES[name].summary}, by service or operation`,
    description: "Covers whole minutes, without the one that endTs is in.",
    documented: {
      query: { type: "object", properties: { ...PARAMETERS, ...(name === "latencies" && { quantile: QUANTILE }) } },
      response: { 200: METRICS },
    },
    handler: (request: FastifyRequest<{ Querystring: Query }>, reply: FastifyReply) => {
      const filter = readFilter(name, request.query, now().getTime());
      const head = describeFamily(name, filter, String(request.query["quantile"]));
      return answerJson(request, reply, {
        answers,
        ask: async (orgId, options) => [head, await store.metricFamily(orgId, filter, options), Buffer.from("}")],
      });
    },
  }));
  addRoutes(app, guards, routes);
}

function describeFamily(name: FamilyName, { isByOperation }: FamilyFilter, quantile: string): Buffer {
  const family = FAMILIES[name];
  const [prefix, suffix] = isByOperation ? ["service_operation", " & operation"] : ["service", ""];
  const described = { name: `${prefix}_${family.name}`, type: "GAUGE", help: `${family.help(quantile)}${suffix}` };
  return Buffer.from(`${JSON.stringify(described).slice(0, -1)},"metrics":`);
}

function readFilter(name: FamilyName, query: Query, nowMs: number): FamilyFilter {
  const services = [query["service"] ?? []].flat();
  if (services.length === 0) throw createParameterError("service", "is required");
  const endMs = milliseconds("endTs", single(query, "endTs")) ?? nowMs;
  const startMs = Math.max(0, endMs - (milliseconds("lookback", single(query, "lookback")) ?? HOUR_MS));
  const [startS, lastS] = [startMs, endMs].map((ms) => Math.floor(ms / MINUTE_MS) * MINUTE_S) as [number, number];
  const endS = Math.max(lastS, startS + MINUTE_S);
  const stepMs = Math.max(MINUTE_MS, milliseconds("step", single(query, "step")) ?? MINUTE_MS);
  return {
    startS,
    endS,
    services,
    kinds: readKinds(query["spanKind"]),
    isByOperation: readBoolean("groupByOperation", single(query, "groupByOperation")),
    points: Math.min(MAX_POINTS, Math.ceil(((endS - startS) * 1000) / stepMs)),
    question: name === "latencies" ? readQuantile(single(query, "quantile")) : name,
  };
}

function single(query: Query, name: string): string | undefined {
  const value = query[name];
  if (Array.isArray(value)) throw createParameterError(name, "is given more than once");
  return value;
}

function readKinds(value: string | string[] | undefined): string[] {
  const kinds = [value ?? "server"].flat().map((kind) => kind.toLowerCase());
  const unknown = kinds.find((kind) => kind !== "unspecified" && !(KINDS as readonly string[]).includes(kind));
  if (unknown !== undefined) throw createParameterError("spanKind", `must be ${KINDS.join(", ")} or unspecified`);
  return kinds.flatMap((kind) => (kind === "unspecified" ? ["", "UNSPECIFIED"] : [kind.toUpperCase()]));
}

function readBoolean(name: string, value: string | undefined): boolean {
  if (value !== undefined && !/^(?:1|0|t|f|true|false|)$/i.test(value)) throw createParameterError(name, "must be true or false");
  return /^(?:1|t|true)$/i.test(value ?? "");
}

function readQuantile(value: string | undefined): FamilyQuestion {
  const quantile = Number(value);
  if (!/^\d*\.?\d{1,15}$/.test(value ?? "") || !(quantile > 0 && quantile <= 1))
    throw createParameterError("quantile", "must be above 0 and at most 1");
  return { quantile };
}
