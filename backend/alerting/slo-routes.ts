// Routes that list and change service level objectives. Invariants: the organisation is that of the session or the read token; a change is
// answered once the objective and its rules are stored, whether or not the evaluator is available.
import type { FastifyReply, FastifyRequest } from "fastify";
import { audit } from "../auth/audit-log.ts";
import { callerOf, readerOf } from "../http/request-identity.ts";
import { goneSignal } from "../http/http-client.ts";
import { bindHandlers, endpoint, type Route, type RouteDeclaration } from "../http/route.ts";
import { NO_CONTENT, readId } from "../http/schemas.ts";
import type { RuleCheck } from "./rule-check.ts";
import { SLO_BODY_SCHEMA, SLO_SCHEMA, type SloBody, sloObject } from "./slo.ts";
import type { SloTable } from "./slo-table.ts";

export interface SloRoutesOptions {
  readonly slos: SloTable;
  readonly check: Pick<RuleCheck, "checkSlo">;
  /** Called after each stored change. */
  readonly changed: () => void;
}

const ROUTES = {
  list: {
    ...endpoint("GET", "/slos", "reader", "alerting"),
    summary: "The service level objectives of the organisation, by name",
    documented: { response: { 200: { type: "array", items: SLO_SCHEMA } } },
  },
  create: {
    ...endpoint("POST", "/slos", "admin", "alerting"),
    summary: "Create a service level objective and, unless `alerts` is false, its burn rate rules",
    description: "docs/slo.md describes the fields.",
    errors: ["conflict"],
    body: SLO_BODY_SCHEMA,
    documented: { response: { 201: SLO_SCHEMA } },
  },
  replace: {
    ...endpoint("PUT", "/slos/:id", "admin", "alerting"),
    summary: "Replace a whole service level objective and its rules",
    errors: ["conflict"],
    body: SLO_BODY_SCHEMA,
    documented: { response: { 200: SLO_SCHEMA } },
  },
  remove: {
    ...endpoint("DELETE", "/slos/:id", "admin", "alerting"),
    summary: "Delete a service level objective and its rules",
    documented: { response: NO_CONTENT },
  },
} as const satisfies Record<string, RouteDeclaration>;

/** For remote.ts, which forwards these routes if the service is another process. */
export const SLO_DECLARATIONS: readonly RouteDeclaration[] = Object.values(ROUTES);

type BodyRequest = FastifyRequest<{ Body: SloBody }>;

const NOUN = "service level objective";

export function createSloRoutes({ slos: table, check, changed }: SloRoutesOptions): Route[] {
  const recorded = (request: FastifyRequest, action: string, id: string, name: string): void => {
    changed();
    audit(request, action, { slo_id: id, name });
  };
  return bindHandlers(ROUTES, {
    list: async (request: FastifyRequest) => (await table.list(readerOf(request).orgId)).map(sloObject),
    create: async (request: BodyRequest, reply: FastifyReply) => {
      const { orgId } = callerOf(request);
      await check.checkSlo(orgId, request.body, goneSignal(reply));
      const slo = await table.create(orgId, request.body);
      recorded(request, "slo.create", slo.id, slo.name);
      return await reply.code(201).send(sloObject(slo));
    },
    replace: async (request: BodyRequest, reply: FastifyReply) => {
      const { orgId } = callerOf(request);
      const { id } = await table.find(orgId, readId(request, NOUN));
      await check.checkSlo(orgId, request.body, goneSignal(reply));
      const slo = await table.replace(orgId, id, request.body);
      recorded(request, "slo.update", id, slo.name);
      return sloObject(slo);
    },
    remove: async (request: FastifyRequest, reply: FastifyReply) => {
      const id = readId(request, NOUN);
      recorded(request, "slo.delete", id, await table.delete(callerOf(request).orgId, id));
      return await reply.code(204).send();
    },
  });
}
