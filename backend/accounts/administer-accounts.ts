// What operators may do across organisations: find an account by its address, remove it, add an administrator where nobody is left who
// knows a password. Invariant: every change is an audit line that names the organisation it was done to; an organisation and the
// installation keep their last administrator and operator here too.
import type { FastifyInstance } from "fastify";
import { ApiError } from "../errors.ts";
import { audit } from "../auth/audit-log.ts";
import { ID_PARAMS, NOTHING, UUID_SCHEMA, uuidOf } from "../http/schemas.ts";
import { hashPassword, PASSWORD_SCHEMA } from "./password.ts";
import type { AccountDeps } from "./deps.ts";
import { EMAIL_SCHEMA, findUserByEmail, insertUser, requireFreeEmail } from "./table.ts";
import { keepOthers, lockOperators, shown, USER_SCHEMA } from "./users.ts";
import { tenantDatabase } from "../engines/relational/tenant-database.ts";

const common = { tags: ["accounts"], security: [{ session: [] }] };
const account = {
  type: "object",
  required: [...USER_SCHEMA.required, "org_id"],
  properties: { ...USER_SCHEMA.properties, org_id: UUID_SCHEMA },
} as const;

const schemas = {
  addAdmin: {
    ...common,
    summary: "Add an administrator to any organisation",
    params: ID_PARAMS,
    body: {
      type: "object",
      additionalProperties: false,
      required: ["email", "password"],
      properties: { email: EMAIL_SCHEMA, password: PASSWORD_SCHEMA },
    },
    response: { 201: USER_SCHEMA },
  },
  find: {
    ...common,
    summary: "The account with this e-mail address, in whichever organisation",
    querystring: { type: "object", required: ["email"], properties: { email: { type: "string", maxLength: 254 } } },
    response: { 200: { type: "array", items: account } },
  },
  remove: {
    ...common,
    summary: "Remove an account of any organisation; refused within 5 seconds",
    params: ID_PARAMS,
    response: NOTHING,
  },
};

export function registerAccountAdministration(app: FastifyInstance, deps: AccountDeps): void {
  const { db, sessions, hashTurns, now = Date.now } = deps;
  const onRequest = deps.guards.user("operator");

  app.post<{ Params: { id: string }; Body: { email: string; password: string } }>(
    "/api/orgs/:id/admins",
    { schema: schemas.addAdmin, onRequest },
    async (request, reply) => {
      const { email, password } = request.body;
      const org = await db.selectFrom("orgs").selectAll().where("id", "=", idOf(request.params.id, "organisation")).executeTakeFirst();
      if (!org) throw missing("organisation");
      await requireFreeEmail(db, email);
      const passwordHash = await hashTurns.run(request, reply, () => hashPassword(password));
      const row = { org_id: org.id, email, role: "admin" as const, password_hash: passwordHash };
      const created = await insertUser(tenantDatabase(db, org.id), row, new Date(now()));
      audit(request, "org.add_admin", { to_org_id: org.id, user_id: created.id, email: created.email }, org.id);
      return await reply.code(201).send(shown(created));
    },
  );

  app.get<{ Querystring: { email: string } }>("/api/accounts", { schema: schemas.find, onRequest }, async (request) => {
    const found = await findUserByEmail(db, request.query.email);
    return found ? [{ ...shown(found), org_id: found.org_id }] : [];
  });

  app.delete<{ Params: { id: string } }>("/api/accounts/:id", { schema: schemas.remove, onRequest }, async (request, reply) => {
    const id = idOf(request.params.id, "account");
    const removed = await db.transaction().execute(async (trx) => {
      await lockOperators(trx);
      const found = await trx.selectFrom("users").selectAll().where("id", "=", id).executeTakeFirst();
      if (!found) throw missing("account");
      const own = tenantDatabase(trx, found.org_id);
      await own.selectFrom("orgs").select("id").where("id", "=", found.org_id).forUpdate().execute();
      const locked = await own.selectFrom("users").selectAll().where("id", "=", id).forUpdate().executeTakeFirst();
      if (!locked) throw missing("account");
      await keepOthers(trx, locked);
      await own.deleteFrom("users").where("id", "=", id).execute();
      return locked;
    });
    sessions.forget(removed.id);
    audit(request, "account.delete", { of_org_id: removed.org_id, user_id: removed.id, email: removed.email }, removed.org_id);
    return await reply.code(204).send();
  });
}

/** A malformed id is the id of nothing. */
function idOf(id: string, what: string): string {
  const uuid = uuidOf(id);
  if (uuid === undefined) throw missing(what);
  return uuid;
}

function missing(what: string): ApiError {
  return new ApiError("not_found", `there is no such ${what}`);
}
