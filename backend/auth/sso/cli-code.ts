// Completes a login of the command line by single sign-on. The user confirms the login on a page; with the page's token and its cookie, the
// browser is redirected to the loopback port of the command line with a code, which the command line exchanges for a session. Invariant: a
// login creates at most one session, and no code without the confirmation. A code is valid for one minute and only with the verifier whose
// hash the login began with, so a stolen code is useless. It is refused if the user changed in the meantime.
import { type KeyObject, randomBytes, randomUUID } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { JWTPayload } from "jose";
import type { Kysely } from "kysely";
import { insertBrowserSession } from "../sessions/browser-session.ts";
import { type Sessions, signClaims, type SigningSecrets, verifiedClaims, verifyingSecrets } from "../sessions/session.ts";
import type { AccountTables, UserRow } from "../sessions/account-tables.ts";
import type { SessionUser } from "../../http/request-identity.ts";
import { readCookie, setCookie } from "../../http/cookies.ts";
import { parseUuid } from "../../http/schemas.ts";
import { challengeOf, type CliReturn } from "./attempt.ts";

const AUDIENCE = "atherops-cli";
const TTL_S = 60;
/** The audience of the token in the confirmation page's cookie, which only that page sends. */
const CONFIRMATION_AUDIENCE = "atherops-cli-confirmation";
const COOKIE = "atherops-cli";
const CONFIRMATION_TTL_S = 300;

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
   * Starts to wait for the confirmation, and returns the token for the form of the page. The pending login is a row of browser_sessions for
   * which no cookie exists: deleting it makes sure that the code is used only once.
   */
  async requestConfirmation(request: FastifyRequest, reply: FastifyReply, cli: CliReturn, user: UserRow): Promise<string> {
    const nowS = this.#nowS();
    const [id, token] = [randomUUID(), randomBytes(32).toString("base64url")];
    const expires_at = new Date((nowS + CONFIRMATION_TTL_S + TTL_S) * 1000);
    const row = { id, user_id: user.id, created_at: new Date(nowS * 1000), expires_at };
    await this.#options.db.transaction().execute(async (trx) => await insertBrowserSession(trx, row));
    const claims = { sub: user.id, jti: id, org_id: user.org_id, epoch: user.session_epoch, cli, token_hash: challengeOf(token) };
    const value = await signClaims(this.#secrets, CONFIRMATION_AUDIENCE, { ...claims, exp: nowS + CONFIRMATION_TTL_S });
    setCookie(request, reply, { name: COOKIE, value, sameSite: "Strict", maxAgeS: CONFIRMATION_TTL_S });
    return token;
  }

  /**
   * The user confirmed: returns where the browser is redirected. Undefined if the page is from another browser or too old, or the login has
   * ended. The cookie stays, so that a second click on the button works too.
   */
  async confirm(request: FastifyRequest, token: string): Promise<string | undefined> {
    const cookie = readCookie(request, COOKIE) ?? "";
    const claims = this.#verified(cookie, CONFIRMATION_AUDIENCE);
    if (claims?.["token_hash"] !== challengeOf(token)) return undefined;
    const { sub = "", jti = "", org_id, epoch } = claims;
    const { port, state, challenge } = claims["cli"] as CliReturn;
    const pending = await this.#options.db.selectFrom("browser_sessions").select("id").where("id", "=", jti).executeTakeFirst();
    if (!pending) return undefined;
    const code = await signClaims(this.#secrets, AUDIENCE, { sub, jti, org_id, epoch, challenge, exp: this.#nowS() + TTL_S });
    // Only the port comes from the request; the host is fixed.
    return `http://127.0.0.1:${port}/?${new URLSearchParams({ code, state }).toString()}`;
  }

  /** The user of this code; undefined if it is invalid, expired or already used. */
  async redeem(code: string, verifier: string): Promise<SessionUser | undefined> {
    const claims = this.#verified(code, AUDIENCE);
    if (claims?.["challenge"] !== challengeOf(verifier)) return undefined;
    const [id, userId] = [parseUuid(claims.jti ?? ""), parseUuid(claims.sub ?? "")];
    if (id === undefined || userId === undefined) return undefined;
    const { numDeletedRows } = await this.#options.db.deleteFrom("browser_sessions").where("id", "=", id).executeTakeFirst();
    if (numDeletedRows !== 1n) return undefined;
    const user = await this.#options.sessions.find(userId);
    return user && user.orgId === claims["org_id"] && user.epoch === claims["epoch"] ? user : undefined;
  }

  #verified(token: string, audience: string): JWTPayload | undefined {
    return verifiedClaims(token, { secrets: this.#secrets, audience, nowMs: this.#options.now() });
  }

  #nowS(): number {
    return Math.floor(this.#options.now() / 1000);
  }
}
