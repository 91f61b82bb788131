// The users of the caller's organisation: list, add, change password or role, remove. Invariant: only operators grant, change or remove the
// role `operator`. The last operator and the last administrator of an organisation stay. A user of another organisation is 404.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Transaction } from "kysely";
import { ApiError } from "../../errors.ts";
import type { LabelLimits } from "../../admission/limited-labels.ts";
import { auditedLimits, LABEL_LIMITS_SCHEMA, requireViewer, shownLimits, storedLimits } from "../../auth/label-limits-schema.ts";
import { callerOf, type Role, type SessionUser } from "../../http/request-identity.ts";
import { audit } from "../../auth/audit-log.ts";
import { readId, ID_PARAMS, notFound, NO_CONTENT, closedSchema, objectSchema, TIME_SCHEMA, UUID_SCHEMA } from "../../http/schemas.ts";
import { addHandlers, endpoint } from "../../http/route.ts";
import { hashPassword, PASSWORD_SCHEMA } from "../../auth/sessions/password.ts";
import { requireCapacity } from "../../engines/relational/row-limits.ts";
import type { AccountDeps } from "../../auth/sessions/login.ts";
import {
  EMAIL_SCHEMA,
  insertUser,
  lockOperators,
  requireFreeEmail,
  requireOtherAdmins,
  type AccountDb,
  type AccountTables,
  type UserRow,
} from "../../auth/sessions/account-tables.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

export const ROLE_SCHEMA = { type: "string", enum: ["viewer", "admin", "operator"] } as const;

export const USER_SCHEMA = objectSchema({
  user_id: UUID_SCHEMA,
  email: { type: "string" },
  role: ROLE_SCHEMA,
  created_at: TIME_SCHEMA,
  label_limits: LABEL_LIMITS_SCHEMA,
});

const ROUTES = {
  list: {
    ...endpoint("GET", "/api/users", "viewer", "accounts"),
    summary: "The users of your organisation",
    response: { 200: { type: "array", items: USER_SCHEMA } },
  },
  create: {
    ...endpoint("POST", "/api/users", "admin", "accounts"),
    summary: "Add a user; at most 5,000",
    body: closedSchema(["email", "password", "role"], {
      email: EMAIL_SCHEMA,
      password: PASSWORD_SCHEMA,
      role: ROLE_SCHEMA,
      label_limits: LABEL_LIMITS_SCHEMA,
    }),
    response: { 201: USER_SCHEMA },
  },
  password: {
    ...endpoint("PUT", "/api/users/:id/password", "admin", "accounts"),
    summary: "Set a password; the user's sessions end",
    params: ID_PARAMS,
    body: closedSchema({ password: PASSWORD_SCHEMA }),
    response: NO_CONTENT,
  },
  role: {
    ...endpoint("PUT", "/api/users/:id/role", "admin", "accounts"),
    summary: "Change a role; it normally applies within 5 seconds",
    params: ID_PARAMS,
    body: closedSchema({ role: ROLE_SCHEMA }),
    response: { 200: USER_SCHEMA },
  },
  labelLimits: {
    ...endpoint("PUT", "/api/users/:id/label-limits", "admin", "accounts"),
    summary: "Limit a viewer to values of labels",
    params: ID_PARAMS,
    body: closedSchema({ label_limits: LABEL_LIMITS_SCHEMA }),
    response: { 200: USER_SCHEMA },
  },
  remove: {
    ...endpoint("DELETE", "/api/users/:id", "admin", "accounts"),
    summary: "Remove a user; all replicas normally refuse the sessions within 5 seconds",
    params: ID_PARAMS,
    response: NO_CONTENT,
  },
};

interface CreateBody {
  readonly email: string;
  readonly password: string;
  readonly role: Role;
  readonly label_limits?: LabelLimits | null;
}

export function registerUserRoutes(app: FastifyInstance, deps: AccountDeps): void {
  const { db, guards, hashQueue, now = Date.now } = deps;
  addHandlers(app, guards, ROUTES, {
    list: async (request) => {
      const { orgId } = callerOf(request);
      const tenantDb = tenantDatabase(db, orgId);
      const rows = await tenantDb.selectFrom("users").selectAll().where("org_id", "=", orgId).orderBy("email").execute();
      return rows.map(describeUser);
    },
    create: async (request: FastifyRequest<{ Body: CreateBody }>, reply: FastifyReply) => {
      const { email, password, role } = request.body;
      const label_limits = storedLimits(request.body.label_limits);
      requireViewer(role, { label_limits });
      if (role === "operator") requireOperator(callerOf(request));
      await requireFreeEmail(db, email);
      const passwordHash = await hashQueue.run(request, reply, () => hashPassword(password));
      const row = { org_id: callerOf(request).orgId, email, role, label_limits, password_hash: passwordHash };
      const created = await insertWithinLimit(db, row, new Date(now()));
      audit(request, "user.create", { user_id: created.id, email: created.email, role, ...auditedLimits(created) });
      return await reply.code(201).send(describeUser(created));
    },
    ...changeHandlers(deps),
  });
}

function changeHandlers(deps: AccountDeps) {
  const { db, hashQueue } = deps;
  return {
    password: async (request: FastifyRequest<{ Body: { password: string } }>, reply: FastifyReply) => {
      // Checked before the costly password hash, and again in `changeUser`.
      await requireChangeable(db, request);
      const passwordHash = await hashQueue.run(request, reply, () => hashPassword(request.body.password));
      const changed = await changeUser(deps, request, async ({ tenantTrx }, row) => {
        requirePassword(row);
        const set = { password_hash: passwordHash, session_epoch: row.session_epoch + 1 };
        await tenantTrx.updateTable("users").set(set).where("id", "=", row.id).execute();
      });
      audit(request, "user.password", { user_id: changed.id });
      return await reply.code(204).send();
    },
    role: async (request: FastifyRequest<{ Body: { role: Role } }>) => {
      const { role } = request.body;
      if (role === "operator") requireOperator(callerOf(request));
      const before = await changeUser(deps, request, async ({ trx, tenantTrx }, row) => {
        requireViewer(role, row);
        if (role !== "operator") await requireOtherAdmins(trx, row, role);
        await tenantTrx.updateTable("users").set({ role }).where("id", "=", row.id).execute();
      });
      audit(request, "user.role", { user_id: before.id, from: before.role, to: role });
      return describeUser({ ...before, role });
    },
    labelLimits: async (request: FastifyRequest<{ Body: { label_limits: LabelLimits | null } }>) => {
      const label_limits = storedLimits(request.body.label_limits);
      const before = await changeUser(deps, request, async ({ tenantTrx }, row) => {
        requireViewer(row.role, { label_limits });
        await tenantTrx.updateTable("users").set({ label_limits }).where("id", "=", row.id).execute();
      });
      audit(request, "user.label_limits", { user_id: before.id, from: before.label_limits ?? "", to: label_limits ?? "" });
      return describeUser({ ...before, label_limits });
    },
    remove: async (request: FastifyRequest, reply: FastifyReply) => {
      const removed = await changeUser(deps, request, async ({ trx, tenantTrx }, row) => {
        await requireOtherAdmins(trx, row);
        await tenantTrx.deleteFrom("users").where("id", "=", row.id).execute();
      });
      audit(request, "user.delete", { user_id: removed.id, email: removed.email });
      return await reply.code(204).send();
    },
  };
}

async function insertWithinLimit(db: AccountDeps["db"], row: Parameters<typeof insertUser>[1], now: Date): Promise<UserRow> {
  const tenantDb = tenantDatabase(db, row.org_id);
  return await tenantDb.transaction().execute(async (trx) => {
    await requireCapacity(trx, row.org_id, "users", trx.selectFrom("users").where("org_id", "=", row.org_id));
    return await insertUser(trx, row, now);
  });
}

/** A transaction, and the same restricted to the caller's organisation. Operators are counted across organisations. */
interface UserTransaction {
  readonly trx: Transaction<AccountTables>;
  readonly tenantTrx: Transaction<AccountTables>;
}

/** Locks the user with this id of the caller's organisation and runs `apply`. Returns the row before the change. */
async function changeUser(
  { db, sessions }: AccountDeps,
  request: FastifyRequest,
  apply: (transaction: UserTransaction, row: UserRow) => Promise<unknown>,
): Promise<UserRow> {
  const { orgId } = callerOf(request);
  const id = readId(request, "user");
  const row = await db.transaction().execute(async (trx) => {
    await lockOperators(trx);
    const tenantTrx = tenantDatabase(trx, orgId);
    await tenantTrx.selectFrom("orgs").select("id").where("id", "=", orgId).forUpdate().execute();
    await tenantTrx.selectFrom("users").select("id").where("id", "=", id).where("org_id", "=", orgId).forUpdate().execute();
    const user = await requireChangeable(tenantTrx, request);
    await apply({ trx, tenantTrx }, user);
    return user;
  });
  sessions.forget(row.id);
  return row;
}

/**
 * Throws for a user of single sign-on: otherwise, an administrator who sets a password could use it after the provider grants the user a
 * higher role.
 */
export function requirePassword(row: Pick<UserRow, "sso_issuer">): void {
  if (row.sso_issuer !== null) throw new ApiError("conflict", "this user logs in by single sign-on and has no password");
}

/** The user with the id of this request. Throws `not_found`, and `forbidden` if only operators may change the user. */
async function requireChangeable(db: AccountDb, request: FastifyRequest): Promise<UserRow> {
  const id = readId(request, "user");
  const { orgId } = callerOf(request);
  const user = await tenantDatabase(db, orgId)
    .selectFrom("users")
    .selectAll()
    .where("id", "=", id)
    .where("org_id", "=", orgId)
    .executeTakeFirst();
  if (!user) throw notFound("user");
  if (user.role === "operator") requireOperator(callerOf(request));
  return user;
}

export function requireOperator(user: SessionUser): void {
  if (user.role !== "operator") throw new ApiError("forbidden", "only operators may grant, change or remove the role operator");
}

export function describeUser(row: UserRow) {
  return { user_id: row.id, email: row.email, role: row.role, created_at: row.created_at.toISOString(), label_limits: shownLimits(row) };
}
