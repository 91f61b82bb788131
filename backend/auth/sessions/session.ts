// Session JWTs: issued at login, verified on every request of a user; and the functions that sign and verify tokens, which read tokens
// share. Invariants: algorithm, issuer and audience are fixed. The claims contain the user; the current role comes from the database
// through auth/lookup-cache.ts, so every replica refuses a deleted or demoted user within 5 seconds. Signatures are verified synchronously:
// jose would use the thread pool that also decompresses request bodies and hashes passwords, so a client that keeps the pool busy would
// delay every reader.
import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from "node:crypto";
import { decodeJwt, decodeProtectedHeader, type JWTPayload, SignJWT } from "jose";
import { readLabelLimits } from "../../admission/limited-labels.ts";
import type { DatabaseOutage } from "../database-outage.ts";
import { MAX_CACHED_USERS } from "../auth-limits.ts";
import { LookupCache, type LookupSource } from "../lookup-cache.ts";
import { ApiError } from "../../errors.ts";
import { parseUuid } from "../../http/schemas.ts";
import type { SessionUser } from "../../http/request-identity.ts";
import { changedRows } from "../../engines/relational/bulk-rows.ts";
import { type AccountDb, findUsers, type UserRow, WATCHED_USERS } from "./account-tables.ts";

const ALGORITHM = "HS256";
const ISSUER = "atherops";
export const JWT_HEADER = { alg: ALGORITHM, typ: "JWT" };

export interface SigningSecrets {
  jwtSecret: Buffer;
  /** Still accepted, but not used for new tokens. */
  jwtPreviousSecret?: Buffer | undefined;
}

/** The secret for new tokens, then those that are only accepted. */
export function verifyingSecrets({ jwtSecret, jwtPreviousSecret }: SigningSecrets): [KeyObject, ...KeyObject[]] {
  return [createSecretKey(jwtSecret), ...(jwtPreviousSecret ? [createSecretKey(jwtPreviousSecret)] : [])];
}

/** A JWT with these claims, our issuer and this audience, signed with the first secret. */
export async function signClaims([secret]: readonly [KeyObject, ...KeyObject[]], audience: string, claims: JWTPayload): Promise<string> {
  return await new SignJWT({ ...claims, iss: ISSUER, aud: audience }).setProtectedHeader(JWT_HEADER).sign(secret);
}

/** The unverified claims of a JWT with this algorithm; undefined for any other text. */
export function parseClaims(token: string): JWTPayload | undefined {
  try {
    const { alg, crit } = decodeProtectedHeader(token);
    return alg === ALGORITHM && crit === undefined ? decodeJwt(token) : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the third part is the HMAC-SHA256 of the first two under one of these secrets; the header is not trusted. */
export function isSigned(token: string, secrets: readonly KeyObject[]): boolean {
  const at = token.lastIndexOf(".");
  const signature = Buffer.from(token.slice(at + 1), "base64url");
  return secrets.some((secret) => {
    const expected = createHmac("sha256", secret).update(token.slice(0, at)).digest();
    return signature.length === expected.length && timingSafeEqual(signature, expected);
  });
}

/** The claims of a token that is signed, for this audience, and not expired; undefined for any other text. */
export function verifiedClaims(
  token: string,
  { secrets, audience, nowMs }: { readonly secrets: readonly KeyObject[]; readonly audience: string; readonly nowMs: number },
): JWTPayload | undefined {
  const claims = isSigned(token, secrets) ? parseClaims(token) : undefined;
  return claims?.aud === audience && isCurrentlyValid(claims, nowMs) ? claims : undefined;
}

/** Whether verified claims have our issuer and have not expired. */
export function isCurrentlyValid({ iss, exp }: JWTPayload, nowMs: number): boolean {
  return iss === ISSUER && typeof exp === "number" && exp > Math.floor(nowMs / 1000);
}

const AUDIENCE = "atherops-api";

/** A user whose sessions are valid while they have the same epoch. */
interface EpochUser extends SessionUser {
  readonly epoch: number;
}

export interface SessionOptions extends SigningSecrets {
  db: AccountDb;
  ttlMs: number;
  now?: () => number;
  outage?: DatabaseOutage;
}

export class Sessions {
  readonly #secrets: readonly [KeyObject, ...KeyObject[]];
  readonly #ttlMs: number;
  readonly #now: () => number;
  readonly #users: LookupCache<EpochUser>;

  constructor({ db, ttlMs, now, outage, ...secrets }: SessionOptions) {
    this.#secrets = verifyingSecrets(secrets);
    this.#ttlMs = ttlMs;
    this.#now = now ?? Date.now;
    const source: LookupSource<EpochUser> = {
      find: async (ids) => (await findUsers(db, ids)).map((row) => ({ id: row.id, state: row.state, read: () => toSessionUser(row) })),
      findChanged: async (states) => await changedRows(db, WATCHED_USERS, states),
    };
    this.#users = new LookupCache(source, { maxRows: MAX_CACHED_USERS, now, outage });
  }

  /** Creates a session JWT for this user: claims `sub`, `org_id`, `role`, `epoch`, `iat`, `exp`, `iss`, `aud`. */
  async issue(user: UserRow): Promise<string> {
    return await this.#sign(toSessionUser(user));
  }

  /** Like `issue`, for a user with another kind of session; undefined if the user was removed. */
  async issueFor(userId: string): Promise<string | undefined> {
    const user = await this.find(userId);
    return user && (await this.#sign(user));
  }

  async #sign({ userId, orgId, role, epoch }: EpochUser): Promise<string> {
    const nowS = Math.floor(this.#now() / 1000);
    const exp = nowS + Math.ceil(this.#ttlMs / 1000);
    return await signClaims(this.#secrets, AUDIENCE, { sub: userId, org_id: orgId, role, epoch, iat: nowS, exp });
  }

  /** The user of this bearer token, with the current role. Throws `invalid_token`. */
  async authenticate(authorization: string | undefined): Promise<SessionUser> {
    const token = /^Bearer +([\w-]+\.[\w-]+\.[\w-]+)$/i.exec(authorization ?? "")?.[1];
    if (!token) throw new ApiError("invalid_token", "send `Authorization: Bearer <token>` with a token of POST /api/auth/login");
    const claims = verifiedClaims(token, { secrets: this.#secrets, audience: AUDIENCE, nowMs: this.#now() });
    if (!claims) throw sessionEnded();
    const id = parseUuid(claims.sub ?? "");
    const user = id === undefined ? undefined : await this.find(id);
    if (!user || user.orgId !== claims["org_id"] || user.epoch !== claims["epoch"]) throw sessionEnded();
    return user;
  }

  /** The user with the current role. */
  async find(userId: string): Promise<EpochUser | undefined> {
    return await this.#users.find(userId);
  }

  /** Call after this replica has changed the user, so that the change takes effect here immediately. */
  forget(userId: string): void {
    this.#users.forget(userId);
  }
}

export function toSessionUser({ id, org_id, email, role, session_epoch, label_limits }: UserRow): EpochUser {
  return { userId: id, orgId: org_id, email, role, epoch: session_epoch, labelLimits: readLabelLimits(label_limits) };
}

function sessionEnded(): ApiError {
  return new ApiError("invalid_token", "the session has expired or is invalid: log in again");
}
