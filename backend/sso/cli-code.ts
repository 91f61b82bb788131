// The end of a login of the admin client by single sign-on. The browser brings a code to the client, on its own machine's loopback; the client
// exchanges it for a session. Invariant: a code is good once, for a minute, and only with the verifier whose hash the login began with, so
// that whoever else learns it has nothing; a user who changed meanwhile has none.
import { randomUUID, type KeyObject } from "node:crypto";
import { SignJWT } from "jose";
import type { Kysely } from "kysely";
import { keepBrowserSession } from "../accounts/browser-session.ts";
import type { Sessions } from "../accounts/session.ts";
import { ALGORITHM, claimsIn, isInForce, isSigned, ISSUER, type SigningSecrets, verifyingSecrets } from "../accounts/signed-token.ts";
import type { AccountTables, UserRow } from "../accounts/table.ts";
import type { SessionUser } from "../auth/request-identity.ts";
import { uuidOf } from "../http/schemas.ts";
import { type CliReturn, challengeOf } from "./attempt.ts";

const AUDIENCE = "atherops-cli";
const TTL_S = 60;

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

  /** Where the browser of this user is led. Its row is a browser's session whose cookie nobody gets: what is there once can be taken once. */
  async returnUrl({ port, state, challenge }: CliReturn, user: UserRow): Promise<string> {
    const nowS = Math.floor(this.#options.now() / 1000);
    const id = randomUUID();
    const row = { id, user_id: user.id, created_at: new Date(nowS * 1000), expires_at: new Date((nowS + TTL_S) * 1000) };
    await this.#options.db.transaction().execute(async (trx) => await keepBrowserSession(trx, row));
    const code = await new SignJWT({ org_id: user.org_id, epoch: user.session_epoch, challenge })
      .setProtectedHeader({ alg: ALGORITHM, typ: "JWT" })
      .setSubject(user.id)
      .setJti(id)
      .setIssuer(ISSUER)
      .setAudience(AUDIENCE)
      .setExpirationTime(nowS + TTL_S)
      .sign(this.#secrets[0]);
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
}
