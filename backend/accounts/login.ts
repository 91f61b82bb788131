// POST /api/auth/login: e-mail and password for a session JWT. Invariant: an unknown user and a wrong password get the same answer
// after the same work, and nobody is refused for what others tried (login-backoff.ts, hash-turns.ts).
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../errors.ts";
import { audit } from "../auth/audit-log.ts";
import { UNFIT_CHARACTERS } from "../http/schemas.ts";
import { LoginBackoff } from "./login-backoff.ts";
import { decoyHash, passwordMatches } from "./password.ts";
import { createProxyWarning } from "./proxy-warning.ts";
import type { AccountDeps } from "./deps.ts";
import { findUserByEmail, normalEmail, type UserRow } from "./table.ts";

const BODY_LIMIT_BYTES = 8 * 1024;

const schema = {
  summary: "Log in",
  description: "A short-lived session JWT. When a later call answers 401, log in again.",
  tags: ["accounts"],
  body: {
    type: "object",
    required: ["email", "password"],
    properties: {
      email: { type: "string", maxLength: 254, pattern: `^[^${UNFIT_CHARACTERS}]*$`, description: "text without control characters" },
      password: { type: "string", maxLength: 1024 },
    },
  },
  response: { 200: { type: "object", required: ["token"], properties: { token: { type: "string" } } } },
} as const;

type LoginRequest = FastifyRequest<{ Body: { email: string; password: string } }>;

export function registerLogin(app: FastifyInstance, deps: AccountDeps): void {
  const backoff = new LoginBackoff(deps.now);
  const noteProxy = createProxyWarning(app.log);
  app.addHook("onReady", async () => void (await decoyHash()));
  app.post<{ Body: { email: string; password: string } }>(
    "/api/auth/login",
    { schema, bodyLimit: BODY_LIMIT_BYTES },
    async (request, reply) => {
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
      try {
        const user = await authenticated(request, reply, email);
        outcome = user ? "right" : "wrong";
        if (user) return { token: await opened(request, user) };
      } finally {
        backoff.end(email, request.ip, outcome);
      }
      audit(request, "login.failed", { email });
      throw new ApiError("invalid_credentials", "unknown e-mail or wrong password");
    },
  );

  async function authenticated(request: LoginRequest, reply: FastifyReply, email: string): Promise<UserRow | undefined> {
    const user = await findUserByEmail(deps.db, email);
    const matches = await deps.hashTurns.run(request, reply, () => passwordMatches(user?.password_hash, request.body.password));
    return matches ? user : undefined;
  }

  async function opened(request: FastifyRequest, user: UserRow): Promise<string> {
    audit(request, "login", { user_id: user.id, org_id: user.org_id, email: user.email });
    return await deps.sessions.issue(user);
  }
}
