// The guards of routes that are not signed: sessions (bearer tokens and browser cookies) with a minimum role, and read tokens. Invariant: a
// read token, or a token of a trusted issuer, is accepted only by `reader()`, and refused with a specific message elsewhere. A session token is never accepted as the password
// of Basic auth.
import type { FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../../errors.ts";
import { type Guards, RANK, readCredential, type ReadToken, type SessionUser } from "../../http/request-identity.ts";
import type { BrowserSessions } from "./browser-session.ts";
import type { TrustedIssuers } from "../issuers/trusted-issuers.ts";
import { isIdentityToken, type ReadTokens } from "./read-token.ts";
import type { Sessions } from "./session.ts";

export interface UserGuardsOptions {
  readonly sessions: Sessions;
  readonly browserSessions: Pick<BrowserSessions, "find">;
  readonly readTokens: Pick<ReadTokens, "find">;
  readonly issuers: Pick<TrustedIssuers, "verify">;
}

export function createUserGuards({ sessions, browserSessions, readTokens, issuers }: UserGuardsOptions): Pick<Guards, "user" | "reader"> {
  const authenticate = async (request: FastifyRequest, reply: FastifyReply): Promise<SessionUser> =>
    (await browserSessions.find(request, reply))?.user ?? (await sessions.authenticate(request.headers.authorization));
  return {
    user: (minimum) => async (request, reply) => {
      const { authorization } = request.headers;
      if (await readTokens.find(authorization))
        throw new ApiError("forbidden", "a read token only reads telemetry and rules: log in for this");
      const user = await authenticate(request, reply);
      if (RANK[user.role] < RANK[minimum]) throw new ApiError("forbidden", `this requires the role ${minimum}; your role is ${user.role}`);
      request.user = user;
    },
    reader: () => async (request, reply) => {
      const { authorization = "" } = request.headers;
      const token = await readTokens.find(authorization);
      const credential = readCredential(authorization);
      if (token) request.readToken = token;
      else if (credential !== undefined && isIdentityToken(credential)) request.readToken = await readerOfIdentity(issuers, credential);
      else if (/^Basic /i.test(authorization))
        throw new ApiError("invalid_token", "the password must be a read token (POST /api/read-tokens); the user name may be any");
      else request.user = await authenticate(request, reply);
    },
  };
}

async function readerOfIdentity(issuers: Pick<TrustedIssuers, "verify">, token: string): Promise<ReadToken> {
  const { readToken, issuerName } = await issuers.verify(token);
  if (!readToken) throw new ApiError("forbidden", `no rule of the issuer ${issuerName} permits this token to read`);
  return readToken;
}
