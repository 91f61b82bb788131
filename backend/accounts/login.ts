// POST /api/auth/login: e-mail and password for a session JWT; POST /api/auth/session: for the cookie of a browser. Invariant: an unknown user and a wrong password get the same answer
// after the same work, and nobody is refused for what others tried (login-backoff.ts, hash-turns.ts).
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../errors.ts";
import { audit } from "../auth/audit-log.ts";
import { NOTHING, UNFIT_CHARACTERS } from "../http/schemas.ts";
import { LoginBackoff } from "./login-backoff.ts";
import { decoyHash, passwordMatches } from "./password.ts";
import { createProxyWarning } from "./proxy-warning.ts";
import type { AccountDeps } from "./deps.ts";
import { findUserByEmail, isFirstOperator, NO_PASSWORD, normalEmail, type UserRow } from "./table.ts";

const BODY_LIMIT_BYTES = 8 * 1024;

const credentials = {
  tags: ["accounts"],
  body: {
    type: "object",
    required: ["email", "password"],
    properties: {
      email: { type: "string", maxLength: 254, pattern: `^[^${UNFIT_CHARACTERS}]*$`, description: "text without control characters" },
      password: { type: "string", maxLength: 1024 },
    },
  },
} as const;

const login = {
  ...credentials,
  summary: "Log in",
  description: "A short-lived session JWT. When a later call answers 401, log in again.",
  response: { 200: { type: "object", required: ["token"], properties: { token: { type: "string" } } } },
} as const;

const openSession = {
  ...credentials,
  summary: "Log a browser in",
  description: "The answer sets a cookie. It counts on requests with the header X-Requested-With: atherops, and on no others.",
  response: NOTHING,
} as const;

/** The same for a wrong password and a right one that does not count: it tells nobody which it was. */
const ONLY_FIRST =
  "passwords are for the operator of the first start alone (PASSWORD_LOGIN=false): log in by single sign-on, GET /api/auth/oidc/start";

type LoginBody = { Body: { email: string; password: string } };
type LoginRequest = FastifyRequest<LoginBody>;

/** `isOnlyFirst`: passwords are for the operator of the first start alone. */
export function registerLogin(app: FastifyInstance, deps: AccountDeps & { isOnlyFirst: boolean }): void {
  const backoff = new LoginBackoff(deps.now);
  const noteProxy = createProxyWarning(app.log);
  app.addHook("onReady", async () => void (await decoyHash()));
  app.post<LoginBody>("/api/auth/login", { schema: login, bodyLimit: BODY_LIMIT_BYTES }, async (request, reply) => {
    const user = await loggedIn(request, reply);
    return { token: await deps.sessions.issue(user) };
  });
  app.post<LoginBody>("/api/auth/session", { schema: openSession, bodyLimit: BODY_LIMIT_BYTES }, async (request, reply) => {
    const user = await loggedIn(request, reply);
    await deps.browserSessions.open(request, reply, user);
    return await reply.code(204).header("cache-control", "no-store").send();
  });

  async function loggedIn(request: LoginRequest, reply: FastifyReply): Promise<UserRow> {
    noteProxy(request);
    const { password } = request.body;
    const email = normalEmail(request.body.email);
    // The attempt may wait long for its turn, and whatever else its body holds must not be held for it.
    request.body = { email, password };
    app.smallBodies.release(request);
    const waitMs = backoff.begin(email, request.ip);
    if (waitMs > 0) {
      audit(request, "login.refused", { email, reason: "backoff" });
      throw new ApiError("login_backoff", "too many failed logins from here for this account: wait", { retryAfterS: waitMs / 1000 });
    }
    let outcome: "right" | "wrong" | "undecided" = "undecided";
    let known: UserRow | undefined;
    try {
      known = await findUserByEmail(deps.db, email);
      outcome = (await isRight(request, reply, known)) ? "right" : "wrong";
    } finally {
      backoff.end(email, request.ip, outcome);
    }
    if (known && outcome === "right") {
      audit(request, "login", { user_id: known.id, org_id: known.org_id, email: known.email });
      return known;
    }
    audit(request, "login.failed", { email }, known?.org_id);
    throw new ApiError("invalid_credentials", deps.isOnlyFirst ? ONLY_FIRST : "unknown e-mail or wrong password");
  }

  async function isRight(request: LoginRequest, reply: FastifyReply, user: UserRow | undefined): Promise<boolean> {
    const hash = user?.password_hash === NO_PASSWORD ? undefined : user?.password_hash;
    const { email, password } = request.body;
    const matches = await deps.hashTurns.run(request, reply, () => passwordMatches(hash, password), backoff.rank(email, request.ip));
    return matches && user !== undefined && (!deps.isOnlyFirst || (await isFirstOperator(deps.db, user)));
  }
}
