// Routes for a person with an invitation link: POST /api/auth/invitation shows the invitation, POST /api/auth/invitation/accept creates the
// user with the chosen password and logs the browser in. Invariants: the token is in the request body, so that no log contains it; it works
// once, even if two requests are concurrent; every invalid token gets the same response, and a network that sends several of them must
// wait.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { audit } from "../../auth/audit-log.ts";
import { RANK } from "../../http/request-identity.ts";
import { LoginFailures } from "../../auth/sessions/login-failures.ts";
import { hashPassword, LoginBackoff, PASSWORD_SCHEMA } from "../../auth/sessions/password.ts";
import { type AccountDb, insertUser, type InvitationRow, requireFreeEmail, type UserRow } from "../../auth/sessions/account-tables.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { ApiError } from "../../errors.ts";
import { closedSchema, NO_CONTENT, objectSchema, TIME_SCHEMA } from "../../http/schemas.ts";
import { addHandlers, endpoint } from "../../http/route.ts";
import { type InvitationDeps, invitationHash, requirePasswordLogin } from "./invitations.ts";
import { requireCapacity } from "../../engines/relational/row-limits.ts";
import { ROLE_SCHEMA } from "./users.ts";

/** Used instead of an account's address: the login backoff counts pairs of account and network. */
const NO_ACCOUNT = "invitation";
const TOKEN = { type: "string", minLength: 1, maxLength: 200 } as const;
const common = { errors: ["invalid_credentials", "login_backoff", "conflict", "limit_reached"], maxBodyBytes: 4096 } as const;

const ROUTES = {
  show: {
    ...common,
    ...endpoint("POST", "/api/auth/invitation", "anyone", "accounts"),
    summary: "Look up an invitation by the token of its link",
    body: closedSchema({ token: TOKEN }),
    response: { 200: objectSchema({ email: { type: "string" }, role: ROLE_SCHEMA, org: { type: "string" }, expires_at: TIME_SCHEMA }) },
  },
  accept: {
    ...common,
    ...endpoint("POST", "/api/auth/invitation/accept", "anyone", "accounts"),
    summary: "Accept an invitation: creates the user and logs the browser in",
    description: "Sets the cookie of a browser session. A program logs in with the address and the password afterwards.",
    body: closedSchema({ token: TOKEN, password: PASSWORD_SCHEMA }),
    response: NO_CONTENT,
  },
};

type Body = { token: string; password: string };

export function registerInvitationAcceptance(app: FastifyInstance, deps: InvitationDeps): void {
  const { db, guards, hashQueue, browserSessions, now = Date.now } = deps;
  const backoff = new LoginBackoff(now, new LoginFailures(db, now));

  /** Throws `login_backoff`, or `invalid_credentials` if there is no valid invitation with this token. */
  async function findValid(request: FastifyRequest<{ Body: Pick<Body, "token"> }>): Promise<InvitationRow> {
    requirePasswordLogin(deps);
    const found = await backoff.attempt(NO_ACCOUNT, request.ip, "too many invalid invitations from your network: wait", () =>
      findInvitation(db, invitationHash(request.body.token), now()),
    );
    if (found) return found;
    audit(request, "invitation.refused", {});
    throw notValid();
  }
  addHandlers(app, guards, ROUTES, {
    show: async (request: FastifyRequest<{ Body: Pick<Body, "token"> }>, reply: FastifyReply) => {
      const { email, role, org_id, expires_at } = await findValid(request);
      const org = await tenantDatabase(db, org_id).selectFrom("orgs").select("name").where("id", "=", org_id).executeTakeFirstOrThrow();
      void reply.header("cache-control", "no-store");
      return { email, role, org: org.name, expires_at: expires_at.toISOString() };
    },
    accept: async (request: FastifyRequest<{ Body: Body }>, reply: FastifyReply) => {
      const { org_id: orgId, email } = await findValid(request);
      await requireFreeEmail(db, email);
      const { token, password } = request.body;
      const passwordHash = await hashQueue.run(request, reply, () => hashPassword(password));
      const { invitation, user } = await exchange(db, orgId, { hash: invitationHash(token), passwordHash, nowMs: now() });
      const subject = { invitation_id: invitation.id, user_id: user.id, email: user.email, role: user.role, org_id: orgId };
      audit(request, "invitation.accept", subject);
      await browserSessions.open(request, reply, user);
      return await reply.code(204).header("cache-control", "no-store").send();
    },
  });
}

/** Replaces the invitation by a user. Throws `invalid_credentials` if another request was faster. */
async function exchange(
  db: InvitationDeps["db"],
  orgId: string,
  { hash, passwordHash, nowMs }: { hash: string; passwordHash: string; nowMs: number },
): Promise<{ invitation: InvitationRow; user: UserRow }> {
  const tenantDb = tenantDatabase(db, orgId);
  return await tenantDb.transaction().execute(async (trx) => {
    await requireCapacity(trx, orgId, "users", trx.selectFrom("users").where("org_id", "=", orgId));
    const invitation = await findInvitation(trx, hash, nowMs);
    if (!invitation) throw notValid();
    const removed = await trx.deleteFrom("invitations").where("id", "=", invitation.id).executeTakeFirst();
    if (removed.numDeletedRows !== 1n) throw notValid();
    const { email, role, label_limits } = invitation;
    const row = { org_id: orgId, email, role, label_limits, password_hash: passwordHash };
    return { invitation, user: await insertUser(trx, row, new Date(nowMs)) };
  });
}

/** The invitation with this token, unless it has expired, or its creator may no longer grant its role. */
async function findInvitation(db: AccountDb, hash: string, nowMs: number): Promise<InvitationRow | undefined> {
  const found = await db
    .selectFrom("invitations")
    .innerJoin("users", "users.id", "invitations.created_by")
    .selectAll("invitations")
    .select("users.role as creatorRole")
    .where("token_hash", "=", hash)
    .where("invitations.expires_at", ">", new Date(nowMs))
    .executeTakeFirst();
  return found && RANK[found.creatorRole] >= Math.max(RANK.admin, RANK[found.role]) ? found : undefined;
}

function notValid(): ApiError {
  return new ApiError("invalid_credentials", "the invitation was used, has expired or was removed: ask for another one");
}
