// POST /api/auth/session/code: the code of a one-time link for the cookie of a browser, as the operator of the first start. Invariants: the
// route is there only where `npm start` started this backend on loopback; a browser of this machine alone may use it, by no other name of
// the machine, and by no other site's doing; whatever is wrong with a code gets the same answer.
import type { FastifyInstance } from "fastify";
import { isLoopback } from "../../agent/common/host-name.ts";
import { audit } from "../auth/audit-log.ts";
import { ApiError } from "../errors.ts";
import type { AccountDeps } from "./deps.ts";
import type { OneTimeLogin } from "./one-time-login.ts";
import { findFirstOperator } from "./table.ts";

const BODY_LIMIT_BYTES = 1024;

const schema = {
  hide: true,
  body: { type: "object", required: ["code"], properties: { code: { type: "string", maxLength: 200 } } },
} as const;

export function registerOneTimeLogin(app: FastifyInstance, { db, browserSessions }: AccountDeps, oneTimeLogin: OneTimeLogin): void {
  app.post<{ Body: { code: string } }>("/api/auth/session/code", { schema, bodyLimit: BODY_LIMIT_BYTES }, async (request, reply) => {
    const isOwn = isLoopback(request.hostname) && isLoopback(request.ip) && request.headers["x-requested-with"] === "atherops";
    // Taken before anything is waited for: of two that come at once, one gets in.
    const user = isOwn && oneTimeLogin.take(request.body.code) ? await findFirstOperator(db) : undefined;
    if (!user) {
      audit(request, "login.failed", { reason: "one-time link" });
      throw new ApiError("invalid_credentials", "the link was used before, is older than ten minutes, or a newer one was made");
    }
    await browserSessions.open(request, reply, user);
    audit(request, "login", { user_id: user.id, org_id: user.org_id, email: user.email });
    return await reply.code(204).header("cache-control", "no-store").send();
  });
}
