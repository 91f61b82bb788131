// A login under way, in a cookie of the browser that began it: what the provider's answer must match. Invariant: it is signed, lives ten
// minutes and is nothing of this replica's, so that another one may end what this one began; it opens nothing by itself. A replica takes
// an attempt once; at another one, the provider refuses the code that was used.
import { createHash, type KeyObject, randomBytes } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import { SignJWT } from "jose";
import { ALGORITHM, claimsIn, isInForce, isSigned, ISSUER, type SigningSecrets, verifyingSecrets } from "../accounts/signed-token.ts";
import { cookieOf, setCookie } from "../http/cookies.ts";

const AUDIENCE = "atherops-oidc";
const COOKIE = "atherops-oidc";
const TTL_S = 600;
/** Attempts that have ended are remembered until their cookie expires. */
const MAX_ENDED = 10_000;

/** Where the admin client waits for a login, on the loopback of the browser's machine, and what it knows it by. */
export interface CliReturn {
  readonly port: number;
  /** Comes back to the client as it is. */
  readonly state: string;
  /** Of the client's own verifier, as in PKCE. */
  readonly challenge: string;
}

/** Where a login leads afterwards. */
export interface Return {
  /** The path of ours to go to. */
  readonly returnTo?: string | undefined;
  readonly cli?: CliReturn | undefined;
}

export interface Attempt extends Return {
  readonly state: string;
  readonly nonce: string;
  /** Of PKCE. */
  readonly verifier: string;
}

export class Attempts {
  readonly #secrets: readonly [KeyObject, ...KeyObject[]];
  readonly #now: () => number;
  /** State → Unix seconds of the cookie's end, oldest first. */
  readonly #ended = new Map<string, number>();

  constructor(secrets: SigningSecrets, now: () => number) {
    this.#secrets = verifyingSecrets(secrets);
    this.#now = now;
  }

  async begin(request: FastifyRequest, reply: FastifyReply, leads: Return): Promise<Attempt> {
    const attempt = { ...leads, state: random(), nonce: random(), verifier: random() };
    const nowS = Math.floor(this.#now() / 1000);
    const value = await new SignJWT({ ...attempt })
      .setProtectedHeader({ alg: ALGORITHM, typ: "JWT" })
      .setIssuer(ISSUER)
      .setAudience(AUDIENCE)
      .setExpirationTime(nowS + TTL_S)
      .sign(this.#secrets[0]);
    // The provider leads the browser back here, which makes it another site's request.
    setCookie(request, reply, { name: COOKIE, value, sameSite: "Lax", maxAgeS: TTL_S });
    return attempt;
  }

  /** What this browser began; undefined for none, one that is too old, and one that is not ours. The cookie is gone with the answer. */
  end(request: FastifyRequest, reply: FastifyReply): Attempt | "used" | undefined {
    const cookie = cookieOf(request, COOKIE);
    if (cookie === undefined) return undefined;
    setCookie(request, reply, { name: COOKIE, value: "", sameSite: "Lax", maxAgeS: 0 });
    const claims = isSigned(cookie, this.#secrets) ? claimsIn(cookie) : undefined;
    if (claims?.aud !== AUDIENCE || !isInForce(claims, this.#now())) return undefined;
    const { state, nonce, verifier, returnTo, cli } = claims as unknown as Attempt;
    if (this.#ended.has(state)) return "used";
    this.#rememberEnd(state, claims.exp ?? 0);
    return { state, nonce, verifier, returnTo, cli };
  }

  #rememberEnd(state: string, expS: number): void {
    this.#ended.set(state, expS);
    for (const [oldest, untilS] of this.#ended) {
      if (untilS * 1000 > this.#now() && this.#ended.size <= MAX_ENDED) break;
      this.#ended.delete(oldest);
    }
  }
}

/** Of PKCE, S256 (RFC 7636, 4.2). */
export function challengeOf(verifier: string): string {
  return createHash("sha256").update(verifier).digest("base64url");
}

function random(): string {
  return randomBytes(32).toString("base64url");
}
