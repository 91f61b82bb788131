// Loki's HTTP API under /query/loki, as far as Grafana's Loki data source asks it (docs/contract.md, "Query"). Invariant: each answer is of
// the caller's organisation; a query that is not answered exactly is refused by the name of what is not supported; queries are parsed and
// evaluated in the sandbox, never here.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { answerJson } from "../page-route.ts";
import { ENDPOINTS } from "./endpoints.ts";
import type { EndpointJob } from "./jobs.ts";
import { checkRepeated, type Given } from "./parameters.ts";
import { BASE, type LokiRouteOptions, lokiSchema } from "./route-parts.ts";
import { registerTail } from "./tail-route.ts";

export function registerLokiRoutes(app: FastifyInstance, options: LokiRouteOptions): void {
  const { sandbox, answers, guards, bounds, now = () => new Date() } = options;
  const onRequest = guards.reader();
  for (const [path, { summary, parameters }] of ENDPOINTS) {
    const schema = lokiSchema(summary, parameters);
    const single = Object.keys(parameters).filter((name) => name !== "match[]");
    app.get(`${BASE}/${path}`, { onRequest, schema }, async (request: FastifyRequest, reply: FastifyReply) => {
      const given = request.query as Given;
      checkRepeated(given, single);
      const job: EndpointJob = {
        kind: "endpoint",
        path,
        given: { ...given },
        name: (request.params as { name?: string }).name,
        categorize: wantsCategories(request),
        nowNs: BigInt(now().getTime()) * 1_000_000n,
        bounds,
      };
      return answerJson(request, reply, { answers, ask: async (orgId, asked) => [await sandbox.run(orgId, job, asked)] });
    });
  }
  registerTail(app, options);
}

function wantsCategories(request: FastifyRequest): boolean {
  return String(request.headers["x-loki-response-encoding-flags"] ?? "")
    .split(",")
    .some((flag) => flag.trim() === "categorize-labels");
}
