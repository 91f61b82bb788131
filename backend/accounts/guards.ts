// The guards of everything that is no signed request: sessions with a role, of bearers and of browsers, and what a read token may read as
// well. Invariant: a read token opens what asks for `reader()`, and is refused by name everywhere else; a session is never taken as the
// password of Basic auth.
import type { FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../errors.ts";
import { type Guards, RANK, type SessionUser } from "../auth/request-identity.ts";
import type { BrowserSessions } from "./browser-session.ts";
import type { ReadTokens } from "./read-token.ts";
import type { Sessions } from "./session.ts";

export interface UserGuardsOptions {
  readonly sessions: Sessions;
  readonly browserSessions: Pick<BrowserSessions, "find">;
  readonly readTokens: Pick<ReadTokens, "find">;
}

export function createUserGuards({ sessions, browserSessions, readTokens }: UserGuardsOptions): Pick<Guards, "user" | "reader"> {
  const userOf = async (request: FastifyRequest, reply: FastifyReply): Promise<SessionUser> =>
    (await browserSessions.find(request, reply))?.user ?? (await sessions.userOf(request.headers.authorization));
  return {
    user: (minimum) => async (request, reply) => {
      const { authorization } = request.headers;
      if (await readTokens.find(authorization))
        throw new ApiError("forbidden", "a read token only reads telemetry and rules: log in for this");
      const user = await userOf(request, reply);
      if (RANK[user.role] < RANK[minimum]) throw new ApiError("forbidden", `this needs the role ${minimum}; yours is ${user.role}`);
      request.user = user;
    },
    reader: () => async (request, reply) => {
      const { authorization = "" } = request.headers;
      const token = await readTokens.find(authorization);
      if (token) request.readToken = token;
      else if (/^Basic /i.test(authorization))
        throw new ApiError("invalid_token", "the password must be a read token (POST /api/read-tokens); the user name may be any");
      else request.user = await userOf(request, reply);
    },
  };
}
