// Login by a one-time code, for the user who ran `npm start` on this machine (../../launcher-channel.ts). POST /api/auth/session/code
// exchanges the code of the printed link for a browser's session of the first operator. Invariants: only one code is valid at a time, for
// ten minutes and one use; only its hash is stored, and it is never logged. The route exists only if `npm start` started this backend on
// loopback. It accepts only browsers of this machine, under a loopback name, and not from other sites. Every invalid code gets the same
// response.
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { addRoute, endpoint } from "../../http/route.ts";
import { isLoopback } from "../../../common/ip-networks.ts";
import { audit } from "../audit-log.ts";
import { ApiError } from "../../errors.ts";
import type { AccountDeps } from "./login.ts";
import { findFirstOperator } from "./account-tables.ts";

const VALID_FOR_MS = 10 * 60_000;
/** 256 bits, which cannot be guessed. */
const CODE_BYTES = 32;

export class OneTimeLogin {
  readonly #now: () => number;
  #current: { readonly hash: Buffer; readonly untilMs: number } | undefined;

  /** `now`: milliseconds of a monotonic clock. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Creates a code and invalidates the previous one. */
  mint(): string {
    const code = randomBytes(CODE_BYTES).toString("base64url");
    this.#current = { hash: hashOf(code), untilMs: this.#now() + VALID_FOR_MS };
    return code;
  }

  /** Whether the code is valid; it is invalid afterwards. Of two concurrent calls one returns true. */
  redeem(code: string): boolean {
    const current = this.#current;
    if (!current || this.#now() >= current.untilMs || !timingSafeEqual(hashOf(code), current.hash)) return false;
    this.#current = undefined;
    return true;
  }
}

function hashOf(code: string): Buffer {
  return createHash("sha256").update(code).digest();
}

const BODY_LIMIT_BYTES = 1024;

export function registerOneTimeLogin(app: FastifyInstance, { db, guards, browserSessions }: AccountDeps, oneTimeLogin: OneTimeLogin): void {
  addRoute(app, guards, {
    ...endpoint("POST", "/api/auth/session/code", "anyone"),
    body: { type: "object", required: ["code"], properties: { code: { type: "string", maxLength: 200 } } },
    maxBodyBytes: BODY_LIMIT_BYTES,
    handler: async (request: FastifyRequest<{ Body: { code: string } }>, reply: FastifyReply) => {
      const isLocal = isLoopback(request.hostname) && isLoopback(request.ip) && request.headers["x-requested-with"] === "atherops";
      // The code is redeemed before the first await, so that of two concurrent requests only one succeeds.
      const user = isLocal && oneTimeLogin.redeem(request.body.code) ? await findFirstOperator(db) : undefined;
      if (!user) {
        audit(request, "login.failed", { reason: "one-time link" });
        throw new ApiError("invalid_credentials", "the link was already used, is older than ten minutes, or was replaced by a newer one");
      }
      await browserSessions.open(request, reply, user);
      audit(request, "login", { user_id: user.id, org_id: user.org_id, email: user.email });
      return await reply.code(204).header("cache-control", "no-store").send();
    },
  });
}
