// GET and POST /api/orgs: operators list organisations, and create them with their first administrator.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Kysely } from "kysely";
import { audit } from "../../auth/audit-log.ts";
import { CURSOR_QUERY, type CursorQuery, readPage } from "../../http/list-page.ts";
import { closedSchema, nameSchema, objectSchema, parseUuid, TIME_SCHEMA, UUID_SCHEMA } from "../../http/schemas.ts";
import { addHandlers, endpoint } from "../../http/route.ts";
import { hashPassword, PASSWORD_SCHEMA } from "../../auth/sessions/password.ts";
import type { AccountDeps } from "../../auth/sessions/login.ts";
import {
  type AccountTables,
  EMAIL_SCHEMA,
  insertOrg,
  insertUser,
  requireFreeEmail,
  requireFreeName,
} from "../../auth/sessions/account-tables.ts";
import { MAX_ROWS_PER_ORG } from "../../engines/engine-limits.ts";
import { ApiError } from "../../errors.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

const org = objectSchema(["org_id", "name"], { org_id: UUID_SCHEMA, name: { type: "string" }, created_at: TIME_SCHEMA });

const ROUTES = {
  list: {
    ...endpoint("GET", "/api/orgs", "operator", "accounts"),
    summary: "All organisations, oldest first",
    description: `Pages have ${MAX_ROWS_PER_ORG} entries; the Link header points to the next page.`,
    query: CURSOR_QUERY,
    response: { 200: { type: "array", items: org } },
  },
  create: {
    ...endpoint("POST", "/api/orgs", "operator", "accounts"),
    summary: "Create an organisation with its first administrator",
    body: closedSchema({ name: nameSchema(200), admin: closedSchema({ email: EMAIL_SCHEMA, password: PASSWORD_SCHEMA }) }),
    response: { 201: org },
  },
};

export function registerOrgRoutes(
  app: FastifyInstance,
  { db, guards, hashQueue, now = Date.now, pageRows = MAX_ROWS_PER_ORG }: AccountDeps,
): void {
  addHandlers(app, guards, ROUTES, {
    list: async (request: FastifyRequest<CursorQuery>, reply: FastifyReply) => {
      const page = await readPage(request, reply, db.selectFrom("orgs").selectAll(), { sortedBy: "created_at", limit: pageRows });
      return page.map((row) => ({ org_id: row.id, name: row.name, created_at: row.created_at.toISOString() }));
    },
    create: async (
      request: FastifyRequest<{ Body: { name: string; admin: { email: string; password: string } } }>,
      reply: FastifyReply,
    ) => {
      const { name, admin } = request.body;
      await requireFreeName(db, name);
      await requireFreeEmail(db, admin.email);
      const passwordHash = await hashQueue.run(request, reply, () => hashPassword(admin.password));
      const created = await db.transaction().execute(async (trx) => {
        const row = await insertOrg(trx, name, new Date(now()));
        const user = { org_id: row.id, email: admin.email, password_hash: passwordHash, role: "admin" as const };
        return { row, user: await insertUser(trx, user, new Date(now())) };
      });
      audit(request, "org.create", { created_org_id: created.row.id, name, admin_user_id: created.user.id }, created.row.id);
      return await reply.code(201).send({ org_id: created.row.id, name, created_at: created.row.created_at.toISOString() });
    },
  });
}

/** Returns the id of the organisation in the path. Throws not_found, including for a malformed id. */
export async function requireOrg(db: Kysely<AccountTables>, request: FastifyRequest): Promise<string> {
  const id = parseUuid((request.params as { id: string }).id);
  const row =
    id === undefined ? undefined : await tenantDatabase(db, id).selectFrom("orgs").select("id").where("id", "=", id).executeTakeFirst();
  if (!row) throw new ApiError("not_found", "organisation not found");
  return row.id;
}
