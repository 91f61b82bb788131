// The end of a login of the admin client by single sign-on. A page asks the person in front of the browser; with the page's token, and the
// cookie that came beside it, the browser brings a code to the client, on its own machine's loopback; the client exchanges it for a session.
// Invariant: a login ends in one session at most; without the person's word there is no code; a code is good for a minute, and only with the
// verifier whose hash the login began with, so that whoever else learns it has nothing; a user who changed meanwhile has none.
import { randomBytes, randomUUID, type KeyObject } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type JWTPayload, SignJWT } from "jose";
import type { Kysely } from "kysely";
import { keepBrowserSession } from "../accounts/browser-session.ts";
import type { Sessions } from "../accounts/session.ts";
import { ALGORITHM, claimsIn, isInForce, isSigned, ISSUER, type SigningSecrets, verifyingSecrets } from "../accounts/signed-token.ts";
import type { AccountTables, UserRow } from "../accounts/table.ts";
import type { SessionUser } from "../auth/request-identity.ts";
import { cookieOf, setCookie } from "../http/cookies.ts";
import { uuidOf } from "../http/schemas.ts";
import { type CliReturn, challengeOf } from "./attempt.ts";

const AUDIENCE = "atherops-cli";
const TTL_S = 60;
/** Of the page: signed for nothing else, and in a cookie that comes along from that page alone. */
const ASKED_AUDIENCE = "atherops-cli-asked";
const COOKIE = "atherops-cli";
const ASKED_TTL_S = 300;

export interface CliCodesOptions {
  readonly db: Kysely<AccountTables>;
  readonly sessions: Pick<Sessions, "find">;
  readonly signing: SigningSecrets;
  readonly now: () => number;
}

export class CliCodes {
  readonly #options: CliCodesOptions;
  readonly #secrets: readonly [KeyObject, ...KeyObject[]];

  constructor(options: CliCodesOptions) {
    this.#options = options;
    this.#secrets = verifyingSecrets(options.signing);
  }

  /**
   * A login of this user waits for the person's word: answers the token of the page's form. Its row is a browser's session whose cookie
   * nobody gets: what is there once can be taken once.
   */
  async ask(request: FastifyRequest, reply: FastifyReply, cli: CliReturn, user: UserRow): Promise<string> {
    const nowS = this.#nowS();
    const [id, token] = [randomUUID(), randomBytes(32).toString("base64url")];
    const expires_at = new Date((nowS + ASKED_TTL_S + TTL_S) * 1000);
    const row = { id, user_id: user.id, created_at: new Date(nowS * 1000), expires_at };
    await this.#options.db.transaction().execute(async (trx) => await keepBrowserSession(trx, row));
    const claims = { sub: user.id, jti: id, org_id: user.org_id, epoch: user.session_epoch, cli, token_hash: challengeOf(token) };
    const value = await this.#signed(claims, ASKED_AUDIENCE, ASKED_TTL_S);
    setCookie(request, reply, { name: COOKIE, value, sameSite: "Strict", maxAgeS: ASKED_TTL_S });
    return token;
  }

  /**
   * The person's word: answers where the browser is led. Undefined: the page was another browser's, is too old, or its login has ended. The
   * cookie stays, so that a button that is pressed twice leads there as well.
   */
  async returnUrl(request: FastifyRequest, token: string): Promise<string | undefined> {
    const cookie = cookieOf(request, COOKIE) ?? "";
    const claims = isSigned(cookie, this.#secrets) ? claimsIn(cookie) : undefined;
    if (claims?.aud !== ASKED_AUDIENCE || !isInForce(claims, this.#options.now()) || claims["token_hash"] !== challengeOf(token))
      return undefined;
    const { sub = "", jti = "", org_id, epoch } = claims;
    const { port, state, challenge } = claims["cli"] as CliReturn;
    const waiting = await this.#options.db.selectFrom("browser_sessions").select("id").where("id", "=", jti).executeTakeFirst();
    if (!waiting) return undefined;
    const code = await this.#signed({ sub, jti, org_id, epoch, challenge }, AUDIENCE, TTL_S);
    // Of the address only the port is anybody's choice.
    return `http://127.0.0.1:${port}/?${new URLSearchParams({ code, state }).toString()}`;
  }

  /** Whose code it is; undefined: it is not good, or no more. */
  async take(code: string, verifier: string): Promise<SessionUser | undefined> {
    const claims = isSigned(code, this.#secrets) ? claimsIn(code) : undefined;
    if (claims?.aud !== AUDIENCE || !isInForce(claims, this.#options.now()) || claims["challenge"] !== challengeOf(verifier))
      return undefined;
    const [id, userId] = [uuidOf(claims.jti ?? ""), uuidOf(claims.sub ?? "")];
    if (id === undefined || userId === undefined) return undefined;
    const taken = await this.#options.db.deleteFrom("browser_sessions").where("id", "=", id).executeTakeFirst();
    if (taken.numDeletedRows !== 1n) return undefined;
    const user = await this.#options.sessions.find(userId);
    return user && user.orgId === claims["org_id"] && user.epoch === claims["epoch"] ? user : undefined;
  }

  async #signed(claims: JWTPayload, audience: string, ttlS: number): Promise<string> {
    return await new SignJWT(claims)
      .setProtectedHeader({ alg: ALGORITHM, typ: "JWT" })
      .setIssuer(ISSUER)
      .setAudience(audience)
      .setExpirationTime(this.#nowS() + ttlS)
      .sign(this.#secrets[0]);
  }

  #nowS(): number {
    return Math.floor(this.#options.now() / 1000);
  }
}
