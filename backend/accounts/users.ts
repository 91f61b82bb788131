// The users of the caller's organisation: list, add, change password or role, remove. Invariant: only an operator grants, changes or
// removes `operator`; the last operator stays, and so does the last who administers an organisation; a user of another one is 404.
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Transaction } from "kysely";
import { ApiError } from "../errors.ts";
import { callerOf, type Role, type SessionUser } from "../auth/request-identity.ts";
import { audit } from "../auth/audit-log.ts";
import { idOf, ID_PARAMS, missing, NOTHING, objectOf, TIME_SCHEMA, UUID_SCHEMA } from "../http/schemas.ts";
import { hashPassword, PASSWORD_SCHEMA } from "./password.ts";
import { type Counting, requireRoom } from "./room.ts";
import type { AccountDeps } from "./deps.ts";
import { EMAIL_SCHEMA, insertUser, requireFreeEmail, type AccountDb, type AccountTables, type UserRow } from "./table.ts";
import { tenantDatabase } from "../engines/relational/tenant-database.ts";

const ROLE_SCHEMA = { type: "string", enum: ["viewer", "admin", "operator"] } as const;

export const USER_SCHEMA = objectOf({
  user_id: UUID_SCHEMA,
  email: { type: "string" },
  role: ROLE_SCHEMA,
  created_at: TIME_SCHEMA,
});

const common = { tags: ["accounts"], security: [{ session: [] }] };

function bodyOf(required: Record<string, object>) {
  return { type: "object", additionalProperties: false, required: Object.keys(required), properties: required };
}

const schemas = {
  list: { ...common, summary: "The users of your organisation", response: { 200: { type: "array", items: USER_SCHEMA } } },
  create: {
    ...common,
    summary: "Add a user; 5,000 at most",
    body: bodyOf({ email: EMAIL_SCHEMA, password: PASSWORD_SCHEMA, role: ROLE_SCHEMA }),
    response: { 201: USER_SCHEMA },
  },
  password: {
    ...common,
    summary: "Set a password; the user's sessions end",
    params: ID_PARAMS,
    body: bodyOf({ password: PASSWORD_SCHEMA }),
    response: NOTHING,
  },
  role: {
    ...common,
    summary: "Change a role; in force within 5 seconds",
    params: ID_PARAMS,
    body: bodyOf({ role: ROLE_SCHEMA }),
    response: { 200: USER_SCHEMA },
  },
  remove: { ...common, summary: "Remove a user; refused within 5 seconds", params: ID_PARAMS, response: NOTHING },
};

interface ById {
  Params: { id: string };
}

export function registerUserRoutes(app: FastifyInstance, deps: AccountDeps): void {
  const { db, guards, hashTurns, now = Date.now } = deps;
  const admin = guards.user("admin");

  app.get("/api/users", { schema: schemas.list, onRequest: guards.user("viewer") }, async (request) => {
    const { orgId } = callerOf(request);
    const own = tenantDatabase(db, orgId);
    const rows = await own.selectFrom("users").selectAll().where("org_id", "=", orgId).orderBy("email").execute();
    return rows.map(shown);
  });

  app.post<{ Body: { email: string; password: string; role: Role } }>(
    "/api/users",
    { schema: schemas.create, onRequest: admin },
    async (request, reply) => {
      const { email, password, role } = request.body;
      if (role === "operator") requireOperator(callerOf(request));
      await requireFreeEmail(db, email);
      const passwordHash = await hashTurns.run(request, reply, () => hashPassword(password));
      const row = { org_id: callerOf(request).orgId, email, role, password_hash: passwordHash };
      const created = await insertedWithRoom(db, row, new Date(now()));
      audit(request, "user.create", { user_id: created.id, email: created.email, role });
      return await reply.code(201).send(shown(created));
    },
  );

  app.put<ById & { Body: { password: string } }>(
    "/api/users/:id/password",
    { schema: schemas.password, onRequest: admin },
    async (request, reply) => {
      await requireChangeable(db, request);
      const passwordHash = await hashTurns.run(request, reply, () => hashPassword(request.body.password));
      const changed = await change(deps, request, async ({ own }, row) => {
        requirePassword(row);
        const set = { password_hash: passwordHash, session_epoch: row.session_epoch + 1 };
        await own.updateTable("users").set(set).where("id", "=", row.id).execute();
      });
      audit(request, "user.password", { user_id: changed.id });
      return await reply.code(204).send();
    },
  );

  app.put<ById & { Body: { role: Role } }>("/api/users/:id/role", { schema: schemas.role, onRequest: admin }, async (request) => {
    const { role } = request.body;
    if (role === "operator") requireOperator(callerOf(request));
    const before = await change(deps, request, async ({ trx, own }, row) => {
      if (role !== "operator") await keepOthers(trx, row, role);
      await own.updateTable("users").set({ role }).where("id", "=", row.id).execute();
    });
    audit(request, "user.role", { user_id: before.id, from: before.role, to: role });
    return shown({ ...before, role });
  });

  app.delete<ById>("/api/users/:id", { schema: schemas.remove, onRequest: admin }, async (request, reply) => {
    const removed = await change(deps, request, async ({ trx, own }, row) => {
      await keepOthers(trx, row);
      await own.deleteFrom("users").where("id", "=", row.id).execute();
    });
    audit(request, "user.delete", { user_id: removed.id, email: removed.email });
    return await reply.code(204).send();
  });
}

async function insertedWithRoom(db: AccountDeps["db"], row: Parameters<typeof insertUser>[1], now: Date): Promise<UserRow> {
  return await tenantDatabase(db, row.org_id)
    .transaction()
    .execute(async (trx) => {
      await requireRoom(trx, row.org_id, "users", usersOf(trx, row.org_id));
      return await insertUser(trx, row, now);
    });
}

export function usersOf(trx: Transaction<AccountTables>, orgId: string): Counting {
  return trx
    .selectFrom("users")
    .select((select) => select.fn.countAll().as("count"))
    .where("org_id", "=", orgId);
}

/** A transaction, and the same limited to the caller's organisation: the last operator is counted over all. */
interface Changing {
  readonly trx: Transaction<AccountTables>;
  readonly own: Transaction<AccountTables>;
}

/** Runs `apply` on the user with this id of the caller's organisation, locked; answers the row as it was. */
async function change(
  { db, sessions }: AccountDeps,
  request: FastifyRequest<ById>,
  apply: (changing: Changing, row: UserRow) => Promise<unknown>,
): Promise<UserRow> {
  const { orgId } = callerOf(request);
  const id = idOf(request, "user");
  const row = await db.transaction().execute(async (trx) => {
    await lockOperators(trx);
    const own = tenantDatabase(trx, orgId);
    await own.selectFrom("orgs").select("id").where("id", "=", orgId).forUpdate().execute();
    const found = await own.selectFrom("users").selectAll().where("id", "=", id).where("org_id", "=", orgId).forUpdate().executeTakeFirst();
    if (!found) throw missing("user");
    if (found.role === "operator") requireOperator(callerOf(request));
    await apply({ trx, own }, found);
    return found;
  });
  sessions.forget(row.id);
  return row;
}

/** Who knows such a password would keep it when the provider gives its user more than an administrator may give. */
function requirePassword(row: Pick<UserRow, "sso_issuer">): void {
  if (row.sso_issuer !== null) throw new ApiError("conflict", "this user logs in by single sign-on, and has no password");
}

/** What `change` will refuse, before anything costly is done for it. */
async function requireChangeable(db: AccountDb, request: FastifyRequest<ById>): Promise<void> {
  const id = idOf(request, "user");
  const { orgId } = callerOf(request);
  const found = await tenantDatabase(db, orgId)
    .selectFrom("users")
    .select("role")
    .where("id", "=", id)
    .where("org_id", "=", orgId)
    .executeTakeFirst();
  if (!found) throw missing("user");
  if (found.role === "operator") requireOperator(callerOf(request));
}

/** Always first, and in one order: two operators cannot remove each other at once. */
export async function lockOperators(trx: Transaction<AccountTables>): Promise<void> {
  await trx.selectFrom("users").select("id").where("role", "=", "operator").orderBy("id").forUpdate().execute();
}

/** With the operators and the organisation locked. Throws `conflict` where nobody else is left who can do what `row` can. */
export async function keepOthers(trx: Transaction<AccountTables>, row: UserRow, role?: Role): Promise<void> {
  const others = trx.selectFrom("users").select("id").where("id", "<>", row.id).limit(1);
  if (row.role === "operator" && !(await others.where("role", "=", "operator").executeTakeFirst()))
    throw new ApiError("conflict", "this is the last operator: make another user operator first");
  if (row.role === "viewer" || role === "admin") return;
  const administrators = others.where("org_id", "=", row.org_id).where("role", "<>", "viewer");
  if (!(await administrators.executeTakeFirst()))
    throw new ApiError("conflict", "this is the organisation's last administrator: make another user admin first");
}

function requireOperator(user: SessionUser): void {
  if (user.role !== "operator") throw new ApiError("forbidden", "only an operator grants, changes or removes the role operator");
}

export function shown(row: UserRow) {
  return { user_id: row.id, email: row.email, role: row.role, created_at: row.created_at.toISOString() };
}
