// PUT /api/auth/password: users change their own password. Invariants: the current password is required, so that a stolen session cannot
// take over the account; failed attempts are slowed down like failed logins; all other sessions of the user end.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { audit } from "../../auth/audit-log.ts";
import { callerOf } from "../../http/request-identity.ts";
import type { AccountDeps } from "../../auth/sessions/login.ts";
import { LoginFailures } from "../../auth/sessions/login-failures.ts";
import { hashPassword, LoginBackoff, PASSWORD_SCHEMA, passwordMatches } from "../../auth/sessions/password.ts";
import type { UserRow } from "../../auth/sessions/account-tables.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { ApiError } from "../../errors.ts";
import { closedSchema, NO_CONTENT } from "../../http/schemas.ts";
import { addRoute, endpoint } from "../../http/route.ts";
import { requirePassword } from "./users.ts";

type PasswordRequest = FastifyRequest<{ Body: { current: string; password: string } }>;

export function registerOwnPassword(app: FastifyInstance, deps: AccountDeps): void {
  const { db, guards, hashQueue, sessions, browserSessions } = deps;
  const backoff = new LoginBackoff(deps.now, new LoginFailures(db, deps.now));

  async function requireCurrent(request: PasswordRequest, reply: FastifyReply, user: UserRow): Promise<void> {
    const { current } = request.body;
    const isRight = await backoff.attempt(user.email, request.ip, "too many wrong passwords: wait", async () =>
      (await hashQueue.run(request, reply, () => passwordMatches(user.password_hash, current))) ? true : undefined,
    );
    if (isRight) return;
    audit(request, "user.password_refused", { user_id: user.id });
    throw new ApiError("forbidden", "current: this is not your password");
  }

  addRoute(app, guards, {
    ...endpoint("PUT", "/api/auth/password", "viewer", "accounts"),
    limited: "filtered",
    errors: ["login_backoff", "conflict"],
    summary: "Change your password; your other sessions end",
    description: "A browser gets a new session in the same response. A program logs in again.",
    body: closedSchema({ current: { type: "string", maxLength: 1024 }, password: PASSWORD_SCHEMA }),
    response: NO_CONTENT,
    handler: async (request: PasswordRequest, reply: FastifyReply) => {
      const { userId, orgId } = callerOf(request);
      const tenantDb = tenantDatabase(db, orgId);
      const user = await tenantDb.selectFrom("users").selectAll().where("id", "=", userId).where("org_id", "=", orgId).executeTakeFirst();
      if (!user) throw new ApiError("invalid_token", "the user was removed");
      requirePassword(user);
      await requireCurrent(request, reply, user);
      const passwordHash = await hashQueue.run(request, reply, () => hashPassword(request.body.password));
      const changed = await tenantDb
        .updateTable("users")
        .set({ password_hash: passwordHash, session_epoch: user.session_epoch + 1 })
        .where("id", "=", userId)
        .where("org_id", "=", orgId)
        // If two changes are concurrent, or a change and a reset by an administrator, the first one wins.
        .where("session_epoch", "=", user.session_epoch)
        .returningAll()
        .executeTakeFirst();
      sessions.forget(userId);
      if (!changed) throw new ApiError("conflict", "the password was changed by another request: log in again");
      audit(request, "user.password", { user_id: userId });
      if (request.headers.authorization === undefined) await browserSessions.open(request, reply, changed);
      return await reply.code(204).header("cache-control", "no-store").send();
    },
  });
}
