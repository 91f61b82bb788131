// Endpoints that Grafana and other clients of Prometheus request besides queries, answered without the engine. Invariant: each answer is a constant,
// so that it contains no flags, configuration or targets of this server and no data of an organisation.
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Route } from "../../http/route.ts";
import { declareConstant } from "./api-description.ts";

/** Grafana chooses by the version how it asks for label values; from this one on, by `match[]`. The engine names it for the same reason. */
const COMPATIBLE_VERSION = "2.24.0";

/** With the base `/query/prometheus`; the other paths are below `/query/prometheus/api/v1`. */
const ROOT = { path: "/query/prometheus/", data: {}, summary: "the base address, for clients that check the connection there" } as const;
const ANSWERS = [
  {
    path: "status/buildinfo",
    data: { version: COMPATIBLE_VERSION },
    summary: "status/buildinfo, the version of Prometheus whose API this is like",
  },
  { path: "status/config", data: { yaml: "" }, summary: "status/config, always empty" },
  { path: "status/flags", data: {}, summary: "status/flags, always empty" },
  {
    path: "status/runtimeinfo",
    data: { reloadConfigSuccess: true, corruptionCount: 0 },
    summary: "status/runtimeinfo, without the times and settings of the server",
  },
  {
    path: "targets",
    data: { activeTargets: [], droppedTargets: [], droppedTargetCounts: {} },
    summary: "targets, always empty: agents scrape, not this server",
  },
  { path: "targets/metadata", data: [], summary: "targets/metadata, always empty" },
] as const;

/** The base address, status/*, targets and targets/metadata. */
export function createConstantRoutes(): Route[] {
  return [
    { ...declareConstant("", ROOT.summary, ROOT.data), path: ROOT.path, handler: answer(ROOT.data) },
    ...ANSWERS.map(({ path, data, summary }) => ({ ...declareConstant(path, summary, data), handler: answer(data) })),
  ];
}

function answer(data: object): (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply> {
  return async (_request, reply) => await reply.type("application/json").send(JSON.stringify({ status: "success", data }));
}
