// GET /api/audit: who changed what. Invariant: an administrator sees what was done to the own organisation, an operator everything; where an
// operator acted from is nobody else's to know.
import type { FastifyInstance } from "fastify";
import { type Kysely, type Selectable, sql } from "kysely";
import { callerOf, type Guards } from "../auth/request-identity.ts";
import { ApiError } from "../errors.ts";
import { CURSOR_QUERY, cutPage, PAGE_ROWS, momentIn, readCursor } from "../http/list-page.ts";
import { listOf, TIME_SCHEMA, UUID_SCHEMA, uuidOf } from "../http/schemas.ts";
import type { AuditTable, AuditTables } from "./table.ts";
import { tenantDatabase } from "../engines/relational/tenant-database.ts";

export interface AuditRoutesOptions {
  readonly db: Kysely<AuditTables>;
  readonly guards: Pick<Guards, "user">;
  readonly pageRows?: number;
}

const TEXT_OR_NULL = { type: ["string", "null"] } as const;
const schema = {
  summary: "Who changed what, newest first",
  description:
    "Of your organisation, and of all for an operator. Entries are kept for 90 days, and the newest 200,000 of an organisation. In pages of 500: the header Link names the next one.",
  tags: ["accounts"],
  security: [{ session: [] }],
  querystring: {
    type: "object",
    properties: {
      ...CURSOR_QUERY.properties,
      org_id: { ...UUID_SCHEMA, description: "of this organisation alone; another than your own needs the role operator" },
      action: { type: "string", maxLength: 100, pattern: "^[a-z_.]*$", description: "such as login, user.create or key.revoke" },
    },
  },
  response: listOf({
    id: UUID_SCHEMA,
    at: TIME_SCHEMA,
    action: { type: "string" },
    org_id: TEXT_OR_NULL,
    actor: { ...TEXT_OR_NULL, description: "the e-mail address of who did it; null: a key, or nobody who is logged in" },
    actor_id: { ...TEXT_OR_NULL, description: "the id of that user or key" },
    address: TEXT_OR_NULL,
    request_id: { type: "string" },
    subject: { type: "object", additionalProperties: true },
  }),
};

interface Query {
  Querystring: { cursor?: string; org_id?: string; action?: string };
}

export function registerAuditRoutes(app: FastifyInstance, { db, guards, pageRows = PAGE_ROWS }: AuditRoutesOptions): void {
  app.get<Query>("/api/audit", { schema, onRequest: guards.user("admin") }, async (request, reply) => {
    const { orgId, role } = callerOf(request);
    const { action } = request.query;
    const of = request.query.org_id === undefined ? undefined : uuidOf(request.query.org_id);
    const isOperator = role === "operator";
    if (of !== undefined && of !== orgId && !isOperator)
      throw new ApiError("forbidden", "org_id: another organisation's needs the role operator");
    const [at, id] = readCursor(request, 2) ?? [];
    const only = of ?? (isOperator ? undefined : orgId);
    let query = (only === undefined ? db : tenantDatabase(db, only)).selectFrom("audit_log").selectAll();
    if (only !== undefined) query = query.where("org_id", "=", only);
    if (action !== undefined) query = query.where("action", "=", action);
    if (at !== undefined && id !== undefined) query = query.where(sql<boolean>`(at, id) < (${momentIn(at)}, ${id})`);
    const rows = await query
      .orderBy("at", "desc")
      .orderBy("id", "desc")
      .limit(pageRows + 1)
      .execute();
    const page = cutPage([request, reply], rows, pageRows, (row) => [row.at.toISOString(), row.id], { action, org_id: of });
    return page.map((row) => shown(row, isOperator));
  });
}

function shown({ at, actor_org_id, address, ...row }: Selectable<AuditTable>, isOperator: boolean) {
  const { id, action, org_id, actor, actor_id, request_id, subject } = row;
  const isOwn = isOperator || actor_org_id === null || actor_org_id === org_id;
  return { id, at: at.toISOString(), action, org_id, actor, actor_id, address: isOwn ? address : null, request_id, subject };
}
