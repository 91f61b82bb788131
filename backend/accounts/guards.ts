// The guards of everything that is no signed request: sessions with a role, and what a read token may read as well. Invariant: a read token
// opens what asks for `reader()`, and is refused by name everywhere else; a session is never taken as the password of Basic auth.
import { ApiError } from "../errors.ts";
import type { Guards, Role } from "../auth/request-identity.ts";
import type { ReadTokens } from "./read-token.ts";
import type { Sessions } from "./session.ts";

const RANK: Record<Role, number> = { viewer: 0, admin: 1, operator: 2 };

export function createUserGuards(sessions: Sessions, readTokens: Pick<ReadTokens, "find">): Pick<Guards, "user" | "reader"> {
  return {
    user: (minimum) => async (request) => {
      const { authorization } = request.headers;
      if (await readTokens.find(authorization))
        throw new ApiError("forbidden", "a read token only reads telemetry and rules: log in for this");
      const user = await sessions.userOf(authorization);
      if (RANK[user.role] < RANK[minimum]) throw new ApiError("forbidden", `this needs the role ${minimum}; yours is ${user.role}`);
      request.user = user;
    },
    reader: () => async (request) => {
      const { authorization = "" } = request.headers;
      const token = await readTokens.find(authorization);
      if (token) request.readToken = token;
      else if (/^Basic /i.test(authorization))
        throw new ApiError("invalid_token", "the password must be a read token (POST /api/read-tokens); the user name may be any");
      else request.user = await sessions.userOf(authorization);
    },
  };
}
