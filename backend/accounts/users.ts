// The users of the caller's organisation: list, add, change password or role, remove. Invariant: only an operator grants, changes or
// removes `operator`; the last operator stays; a user of another organisation is 404. Registered by routes.ts.
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Transaction } from "kysely";
import { UNFIT_CHARACTERS } from "../enrolment/schema.ts";
import { ApiError } from "../errors.ts";
import type { Role, SessionUser } from "../request-identity.ts";
import { audit } from "./audit.ts";
import { hashPassword, PASSWORD_SCHEMA } from "./password.ts";
import type { AccountDeps } from "./routes.ts";
import { insertUser, type AccountTables, type UserRow } from "./table.ts";

const EMAIL_PART = `[^\\s@${UNFIT_CHARACTERS}]+`;
export const EMAIL_SCHEMA = { type: "string", maxLength: 254, pattern: `^${EMAIL_PART}@${EMAIL_PART}$` } as const;
const ROLE_SCHEMA = { type: "string", enum: ["viewer", "admin", "operator"] } as const;

const user = {
  type: "object",
  required: ["user_id", "email", "role", "created_at"],
  properties: {
    user_id: { type: "string", format: "uuid" },
    email: { type: "string" },
    role: ROLE_SCHEMA,
    created_at: { type: "string", format: "date-time" },
  },
} as const;

const common = { tags: ["accounts"], security: [{ session: [] }] };
const params = { type: "object", properties: { id: { type: "string" } } } as const;
const nothing = { 204: { type: "null" } } as const;

function bodyOf(required: Record<string, object>) {
  return { type: "object", additionalProperties: false, required: Object.keys(required), properties: required };
}

const schemas = {
  list: { ...common, summary: "The users of your organisation", response: { 200: { type: "array", items: user } } },
  create: {
    ...common,
    summary: "Add a user",
    body: bodyOf({ email: EMAIL_SCHEMA, password: PASSWORD_SCHEMA, role: ROLE_SCHEMA }),
    response: { 201: user },
  },
  password: {
    ...common,
    summary: "Set a password; the user's sessions end",
    params,
    body: bodyOf({ password: PASSWORD_SCHEMA }),
    response: nothing,
  },
  role: {
    ...common,
    summary: "Change a role; in force within 5 seconds",
    params,
    body: bodyOf({ role: ROLE_SCHEMA }),
    response: { 200: user },
  },
  remove: { ...common, summary: "Remove a user; refused within 5 seconds", params, response: nothing },
};

interface ById {
  Params: { id: string };
}

export function registerUserRoutes(app: FastifyInstance, deps: AccountDeps): void {
  const { db, guards, now = Date.now } = deps;
  const admin = guards.user("admin");

  app.get("/api/users", { schema: schemas.list, onRequest: guards.user("viewer") }, async (request) => {
    const rows = await db.selectFrom("users").selectAll().where("org_id", "=", caller(request).orgId).orderBy("email").execute();
    return rows.map(shown);
  });

  app.post<{ Body: { email: string; password: string; role: Role } }>(
    "/api/users",
    { schema: schemas.create, onRequest: admin },
    async (request, reply) => {
      const { email, password, role } = request.body;
      if (role === "operator") requireOperator(caller(request));
      const row = { org_id: caller(request).orgId, email, role, password_hash: await hashPassword(password) };
      const created = await insertUser(db, row, new Date(now()));
      audit(request, "user.create", { user_id: created.id, email: created.email, role });
      return await reply.code(201).send(shown(created));
    },
  );

  app.put<ById & { Body: { password: string } }>(
    "/api/users/:id/password",
    { schema: schemas.password, onRequest: admin },
    async (request, reply) => {
      const passwordHash = await hashPassword(request.body.password);
      const changed = await change(deps, request, (trx, row) =>
        trx
          .updateTable("users")
          .set({ password_hash: passwordHash, session_epoch: row.session_epoch + 1 })
          .where("id", "=", row.id)
          .execute(),
      );
      audit(request, "user.password", { user_id: changed.id });
      return await reply.code(204).send();
    },
  );

  app.put<ById & { Body: { role: Role } }>("/api/users/:id/role", { schema: schemas.role, onRequest: admin }, async (request) => {
    const { role } = request.body;
    if (role === "operator") requireOperator(caller(request));
    const before = await change(deps, request, async (trx, row) => {
      if (row.role === "operator" && role !== "operator") await keepAnOperator(trx);
      await trx.updateTable("users").set({ role }).where("id", "=", row.id).execute();
    });
    audit(request, "user.role", { user_id: before.id, from: before.role, to: role });
    return shown({ ...before, role });
  });

  app.delete<ById>("/api/users/:id", { schema: schemas.remove, onRequest: admin }, async (request, reply) => {
    const removed = await change(deps, request, async (trx, row) => {
      if (row.role === "operator") await keepAnOperator(trx);
      await trx.deleteFrom("users").where("id", "=", row.id).execute();
    });
    audit(request, "user.delete", { user_id: removed.id, email: removed.email });
    return await reply.code(204).send();
  });
}

/** Runs `apply` on the user with this id of the caller's organisation, locked; answers the row as it was. */
async function change(
  { db, sessions }: AccountDeps,
  request: FastifyRequest<ById>,
  apply: (trx: Transaction<AccountTables>, row: UserRow) => Promise<unknown>,
): Promise<UserRow> {
  const { orgId } = caller(request);
  const id = parsedId(request.params.id);
  const row = await db.transaction().execute(async (trx) => {
    // Operators are always locked, in one order: two of them cannot remove each other at once.
    await trx.selectFrom("users").select("id").where("role", "=", "operator").orderBy("id").forUpdate().execute();
    const found = await trx.selectFrom("users").selectAll().where("id", "=", id).where("org_id", "=", orgId).forUpdate().executeTakeFirst();
    if (!found) throw missing();
    if (found.role === "operator") requireOperator(caller(request));
    await apply(trx, found);
    return found;
  });
  sessions.forget(row.id);
  return row;
}

async function keepAnOperator(trx: Transaction<AccountTables>): Promise<void> {
  const operators = await trx.selectFrom("users").select("id").where("role", "=", "operator").execute();
  if (operators.length <= 1) throw new ApiError("conflict", "this is the last operator: make another user operator first");
}

function requireOperator(user: SessionUser): void {
  if (user.role !== "operator") throw new ApiError("forbidden", "only an operator grants, changes or removes the role operator");
}

function caller(request: FastifyRequest): SessionUser {
  if (!request.user) throw new Error("route without a user guard");
  return request.user;
}

function missing(): ApiError {
  return new ApiError("not_found", "there is no such user in your organisation");
}

/** A malformed id is the id of nothing. */
function parsedId(id: string): string {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)) throw missing();
  return id;
}

function shown(row: UserRow) {
  return { user_id: row.id, email: row.email, role: row.role, created_at: row.created_at.toISOString() };
}
