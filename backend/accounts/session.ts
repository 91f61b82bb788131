// Session JWTs: issued at login, verified on every request of a user. Invariant: algorithm, issuer and audience are fixed; the claims say
// who it is, the database says what that user may do now, and is asked again as auth/lookup-cache.ts does, so that a deleted or demoted
// user is refused within 5 seconds in every replica.
import type { KeyObject } from "node:crypto";
import { type JWTPayload, SignJWT } from "jose";
import type { DatabaseOutage } from "../auth/database-outage.ts";
import { LookupCache, type LookupSource } from "../auth/lookup-cache.ts";
import { ApiError } from "../errors.ts";
import { uuidOf } from "../http/schemas.ts";
import type { SessionUser } from "../auth/request-identity.ts";
import { ALGORITHM, claimsIn, isInForce, isSigned, ISSUER, type SigningSecrets, verifyingSecrets } from "./signed-token.ts";
import { type AccountDb, changedUsers, findUsers, type UserRow } from "./table.ts";

const AUDIENCE = "atherops-api";
const MAX_CACHED_USERS = 10_000;

export interface SessionOptions extends SigningSecrets {
  db: AccountDb;
  ttlMs: number;
  now?: () => number;
  outage?: DatabaseOutage;
}

/** Issues and verifies sessions; holds the bounded cache of users. */
export class Sessions {
  readonly #secrets: readonly [KeyObject, ...KeyObject[]];
  readonly #ttlMs: number;
  readonly #now: () => number;
  readonly #users: LookupCache<SessionUser & { readonly epoch: number }>;

  constructor({ db, ttlMs, now, outage, ...secrets }: SessionOptions) {
    this.#secrets = verifyingSecrets(secrets);
    this.#ttlMs = ttlMs;
    this.#now = now ?? Date.now;
    const source: LookupSource<SessionUser & { readonly epoch: number }> = {
      find: async (ids) => (await findUsers(db, ids)).map((row) => ({ id: row.id, state: row.state, read: () => known(row) })),
      changed: async (states) => await changedUsers(db, states),
    };
    this.#users = new LookupCache(source, { maxKnown: MAX_CACHED_USERS, now, outage });
  }

  /** A session JWT for this user: claims `sub`, `org_id`, `role`, `epoch`, `iat`, `exp`, `iss`, `aud`. */
  async issue(user: UserRow): Promise<string> {
    return await this.#sign(known(user));
  }

  /** The same for who has a session of another kind; undefined when this user is gone. */
  async issueFor(userId: string): Promise<string | undefined> {
    const user = await this.find(userId);
    return user && (await this.#sign(user));
  }

  async #sign({ userId, orgId, role, epoch }: SessionUser & { readonly epoch: number }): Promise<string> {
    const nowS = Math.floor(this.#now() / 1000);
    return await new SignJWT({ org_id: orgId, role, epoch })
      .setProtectedHeader({ alg: ALGORITHM, typ: "JWT" })
      .setSubject(userId)
      .setIssuer(ISSUER)
      .setAudience(AUDIENCE)
      .setIssuedAt(nowS)
      .setExpirationTime(nowS + Math.ceil(this.#ttlMs / 1000))
      .sign(this.#secrets[0]);
  }

  /** Who this bearer token belongs to, with the role of now. Throws `invalid_token`. */
  async userOf(authorization: string | undefined): Promise<SessionUser> {
    const token = /^Bearer +([\w-]+\.[\w-]+\.[\w-]+)$/i.exec(authorization ?? "")?.[1];
    if (!token) throw new ApiError("invalid_token", "send `Authorization: Bearer <token>` with a token of POST /api/auth/login");
    const claims = this.#verified(token);
    const id = uuidOf(claims.sub ?? "");
    const user = id === undefined ? undefined : await this.find(id);
    if (!user || user.orgId !== claims["org_id"] || user.epoch !== claims["epoch"]) throw ended();
    return user;
  }

  /** What this user may do now. */
  async find(userId: string): Promise<(SessionUser & { readonly epoch: number }) | undefined> {
    return await this.#users.find(userId);
  }

  /** What this replica itself changed is seen at once. */
  forget(userId: string): void {
    this.#users.forget(userId);
  }

  #verified(token: string): JWTPayload {
    const claims = isSigned(token, this.#secrets) ? claimsIn(token) : undefined;
    if (claims?.aud !== AUDIENCE || !isInForce(claims, this.#now())) throw ended();
    return claims;
  }
}

function known({ id, org_id, email, role, session_epoch }: UserRow): SessionUser & { readonly epoch: number } {
  return { userId: id, orgId: org_id, email, role, epoch: session_epoch };
}

function ended(): ApiError {
  return new ApiError("invalid_token", "the session has expired or is not valid: log in again");
}
