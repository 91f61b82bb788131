// The routes of sessions: POST /api/auth/login returns a session JWT for an e-mail and password, POST /api/auth/session sets the cookie of a
// browser, GET and DELETE /api/auth/session show and end the session of this browser. Invariant: an unknown user and a wrong password get the
// same response after the same work, and attempts of others never block a login (password.ts).
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { audit } from "../audit-log.ts";
import { FORBIDDEN_CHARACTERS, NO_CONTENT, objectSchema, TIME_SCHEMA, UUID_SCHEMA } from "../../http/schemas.ts";
import { addHandlers, addRoutes, endpoint, type RouteDeclaration, type RouteGuard } from "../../http/route.ts";
import { MAX_PROXIES } from "../auth-limits.ts";
import { LoginFailures } from "./login-failures.ts";
import { decoyHash, type HashQueue, LoginBackoff, passwordMatches } from "./password.ts";
import {
  type AccountDb,
  type AccountTables,
  findUserByEmail,
  isFirstOperator,
  NO_PASSWORD,
  normalEmail,
  type UserRow,
} from "./account-tables.ts";
import { LABEL_LIMITS_SCHEMA } from "../label-limits-schema.ts";
import type { BrowserSession, BrowserSessions } from "./browser-session.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import type { Kysely } from "kysely";
import type { Guards } from "../../http/request-identity.ts";
import type { ReadTokens } from "./read-token.ts";
import type { Sessions } from "./session.ts";

export interface AccountDeps {
  db: Kysely<AccountTables>;
  sessions: Sessions;
  browserSessions: BrowserSessions;
  readTokens: Pick<ReadTokens, "issue" | "forget">;
  guards: Pick<Guards, "user">;
  hashQueue: HashQueue;
  now?: () => number;
  pageRows?: number;
}

const BODY_LIMIT_BYTES = 8 * 1024;

const credentials = {
  errors: ["invalid_credentials", "login_backoff"],
  maxBodyBytes: BODY_LIMIT_BYTES,
  body: objectSchema({
    email: { type: "string", maxLength: 254, pattern: `^[^${FORBIDDEN_CHARACTERS}]*$`, description: "text without control characters" },
    password: { type: "string", maxLength: 1024 },
  }),
} as const satisfies Partial<RouteDeclaration>;

const ROUTES = {
  login: {
    ...endpoint("POST", "/api/auth/login", "anyone", "accounts"),
    ...credentials,
    summary: "Log in",
    description: "Returns a short-lived session JWT. If a later request gets 401, log in again.",
    response: { 200: { type: "object", required: ["token"], properties: { token: { type: "string" } } } },
  },
  open: {
    ...endpoint("POST", "/api/auth/session", "anyone", "accounts"),
    ...credentials,
    summary: "Log a browser in",
    description: "Sets a cookie, which is only accepted with the header X-Requested-With: atherops.",
    response: NO_CONTENT,
  },
};

/** The same message for a wrong password and for a correct one that may not be used, so that it does not reveal which it was. */
const FIRST_OPERATOR_ONLY =
  "only the operator of the first start may log in with a password (PASSWORD_LOGIN=false): use single sign-on, GET /api/auth/oidc/start";

const TOO_MANY_FAILURES = "too many failed logins to this account from your network: wait";

type LoginRequest = FastifyRequest<{ Body: { email: string; password: string } }>;

/** `isFirstOperatorOnly`: only the operator of the first start may log in with a password. */
export function registerLogin(app: FastifyInstance, deps: AccountDeps & { isFirstOperatorOnly: boolean }): void {
  const backoff = new LoginBackoff(deps.now, new LoginFailures(deps.db, deps.now));
  const warnOfProxy = createProxyWarning(app.log);
  app.addHook("onReady", async () => void (await decoyHash()));
  addHandlers(app, deps.guards, ROUTES, {
    login: async (request: LoginRequest, reply: FastifyReply) => ({ token: await deps.sessions.issue(await checkLogin(request, reply)) }),
    open: async (request: LoginRequest, reply: FastifyReply) => {
      const user = await checkLogin(request, reply);
      await deps.browserSessions.open(request, reply, user);
      return await reply.code(204).header("cache-control", "no-store").send();
    },
  });

  async function checkLogin(request: LoginRequest, reply: FastifyReply): Promise<UserRow> {
    warnOfProxy(request);
    const [email, password] = [normalEmail(request.body.email), request.body.password];
    // The attempt may wait in the queue for a long time, so the rest of its body is released first.
    request.body = { email, password };
    app.smallBodies.release(request);
    let found: UserRow | undefined;
    const check = async (): Promise<UserRow | undefined> => {
      found = await findUserByEmail(deps.db, email);
      return (await isAccepted({ ...deps, backoff }, request, reply, found)) ? found : undefined;
    };
    const user = await backoff.attempt(email, request.ip, TOO_MANY_FAILURES, check).catch((error: unknown) => {
      if (error instanceof ApiError && error.code === "login_backoff") audit(request, "login.refused", { email, reason: "backoff" });
      throw error;
    });
    if (user) {
      audit(request, "login", { user_id: user.id, org_id: user.org_id, email: user.email });
      return user;
    }
    audit(request, "login.failed", { email }, found?.org_id);
    throw new ApiError("invalid_credentials", deps.isFirstOperatorOnly ? FIRST_OPERATOR_ONLY : "unknown e-mail or wrong password");
  }
}

/** Whether the password is correct and the user may log in with one. */
async function isAccepted(
  deps: AccountDeps & { readonly isFirstOperatorOnly: boolean; readonly backoff: LoginBackoff },
  request: LoginRequest,
  reply: FastifyReply,
  user: UserRow | undefined,
): Promise<boolean> {
  const hash = user?.password_hash === NO_PASSWORD ? undefined : user?.password_hash;
  const { email, password } = request.body;
  const rank = deps.backoff.rank(email, request.ip);
  const matches = await deps.hashQueue.run(request, reply, () => passwordMatches(hash, password), rank);
  return matches && user !== undefined && (!deps.isFirstOperatorOnly || (await isFirstOperator(deps.db, user)));
}

type ProxiedRequest = Pick<FastifyRequest, "ip" | "headers"> & { raw: { socket: { remoteAddress?: string | undefined } } };

/**
 * Returns a function to call with every login. It warns if logins arrive through an untrusted proxy: all clients behind it then count as one
 * network, so failed logins of one user delay others who log in to the same account. It logs one line per proxy, for the first few.
 */
function createProxyWarning(log: Pick<Log, "warn">): (request: ProxiedRequest) => void {
  const warned = new Set<string>();
  return ({ ip, headers, raw }) => {
    const proxy = raw.socket.remoteAddress;
    if (headers["x-forwarded-for"] === undefined || proxy === undefined || ip !== proxy) return;
    if (warned.has(proxy) || warned.size >= MAX_PROXIES) return;
    warned.add(proxy);
    log.warn(
      { event: "auth.untrusted_proxy", proxy },
      "login with X-Forwarded-For from an untrusted address, ignoring the header: if it is your ingress or load balancer, set TRUSTED_PROXIES (in the chart: trustedProxies), or all its clients count as one address and can delay each other's logins",
    );
  };
}

export const SESSION_SCHEMA = objectSchema({
  email: { type: "string" },
  role: { type: "string", enum: ["viewer", "admin", "operator"] },
  org: objectSchema({ id: UUID_SCHEMA, name: { type: "string" } }),
  expires_at: TIME_SCHEMA,
  label_limits: LABEL_LIMITS_SCHEMA,
});

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
  addRoutes(app, guards, [
    {
      ...endpoint("GET", "/api/auth/session", browser, "accounts"),
      limited: "filtered",
      summary: "The session of this browser",
      description:
        "`expires_at` is when the session ends if there are no more requests: about 12 hours after the last one, at the latest 7 days after the login.",
      response: { 200: SESSION_SCHEMA },
      handler: async (request) => await describeSession(db, sessions.get(request) as BrowserSession),
    },
    {
      ...endpoint("DELETE", "/api/auth/session", browser, "accounts"),
      limited: "filtered",
      summary: "Log this browser out; all replicas normally refuse the session within 5 seconds",
      response: NO_CONTENT,
      handler: async (request, reply) => {
        await browserSessions.end(request, reply, sessions.get(request) as BrowserSession);
        audit(request, "logout", {});
        return await reply.code(204).send();
      },
    },
  ]);
}

export async function describeSession(db: AccountDb, { user, expiresAt }: BrowserSession) {
  const { name } = await tenantDatabase(db, user.orgId)
    .selectFrom("orgs")
    .select("name")
    .where("id", "=", user.orgId)
    .executeTakeFirstOrThrow();
  return {
    email: user.email,
    role: user.role,
    org: { id: user.orgId, name },
    expires_at: expiresAt.toISOString(),
    label_limits: user.labelLimits ?? null,
  };
}
