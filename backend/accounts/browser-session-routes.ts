// GET and DELETE /api/auth/session: who this browser is logged in as, and the end of that. It begins in login.ts or in backend/sso.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { audit } from "../auth/audit-log.ts";
import { ApiError } from "../errors.ts";
import { NOTHING, objectOf, TIME_SCHEMA, UUID_SCHEMA } from "../http/schemas.ts";
import type { BrowserSession } from "./browser-session.ts";
import type { AccountDeps } from "./deps.ts";
import type { AccountDb } from "./table.ts";
import { tenantDatabase } from "../engines/relational/tenant-database.ts";

const common = { tags: ["accounts"], security: [{ browser: [] }] };

export const SESSION_SCHEMA = objectOf({
  email: { type: "string" },
  role: { type: "string", enum: ["viewer", "admin", "operator"] },
  org: objectOf({ id: UUID_SCHEMA, name: { type: "string" } }),
  expires_at: TIME_SCHEMA,
});

const schemas = {
  get: {
    ...common,
    summary: "Who this browser is logged in as",
    description: "`expires_at` is when the session ends without another request: after 12 hours, 7 days after the login at most.",
    response: { 200: SESSION_SCHEMA },
  },
  end: { ...common, summary: "Log this browser out; refused everywhere within 5 seconds", response: NOTHING },
};

export function registerBrowserSessions(app: FastifyInstance, { db, browserSessions }: AccountDeps): void {
  const found = new WeakMap<FastifyRequest, BrowserSession>();
  const onRequest = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    void reply.header("cache-control", "no-store");
    const session = await browserSessions.find(request, reply);
    if (!session) throw new ApiError("invalid_token", "no browser's session: log in, and send the cookie and X-Requested-With: atherops");
    request.user = session.user;
    found.set(request, session);
  };

  app.get("/api/auth/session", { schema: schemas.get, onRequest }, async (request) => {
    return await shownSession(db, found.get(request) as BrowserSession);
  });

  app.delete("/api/auth/session", { schema: schemas.end, onRequest }, async (request, reply) => {
    await browserSessions.end(request, reply, found.get(request) as BrowserSession);
    audit(request, "logout", {});
    return await reply.code(204).send();
  });
}

export async function shownSession(db: AccountDb, { user, expiresAt }: BrowserSession) {
  const { name } = await tenantDatabase(db, user.orgId)
    .selectFrom("orgs")
    .select("name")
    .where("id", "=", user.orgId)
    .executeTakeFirstOrThrow();
  return { email: user.email, role: user.role, org: { id: user.orgId, name }, expires_at: expiresAt.toISOString() };
}
