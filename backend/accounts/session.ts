// Session JWTs: issued at login, verified on every request of a user. Invariant: algorithm, issuer and audience are fixed; the claims say
// who it is, the database says what that user may do now, and is asked again at most USER_CACHE_MS later, so that a deleted or demoted user
// is refused within 5 seconds in every replica.
import type { KeyObject } from "node:crypto";
import { type JWTPayload, SignJWT } from "jose";
import { ApiError } from "../errors.ts";
import type { SessionUser } from "../auth/request-identity.ts";
import { ALGORITHM, claimsIn, isInForce, isSigned, ISSUER, type SigningSecrets, verifyingSecrets } from "./signed-token.ts";
import type { AccountDb, UserRow } from "./table.ts";

const AUDIENCE = "atherops-api";
/** How old what is known of a user may be. With the time of the query it stays below the promised 5 s. */
const USER_CACHE_MS = 3_000;
const MAX_CACHED_USERS = 10_000;

export interface SessionOptions extends SigningSecrets {
  db: AccountDb;
  ttlMs: number;
  now?: () => number;
}

/** Issues and verifies sessions; holds the bounded cache of users. */
export class Sessions {
  readonly #db: AccountDb;
  readonly #secrets: readonly [KeyObject, ...KeyObject[]];
  readonly #ttlMs: number;
  readonly #now: () => number;
  readonly #users = new Map<string, { row: Promise<UserRow | undefined>; loadedMs: number }>();

  constructor({ db, ttlMs, now = Date.now, ...secrets }: SessionOptions) {
    this.#db = db;
    this.#secrets = verifyingSecrets(secrets);
    this.#ttlMs = ttlMs;
    this.#now = now;
  }

  /** A session JWT for this user: claims `sub`, `org_id`, `role`, `epoch`, `iat`, `exp`, `iss`, `aud`. */
  async issue(user: UserRow): Promise<string> {
    const nowS = Math.floor(this.#now() / 1000);
    return await new SignJWT({ org_id: user.org_id, role: user.role, epoch: user.session_epoch })
      .setProtectedHeader({ alg: ALGORITHM, typ: "JWT" })
      .setSubject(user.id)
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
    const row = claims.sub === undefined ? undefined : await this.#user(claims.sub);
    if (!row || row.org_id !== claims["org_id"] || row.session_epoch !== claims["epoch"]) throw ended();
    return { userId: row.id, orgId: row.org_id, email: row.email, role: row.role };
  }

  /** What this replica itself changed is seen at once. */
  forget(userId: string): void {
    this.#users.delete(userId);
  }

  #verified(token: string): JWTPayload {
    const claims = isSigned(token, this.#secrets) ? claimsIn(token) : undefined;
    if (claims?.aud !== AUDIENCE || !isInForce(claims, this.#now())) throw ended();
    return claims;
  }

  async #user(userId: string): Promise<UserRow | undefined> {
    const known = this.#users.get(userId);
    if (known && this.#now() - known.loadedMs < USER_CACHE_MS) return await known.row;
    const row = this.#db.selectFrom("users").selectAll().where("id", "=", userId).executeTakeFirst();
    const entry = { row, loadedMs: this.#now() };
    this.#users.delete(userId);
    this.#users.set(userId, entry);
    if (this.#users.size > MAX_CACHED_USERS) this.#users.delete(this.#users.keys().next().value ?? "");
    row.catch(() => this.#users.get(userId) === entry && this.#users.delete(userId));
    return await row;
  }
}

function ended(): ApiError {
  return new ApiError("invalid_token", "the session has expired or is not valid: log in again");
}
