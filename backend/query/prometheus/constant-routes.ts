// What Grafana asks besides queries, answered without the engine. Invariant: the answers are constants: the engine's own metadata is that
// of all tenants, whatever label it is asked with, and it keeps no exemplars.
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Route } from "../../http/route.ts";
import { declareConstant } from "./api-description.ts";

/** Grafana chooses by the version how it asks for label values; from this one on, by `match[]`. The engine names it for the same reason. */
const COMPATIBLE_VERSION = "2.24.0";

/** With the base `/query/prometheus`; the other paths are below `/query/prometheus/api/v1`. */
const ROOT = { path: "/query/prometheus/", data: {}, summary: "the base address, for clients that check the connection there" } as const;
const ANSWERS = [
  {
    methods: ["GET"],
    path: "status/buildinfo",
    data: { version: COMPATIBLE_VERSION },
    summary: "status/buildinfo, the version of Prometheus whose API this is like",
  },
  { methods: ["GET"], path: "metadata", data: {}, summary: "metadata, always empty" },
  { methods: ["GET", "POST"], path: "query_exemplars", data: [], summary: "query_exemplars, always empty" },
] as const;

/** The base address, status/buildinfo and metadata (GET), and query_exemplars (GET and POST). */
export function createConstantRoutes(): Route[] {
  return [
    { ...declareConstant("GET", "", ROOT.summary, ROOT.data), path: ROOT.path, handler: answer(ROOT.data) },
    ...ANSWERS.flatMap(({ methods, path, data, summary }) =>
      methods.map((method) => ({ ...declareConstant(method, path, summary, data), handler: answer(data) })),
    ),
  ];
}

function answer(data: object): (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply> {
  return async (_request, reply) => await reply.type("application/json").send(JSON.stringify({ status: "success", data }));
}
