// GET /query/services: which services the caller's organisation has, with their operations and kinds (docs/contract.md, "Query").
import type { FastifyInstance } from "fastify";
import { READERS } from "../../http/openapi.ts";
import { answerJson } from "../page-route.ts";
import type { TraceRouteOptions } from "../trace-route-parts.ts";

const text = { type: "string" } as const;

const SERVICE_SCHEMA = {
  type: "object",
  required: ["service", "operations"],
  properties: {
    service: text,
    operations: {
      type: "array",
      items: {
        type: "object",
        required: ["operation", "kinds"],
        properties: { operation: text, kinds: { type: "array", items: text } },
      },
    },
  },
};

export function registerServicesRoute(app: FastifyInstance, { store, answers, guards }: TraceRouteOptions): void {
  app.get(
    "/query/services",
    {
      onRequest: guards.reader(),
      schema: {
        summary: "Services that have sent spans, with their operations and kinds",
        description: "Those of the retention, by name. At most 1,000 services and 10,000 operations are listed.",
        security: READERS,
        response: { 200: { type: "array", items: SERVICE_SCHEMA } },
      },
    },
    async (request, reply) =>
      answerJson(request, reply, { answers, ask: async (orgId, options) => [await store.services(orgId, options)] }),
  );
}
