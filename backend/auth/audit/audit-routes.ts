// GET /api/audit: who changed what. Invariant: administrators see the entries of their own organisation, operators all entries. Only
// operators see the IP address of an operator.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Kysely, Selectable } from "kysely";
import { callerOf, type Guards } from "../../http/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { CURSOR_QUERY, readPage } from "../../http/list-page.ts";
import { listResponse, optionalSchema, parseUuid, TIME_SCHEMA, UUID_SCHEMA } from "../../http/schemas.ts";
import { addRoute, endpoint, type RouteDeclaration } from "../../http/route.ts";
import type { AuditTable, AuditTables } from "./trail.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

export interface AuditRoutesOptions {
  readonly db: Kysely<AuditTables>;
  readonly guards: Pick<Guards, "user">;
  readonly pageRows?: number;
}

const TEXT_OR_NULL = { type: ["string", "null"] } as const;
const declaration = {
  ...endpoint("GET", "/api/audit", "admin", "accounts"),
  summary: "Audit log entries, newest first",
  description:
    "Entries of your organisation; operators see all. Entries are kept for 90 days, of an organisation about the newest 200,000. Pages have 500 entries; the Link header points to the next page.",
  query: optionalSchema({
    ...CURSOR_QUERY.properties,
    org_id: { ...UUID_SCHEMA, description: "only this organisation; other organisations require the role operator" },
    action: { type: "string", maxLength: 100, pattern: "^[a-z_.]*$", description: "such as login, user.create or key.revoke" },
  }),
  response: listResponse({
    id: UUID_SCHEMA,
    at: TIME_SCHEMA,
    action: { type: "string" },
    org_id: TEXT_OR_NULL,
    actor: { ...TEXT_OR_NULL, description: "the e-mail address of the user; null for a key or an unauthenticated client" },
    actor_id: { ...TEXT_OR_NULL, description: "the id of the user or key" },
    address: TEXT_OR_NULL,
    request_id: { type: "string" },
    subject: { type: "object", additionalProperties: true },
  }),
} as const satisfies RouteDeclaration;

interface Query {
  Querystring: { cursor?: string; org_id?: string; action?: string };
}

export function registerAuditRoutes(app: FastifyInstance, { db, guards, pageRows }: AuditRoutesOptions): void {
  addRoute(app, guards, {
    ...declaration,
    handler: async (request: FastifyRequest<Query>, reply: FastifyReply) => {
      const { orgId, role } = callerOf(request);
      const { action } = request.query;
      const wantedOrgId = request.query.org_id === undefined ? undefined : parseUuid(request.query.org_id);
      const isOperator = role === "operator";
      if (wantedOrgId !== undefined && wantedOrgId !== orgId && !isOperator)
        throw new ApiError("forbidden", "org_id: entries of other organisations require the role operator");
      const onlyOrgId = wantedOrgId ?? (isOperator ? undefined : orgId);
      let query = (onlyOrgId === undefined ? db : tenantDatabase(db, onlyOrgId)).selectFrom("audit_log").selectAll();
      if (onlyOrgId !== undefined) query = query.where("org_id", "=", onlyOrgId);
      if (action !== undefined) query = query.where("action", "=", action);
      const parameters = { action, org_id: wantedOrgId };
      const page = await readPage(request, reply, query, { sortedBy: "at", order: "desc", limit: pageRows, parameters });
      return page.map((row) => describeEntry(row, isOperator));
    },
  });
}

function describeEntry({ at, actor_org_id, address, ...row }: Selectable<AuditTable>, isOperator: boolean) {
  const { id, action, org_id, actor, actor_id, request_id, subject } = row;
  const showsAddress = isOperator || actor_org_id === null || actor_org_id === org_id;
  return { id, at: at.toISOString(), action, org_id, actor, actor_id, address: (showsAddress && address) || null, request_id, subject };
}
