// Sessions of browsers: a signed cookie and a row. Invariant: the cookie counts only beside a header that no other site can make a browser
// send; it ends after 12 hours without a request, 7 days after the login, and within 5 s when it is ended, its user is removed or has a
// smaller role or another password.
import { randomUUID, type KeyObject } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type JWTPayload, SignJWT } from "jose";
import type { DatabaseOutage } from "../auth/database-outage.ts";
import { LookupCache, type LookupSource } from "../auth/lookup-cache.ts";
import { RANK, type Role, type SessionUser } from "../auth/request-identity.ts";
import { ApiError } from "../errors.ts";
import { cookieOf, setCookie } from "../http/cookies.ts";
import { uuidOf } from "../http/schemas.ts";
import type { Sessions } from "./session.ts";
import { ALGORITHM, claimsIn, isInForce, isSigned, ISSUER, type SigningSecrets, verifyingSecrets } from "./signed-token.ts";
import {
  type AccountDb,
  type AccountTables,
  type BrowserSessionRow,
  changedBrowserSessions,
  findBrowserSessions,
  type UserRow,
} from "./table.ts";
import type { Kysely } from "kysely";

const AUDIENCE = "atherops-browser";
const COOKIE = "atherops";
const IDLE_S = 12 * 3600;
const LONGEST_S = 7 * 86_400;
/** A cookie is made anew when it is older. */
const RENEWED_AFTER_S = 3600;
/** Of one user; the oldest make room. */
const MOST_OF_A_USER = 100;
/**
 * Rows that end so soon are logins under way (sso/cli-code.ts, six minutes), or all but over: of them there are as many, and they take no
 * session's room.
 */
const LOGIN_LONGEST_S = 600;

export interface BrowserSessionOptions extends SigningSecrets {
  db: Kysely<AccountTables>;
  sessions: Pick<Sessions, "find">;
  now?: () => number;
  outage?: DatabaseOutage;
}

/** Who asks, and until when without another request. */
export interface BrowserSession {
  readonly id: string;
  readonly user: SessionUser;
  readonly expiresAt: Date;
}

export class BrowserSessions {
  readonly #db: Kysely<AccountTables>;
  readonly #secrets: readonly [KeyObject, ...KeyObject[]];
  readonly #sessions: Pick<Sessions, "find">;
  readonly #now: () => number;
  readonly #rows: LookupCache<{ readonly userId: string }>;

  constructor({ db, sessions, now, outage, ...secrets }: BrowserSessionOptions) {
    this.#db = db;
    this.#secrets = verifyingSecrets(secrets);
    this.#sessions = sessions;
    this.#now = now ?? Date.now;
    const source: LookupSource<{ readonly userId: string }> = {
      find: async (ids) =>
        (await findBrowserSessions(db, ids)).map((row) => ({ id: row.id, state: row.user_id, read: () => ({ userId: row.user_id }) })),
      changed: async (states) => await changedBrowserSessions(db, states),
    };
    this.#rows = new LookupCache(source, { now, outage });
  }

  /** Begins a session of this user in the browser that asks. */
  async open(request: FastifyRequest, reply: FastifyReply, user: UserRow): Promise<BrowserSession> {
    const nowS = Math.floor(this.#now() / 1000);
    const row = { id: randomUUID(), user_id: user.id, created_at: new Date(nowS * 1000), expires_at: new Date((nowS + LONGEST_S) * 1000) };
    await this.#db.transaction().execute(async (trx) => await keepBrowserSession(trx, row));
    const claims = { org_id: user.org_id, role: user.role, epoch: user.session_epoch, until: nowS + LONGEST_S };
    const expS = await this.#give(request, reply, { ...claims, sub: user.id, jti: row.id });
    const { id: userId, org_id: orgId, email, role } = user;
    return { id: row.id, user: { userId, orgId, email, role }, expiresAt: new Date(expS * 1000) };
  }

  /** The session of this request; undefined where it has none, or the header that must come with it is missing. Throws `invalid_token`. */
  async find(request: FastifyRequest, reply: FastifyReply): Promise<BrowserSession | undefined> {
    const { authorization, "x-requested-with": with_ } = request.headers;
    if (authorization !== undefined || with_ !== "atherops") return undefined;
    const cookie = cookieOf(request, COOKIE);
    if (cookie === undefined) return undefined;
    const claims = isSigned(cookie, this.#secrets) ? claimsIn(cookie) : undefined;
    if (claims?.aud !== AUDIENCE || !isInForce(claims, this.#now())) throw ended();
    const [id, userId] = [uuidOf(claims.jti ?? ""), uuidOf(claims.sub ?? "")];
    const row = id === undefined ? undefined : await this.#rows.find(id);
    const user = row && row.userId === userId ? await this.#sessions.find(row.userId) : undefined;
    if (!id || !user || user.orgId !== claims["org_id"] || user.epoch !== claims["epoch"]) throw ended();
    if (RANK[user.role] < RANK[claims["role"] as Role]) throw ended();
    const isOld = (claims.iat ?? 0) + RENEWED_AFTER_S <= this.#now() / 1000;
    const expS = isOld && !reply.raw.headersSent ? await this.#give(request, reply, claims) : (claims.exp ?? 0);
    return { id, user, expiresAt: new Date(expS * 1000) };
  }

  /** Ends it here at once and everywhere within 5 s. */
  async end(request: FastifyRequest, reply: FastifyReply, { id }: BrowserSession): Promise<void> {
    await this.#db.deleteFrom("browser_sessions").where("id", "=", id).execute();
    this.#rows.forget(id);
    setCookie(request, reply, { name: COOKIE, value: "", sameSite: "Strict", maxAgeS: 0 });
  }

  /** Answers when it ends, Unix seconds. */
  async #give(request: FastifyRequest, reply: FastifyReply, { sub, jti, org_id, role, epoch, until }: JWTPayload): Promise<number> {
    const nowS = Math.floor(this.#now() / 1000);
    const expS = Math.min(nowS + IDLE_S, Number(until));
    const value = await new SignJWT({ sub: sub ?? "", jti: jti ?? "", org_id, role, epoch, until })
      .setProtectedHeader({ alg: ALGORITHM, typ: "JWT" })
      .setIssuer(ISSUER)
      .setAudience(AUDIENCE)
      .setIssuedAt(nowS)
      .setExpirationTime(expS)
      .sign(this.#secrets[0]);
    setCookie(request, reply, { name: COOKIE, value, sameSite: "Strict", maxAgeS: expS - nowS });
    return expS;
  }
}

/** Within a transaction: the user's expired ones are forgotten, and the oldest of too many of its kind, which its end tells. */
export async function keepBrowserSession(db: AccountDb, row: BrowserSessionRow): Promise<void> {
  await db.deleteFrom("browser_sessions").where("user_id", "=", row.user_id).where("expires_at", "<=", row.created_at).execute();
  const edge = new Date(row.created_at.getTime() + LOGIN_LONGEST_S * 1000);
  const ofKind = row.expires_at > edge ? ">" : "<=";
  const kept = db.selectFrom("browser_sessions").select("id").where("user_id", "=", row.user_id);
  const newest = kept
    .where("expires_at", ofKind, edge)
    .orderBy("created_at", "desc")
    .orderBy("id")
    .limit(MOST_OF_A_USER - 1);
  const ids = (await newest.execute()).map(({ id }) => id);
  const others = db.deleteFrom("browser_sessions").where("user_id", "=", row.user_id).where("expires_at", ofKind, edge);
  if (ids.length === MOST_OF_A_USER - 1) await others.where("id", "not in", ids).execute();
  await db.insertInto("browser_sessions").values(row).execute();
}

function ended(): ApiError {
  return new ApiError("invalid_token", "the browser's session has ended or is not valid: log in again");
}
