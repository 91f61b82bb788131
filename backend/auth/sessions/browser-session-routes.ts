// GET and DELETE /api/auth/session: the session of this browser, and its end. Sessions begin in login.ts or in backend/auth/sso.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { audit } from "../audit-log.ts";
import { ApiError } from "../../errors.ts";
import { NO_CONTENT, objectSchema, TIME_SCHEMA, UUID_SCHEMA } from "../../http/schemas.ts";
import { addRoute, type RouteGuard } from "../../http/route.ts";
import type { BrowserSession } from "./browser-session.ts";
import type { AccountDeps } from "./deps.ts";
import type { AccountDb } from "./table.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

const common = { tag: "accounts" } as const;

export const SESSION_SCHEMA = objectSchema({
  email: { type: "string" },
  role: { type: "string", enum: ["viewer", "admin", "operator"] },
  org: objectSchema({ id: UUID_SCHEMA, name: { type: "string" } }),
  expires_at: TIME_SCHEMA,
});

const schemas = {
  get: {
    ...common,
    summary: "The session of this browser",
    description: "`expires_at` is when the session ends if there are no more requests: after 12 hours, at most 7 days after the login.",
    response: { 200: SESSION_SCHEMA },
  },
  end: { ...common, summary: "Log this browser out; all replicas refuse the session within 5 seconds", response: NO_CONTENT },
};

export function registerBrowserSessions(app: FastifyInstance, { db, guards, browserSessions }: AccountDeps): void {
  const sessions = new WeakMap<FastifyRequest, BrowserSession>();
  const onRequest = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    void reply.header("cache-control", "no-store");
    const session = await browserSessions.find(request, reply);
    if (!session) throw new ApiError("invalid_token", "no browser session: log in, and send the cookie and X-Requested-With: atherops");
    request.user = session.user;
    sessions.set(request, session);
  };
  const browser: RouteGuard = { security: ["browser"], onRequest };

  addRoute(app, guards, {
    method: "GET",
    path: "/api/auth/session",
    access: browser,
    ...schemas.get,
    handler: async (request) => {
      return await describeSession(db, sessions.get(request) as BrowserSession);
    },
  });

  addRoute(app, guards, {
    method: "DELETE",
    path: "/api/auth/session",
    access: browser,
    ...schemas.end,
    handler: async (request, reply) => {
      await browserSessions.end(request, reply, sessions.get(request) as BrowserSession);
      audit(request, "logout", {});
      return await reply.code(204).send();
    },
  });
}

export async function describeSession(db: AccountDb, { user, expiresAt }: BrowserSession) {
  const { name } = await tenantDatabase(db, user.orgId)
    .selectFrom("orgs")
    .select("name")
    .where("id", "=", user.orgId)
    .executeTakeFirstOrThrow();
  return { email: user.email, role: user.role, org: { id: user.orgId, name }, expires_at: expiresAt.toISOString() };
}
