// Sessions of browsers: a signed cookie and a row. Invariant: the cookie is accepted only with a header that other sites cannot make a browser
// send. A session ends after 12 hours without a request, 7 days after the login, and within 5 s if it is ended, its user is removed, or the
// user gets a lower role or another password.
import { type KeyObject, randomUUID } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { JWTPayload } from "jose";
import type { Kysely } from "kysely";
import type { DatabaseOutage } from "../database-outage.ts";
import { MAX_SESSION_AGE_S, MAX_SESSIONS_PER_USER } from "../auth-limits.ts";
import { LookupCache, type LookupSource } from "../lookup-cache.ts";
import { RANK, type Role, type SessionUser } from "../../http/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { readCookie, setCookie } from "../../http/cookies.ts";
import { parseUuid } from "../../http/schemas.ts";
import { changedRows } from "../../engines/relational/bulk-rows.ts";
import { type Sessions, toSessionUser, signClaims, type SigningSecrets, verifiedClaims, verifyingSecrets } from "./session.ts";
import {
  type AccountDb,
  type AccountTables,
  type BrowserSessionRow,
  findBrowserSessions,
  type UserRow,
  WATCHED_BROWSER_SESSIONS,
} from "./account-tables.ts";

const AUDIENCE = "atherops-browser";
const COOKIE = "atherops";
const IDLE_S = 12 * 3600;
/** Older cookies are renewed. */
const RENEW_AFTER_S = 3600;
/**
 * Rows that expire within this time are pending logins (sso/cli-code.ts, six minutes) or nearly expired sessions. They have their own
 * limit, so that they do not evict sessions.
 */
const PENDING_LOGIN_S = 600;

export interface BrowserSessionOptions extends SigningSecrets {
  db: Kysely<AccountTables>;
  sessions: Pick<Sessions, "find">;
  now?: () => number;
  outage?: DatabaseOutage;
}

/** The user of a session, and when it expires without another request. */
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
  /** Session id → user id. */
  readonly #userIds: LookupCache<string>;

  constructor({ db, sessions, now, outage, ...secrets }: BrowserSessionOptions) {
    this.#db = db;
    this.#secrets = verifyingSecrets(secrets);
    this.#sessions = sessions;
    this.#now = now ?? Date.now;
    const source: LookupSource<string> = {
      find: async (ids) => (await findBrowserSessions(db, ids)).map((row) => ({ id: row.id, state: row.user_id, read: () => row.user_id })),
      findChanged: async (states) => await changedRows(db, WATCHED_BROWSER_SESSIONS, states),
    };
    this.#userIds = new LookupCache(source, { now, outage });
  }

  /** Begins a session of this user in the browser that sent the request. */
  async open(request: FastifyRequest, reply: FastifyReply, user: UserRow): Promise<BrowserSession> {
    const nowS = Math.floor(this.#now() / 1000);
    const row = {
      id: randomUUID(),
      user_id: user.id,
      created_at: new Date(nowS * 1000),
      expires_at: new Date((nowS + MAX_SESSION_AGE_S) * 1000),
    };
    await this.#db.transaction().execute(async (trx) => await insertBrowserSession(trx, row));
    const claims = { org_id: user.org_id, role: user.role, epoch: user.session_epoch, until: nowS + MAX_SESSION_AGE_S };
    const expS = await this.#setCookie(request, reply, { ...claims, sub: user.id, jti: row.id });
    return { id: row.id, user: toSessionUser(user), expiresAt: new Date(expS * 1000) };
  }

  /** The session of this request; undefined without a cookie or without the required header. Throws `invalid_token`. */
  async find(request: FastifyRequest, reply: FastifyReply): Promise<BrowserSession | undefined> {
    const { authorization, "x-requested-with": requestedWith } = request.headers;
    if (authorization !== undefined || requestedWith !== "atherops") return undefined;
    const cookie = readCookie(request, COOKIE);
    if (cookie === undefined) return undefined;
    const claims = verifiedClaims(cookie, { secrets: this.#secrets, audience: AUDIENCE, nowMs: this.#now() });
    if (!claims) throw sessionEnded();
    const [id, userId] = [parseUuid(claims.jti ?? ""), parseUuid(claims.sub ?? "")];
    const knownUserId = id === undefined ? undefined : await this.#userIds.find(id);
    const user = userId !== undefined && userId === knownUserId ? await this.#sessions.find(userId) : undefined;
    if (!id || !user || user.orgId !== claims["org_id"] || user.epoch !== claims["epoch"]) throw sessionEnded();
    if (RANK[user.role] < RANK[claims["role"] as Role]) throw sessionEnded();
    const { "x-session-user": expectedUser } = request.headers;
    if (expectedUser !== undefined && expectedUser !== `${user.orgId} ${encodeURIComponent(user.email)}`) throw sessionChanged();
    const needsRenewal = (claims.iat ?? 0) + RENEW_AFTER_S <= this.#now() / 1000;
    const expS = needsRenewal && !reply.raw.headersSent ? await this.#setCookie(request, reply, claims) : (claims.exp ?? 0);
    return { id, user, expiresAt: new Date(expS * 1000) };
  }

  /** Ends the session: immediately in this replica, and within 5 s in others. */
  async end(request: FastifyRequest, reply: FastifyReply, { id }: BrowserSession): Promise<void> {
    await this.#db.deleteFrom("browser_sessions").where("id", "=", id).execute();
    this.#userIds.forget(id);
    setCookie(request, reply, { name: COOKIE, value: "", sameSite: "Strict", maxAgeS: 0 });
  }

  /** Returns when the cookie expires, Unix seconds. */
  async #setCookie(request: FastifyRequest, reply: FastifyReply, { sub, jti, org_id, role, epoch, until }: JWTPayload): Promise<number> {
    const nowS = Math.floor(this.#now() / 1000);
    const expS = Math.min(nowS + IDLE_S, Number(until));
    const claims = { sub: sub ?? "", jti: jti ?? "", org_id, role, epoch, until, iat: nowS, exp: expS };
    const value = await signClaims(this.#secrets, AUDIENCE, claims);
    setCookie(request, reply, { name: COOKIE, value, sameSite: "Strict", maxAgeS: expS - nowS });
    return expS;
  }
}

/** Call it within a transaction. Removes expired sessions of the user, and the oldest beyond the limit for sessions or pending logins. */
export async function insertBrowserSession(db: AccountDb, row: BrowserSessionRow): Promise<void> {
  await db.deleteFrom("browser_sessions").where("user_id", "=", row.user_id).where("expires_at", "<=", row.created_at).execute();
  const pendingUntil = new Date(row.created_at.getTime() + PENDING_LOGIN_S * 1000);
  const comparison = row.expires_at > pendingUntil ? ">" : "<=";
  const ofUser = db.selectFrom("browser_sessions").select("id").where("user_id", "=", row.user_id);
  const newest = ofUser
    .where("expires_at", comparison, pendingUntil)
    .orderBy("created_at", "desc")
    .orderBy("id")
    .limit(MAX_SESSIONS_PER_USER - 1);
  const ids = (await newest.execute()).map(({ id }) => id);
  const others = db.deleteFrom("browser_sessions").where("user_id", "=", row.user_id).where("expires_at", comparison, pendingUntil);
  if (ids.length === MAX_SESSIONS_PER_USER - 1) await others.where("id", "not in", ids).execute();
  await db.insertInto("browser_sessions").values(row).execute();
}

/** The cookie is shared by all tabs, so another tab may have logged in as someone else after this page was loaded. */
function sessionChanged(): ApiError {
  return new ApiError(
    "session_changed",
    "another user has logged in with this browser since this page was loaded, so nothing was read or changed: log in again as the first user in another tab and repeat this, or reload the page to continue as the other user",
  );
}

function sessionEnded(): ApiError {
  return new ApiError("invalid_token", "the browser session has ended or is invalid: log in again");
}
