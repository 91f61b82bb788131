// Administration across organisations, for operators: find and remove an account by its e-mail address, and add an administrator to an
// organisation that has lost its passwords. Invariant: every change is audited with the organisation that was changed. The last administrator
// of an organisation and the last operator cannot be removed.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../../errors.ts";
import { audit } from "../../auth/audit-log.ts";
import { closedSchema, ID_PARAMS, NO_CONTENT, objectSchema, parseUuid, UUID_SCHEMA } from "../../http/schemas.ts";
import { addHandlers, endpoint } from "../../http/route.ts";
import { hashPassword, PASSWORD_SCHEMA } from "../../auth/sessions/password.ts";
import type { AccountDeps } from "../../auth/sessions/login.ts";
import {
  EMAIL_SCHEMA,
  findUserByEmail,
  insertUser,
  lockOperators,
  requireFreeEmail,
  requireOtherAdmins,
} from "../../auth/sessions/account-tables.ts";
import { requireOrg } from "./orgs.ts";
import { describeUser, USER_SCHEMA } from "./users.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

const account = objectSchema([...USER_SCHEMA.required, "org_id"], { ...USER_SCHEMA.properties, org_id: UUID_SCHEMA });

const ROUTES = {
  addAdmin: {
    ...endpoint("POST", "/api/orgs/:id/admins", "operator", "accounts"),
    summary: "Add an administrator to any organisation",
    params: ID_PARAMS,
    body: closedSchema({ email: EMAIL_SCHEMA, password: PASSWORD_SCHEMA }),
    response: { 201: USER_SCHEMA },
  },
  find: {
    ...endpoint("GET", "/api/accounts", "operator", "accounts"),
    summary: "Find the account with this e-mail address in any organisation",
    query: objectSchema({ email: { type: "string", maxLength: 254 } }),
    response: { 200: { type: "array", items: account } },
  },
  remove: {
    ...endpoint("DELETE", "/api/accounts/:id", "operator", "accounts"),
    summary: "Remove an account of any organisation; all replicas normally refuse its sessions within 5 seconds",
    params: ID_PARAMS,
    response: NO_CONTENT,
  },
};

export function registerAccountAdministration(app: FastifyInstance, deps: AccountDeps): void {
  const { db, guards, sessions, hashQueue, now = Date.now } = deps;
  addHandlers(app, guards, ROUTES, {
    addAdmin: async (request: FastifyRequest<{ Body: { email: string; password: string } }>, reply: FastifyReply) => {
      const { email, password } = request.body;
      const orgId = await requireOrg(db, request);
      await requireFreeEmail(db, email);
      const passwordHash = await hashQueue.run(request, reply, () => hashPassword(password));
      const row = { org_id: orgId, email, role: "admin" as const, password_hash: passwordHash };
      const created = await insertUser(tenantDatabase(db, orgId), row, new Date(now()));
      audit(request, "org.add_admin", { to_org_id: orgId, user_id: created.id, email: created.email }, orgId);
      return await reply.code(201).send(describeUser(created));
    },
    find: async (request: FastifyRequest<{ Querystring: { email: string } }>) => {
      const found = await findUserByEmail(db, request.query.email);
      return found ? [{ ...describeUser(found), org_id: found.org_id }] : [];
    },
    remove: async (request: FastifyRequest<{ Params: { id: string } }>, reply: FastifyReply) => {
      const id = parseUuid(request.params.id);
      if (id === undefined) throw accountNotFound();
      const removed = await db.transaction().execute(async (trx) => {
        await lockOperators(trx);
        const found = await trx.selectFrom("users").selectAll().where("id", "=", id).executeTakeFirst();
        if (!found) throw accountNotFound();
        const tenantDb = tenantDatabase(trx, found.org_id);
        await tenantDb.selectFrom("orgs").select("id").where("id", "=", found.org_id).forUpdate().execute();
        const locked = await tenantDb.selectFrom("users").selectAll().where("id", "=", id).forUpdate().executeTakeFirst();
        if (!locked) throw accountNotFound();
        await requireOtherAdmins(trx, locked);
        await tenantDb.deleteFrom("users").where("id", "=", id).execute();
        return locked;
      });
      sessions.forget(removed.id);
      audit(request, "account.delete", { of_org_id: removed.org_id, user_id: removed.id, email: removed.email }, removed.org_id);
      return await reply.code(204).send();
    },
  });
}

function accountNotFound(): ApiError {
  return new ApiError("not_found", "account not found");
}
