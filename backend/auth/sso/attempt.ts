// A pending login, stored in a cookie of the browser that began it; the provider's response must match it. Invariant: it is signed, valid
// for ten minutes and not stored in this replica, so any replica can complete it; by itself it grants nothing. A replica accepts an attempt
// once; at another replica, the provider refuses the code that was already used.
import { createHash, type KeyObject, randomBytes } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import { MAX_ENDED_ATTEMPTS } from "../auth-limits.ts";
import { signClaims, type SigningSecrets, verifiedClaims, verifyingSecrets } from "../sessions/session.ts";
import { readCookie, setCookie } from "../../http/cookies.ts";

const AUDIENCE = "atherops-oidc";
const COOKIE = "atherops-oidc";
const TTL_S = 600;

/** The command line that waits for the login, on the loopback address of the browser's machine. */
export interface CliReturn {
  readonly port: number;
  /** Returned to the command line unchanged. */
  readonly state: string;
  /** SHA-256 of the verifier of the command line, as in PKCE. */
  readonly challenge: string;
}

/** Where the browser goes after a login. */
export interface LoginTarget {
  /** A path of this server. */
  readonly returnTo?: string | undefined;
  readonly cli?: CliReturn | undefined;
}

export interface Attempt extends LoginTarget {
  readonly state: string;
  readonly nonce: string;
  /** The code verifier of PKCE. */
  readonly verifier: string;
}

export class Attempts {
  readonly #secrets: readonly [KeyObject, ...KeyObject[]];
  readonly #now: () => number;
  /** State → expiry of the cookie in Unix seconds, oldest first. */
  readonly #ended = new Map<string, number>();

  constructor(secrets: SigningSecrets, now: () => number) {
    this.#secrets = verifyingSecrets(secrets);
    this.#now = now;
  }

  async begin(request: FastifyRequest, reply: FastifyReply, target: LoginTarget): Promise<Attempt> {
    const attempt = { ...target, state: randomToken(), nonce: randomToken(), verifier: randomToken() };
    const nowS = Math.floor(this.#now() / 1000);
    const value = await signClaims(this.#secrets, AUDIENCE, { ...attempt, exp: nowS + TTL_S });
    // `Lax`, because the provider redirects the browser back here, which is a request from another site.
    setCookie(request, reply, { name: COOKIE, value, sameSite: "Lax", maxAgeS: TTL_S });
    return attempt;
  }

  /** The attempt of this browser; undefined if it is missing, expired or not signed by us. Removes the cookie. */
  end(request: FastifyRequest, reply: FastifyReply): Attempt | "used" | undefined {
    const cookie = readCookie(request, COOKIE);
    if (cookie === undefined) return undefined;
    setCookie(request, reply, { name: COOKIE, value: "", sameSite: "Lax", maxAgeS: 0 });
    const claims = verifiedClaims(cookie, { secrets: this.#secrets, audience: AUDIENCE, nowMs: this.#now() });
    if (!claims) return undefined;
    const { state, nonce, verifier, returnTo, cli } = claims as typeof claims & Attempt;
    if (this.#ended.has(state)) return "used";
    this.#rememberEnd(state, claims.exp ?? 0);
    return { state, nonce, verifier, returnTo, cli };
  }

  #rememberEnd(state: string, expS: number): void {
    this.#ended.set(state, expS);
    for (const [oldest, untilS] of this.#ended) {
      if (untilS * 1000 > this.#now() && this.#ended.size <= MAX_ENDED_ATTEMPTS) break;
      this.#ended.delete(oldest);
    }
  }
}

/** The S256 code challenge of PKCE (RFC 7636, 4.2). */
export function challengeOf(verifier: string): string {
  return createHash("sha256").update(verifier).digest("base64url");
}

function randomToken(): string {
  return randomBytes(32).toString("base64url");
}

/** Path, query and fragment of `text` as a browser resolves it on this server; undefined for anything that leads to another site. */
export function parseReturnPath(text: string): string | undefined {
  // Browsers treat \ as /, and remove tabs and line breaks.
  if (!/^\/(?![/\\])[\u0021-\u007e]*$/.test(text)) return undefined;
  const base = "http://here.invalid";
  const url = URL.parse(text, base);
  if (url?.origin !== base) return undefined;
  const path = `${url.pathname}${url.search}${url.hash}`;
  // `/.//elsewhere` is normalised to `//elsewhere`, which would be another host.
  return path.startsWith("//") ? undefined : path;
}
