// The identity provider, by openid-client. Invariant: what it answers is bounded in bytes and time; what it is and its keys are asked for at
// first use, kept for an hour, and used on while it is away; no token, code or secret leaves this file. Loaded only where somebody logs in
// by it: fetch and its companions are 5 MB.
import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  type Configuration,
  type CustomFetch,
  customFetch,
  discovery,
  enableNonRepudiationChecks,
  fetchUserInfo,
  None,
} from "openid-client";
import { Agent, type Dispatcher, fetch, ProxyAgent, type RequestInit } from "undici";
import { isLoopback } from "../../agent/common/host-name.ts";
import { isExempt } from "../../agent/common/no-proxy.ts";
import { type Attempt, challengeOf } from "./attempt.ts";

const TIMEOUT_S = 10;
const MAX_ANSWER_BYTES = 1024 * 1024;
const KEPT_MS = 3_600_000;
/** After a failure, so that strangers do not make us ask all the time. */
const ASKED_AGAIN_AFTER_MS = 2_000;

export interface ProviderOptions {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string | undefined;
  readonly scopes: string;
  readonly groupsClaim: string;
  readonly httpsProxy: string | undefined;
  readonly httpProxy: string | undefined;
  readonly noProxy: string | undefined;
}

/** It cannot be reached, or fails itself. */
export class ProviderAway extends Error {
  override readonly name = "ProviderAway";
}

/** It, or what it says, does not vouch for this login. `reason` is a word of the protocol. */
export class NotVouched extends Error {
  override readonly name = "NotVouched";
  readonly reason: string;
  constructor(reason: string) {
    super(`the identity provider does not vouch for this login: ${reason}`);
    this.reason = reason;
  }
}

export class Provider {
  readonly #options: ProviderOptions;
  readonly #fetch: CustomFetch;
  #known: { readonly configuration: Configuration; readonly atMs: number } | undefined;
  #asking: Promise<Configuration> | undefined;
  #failed: { readonly error: unknown; readonly atMs: number } | undefined;

  constructor(options: ProviderOptions) {
    this.#options = options;
    this.#fetch = boundedFetch(options);
  }

  /** Where the browser is sent. Throws ProviderAway. */
  async loginUrl({ state, nonce, verifier }: Attempt, redirectUri: string): Promise<string> {
    const parameters = { redirect_uri: redirectUri, scope: this.#options.scopes, state, nonce, response_type: "code" };
    const pkce = { code_challenge: challengeOf(verifier), code_challenge_method: "S256" };
    return buildAuthorizationUrl(await this.#configuration(), { ...parameters, ...pkce }).href;
  }

  /** What it says of the user who came back by `url`. Throws ProviderAway and NotVouched. */
  async claimsOf({ state, nonce, verifier }: Attempt, url: URL): Promise<Record<string, unknown> & { sub: string }> {
    const configuration = await this.#configuration();
    try {
      const checks = { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, idTokenExpected: true };
      const tokens = await authorizationCodeGrant(configuration, url, checks);
      const claims = tokens.claims();
      if (!claims) throw new NotVouched("no_id_token");
      const isWhole = ["email", "email_verified", this.#options.groupsClaim].every((name) => claims[name] !== undefined);
      if (isWhole || !configuration.serverMetadata().userinfo_endpoint) return claims;
      // Many keep ID tokens small.
      return mergeClaims(claims, await fetchUserInfo(configuration, tokens.access_token, claims.sub));
    } catch (error) {
      throw told(error);
    }
  }

  async #configuration(): Promise<Configuration> {
    const nowMs = performance.now();
    const known = this.#known;
    if (known && nowMs - known.atMs < KEPT_MS) return known.configuration;
    if (this.#failed && nowMs - this.#failed.atMs < ASKED_AGAIN_AFTER_MS) {
      if (known) return known.configuration;
      throw this.#failed.error;
    }
    try {
      this.#asking ??= this.#discovered().finally(() => (this.#asking = undefined));
      return await this.#asking;
    } catch (error) {
      this.#failed = { error: away(error), atMs: performance.now() };
      if (known) return known.configuration;
      throw this.#failed.error;
    }
  }

  async #discovered(): Promise<Configuration> {
    const { issuer, clientId, clientSecret } = this.#options;
    const isPlain = new URL(issuer).protocol === "http:";
    const configuration = await discovery(new URL(issuer), clientId, {}, clientAuth(clientSecret), {
      [customFetch]: this.#fetch,
      timeout: TIMEOUT_S,
      // A token's signature is verified as well, although it comes straight from the provider.
      execute: [...(isPlain ? [allowInsecureRequests] : []), enableNonRepudiationChecks],
    });
    this.#known = { configuration, atMs: performance.now() };
    this.#failed = undefined;
    return configuration;
  }
}

/**
 * The ID token's claims, completed by those of the userinfo endpoint. `email_verified` is taken from the answer that `email` is from: a user
 * may have two addresses, of which one is verified.
 */
function mergeClaims<T extends Record<string, unknown>>(idToken: T, userinfo: Record<string, unknown>): T {
  const isEmailOfIdToken = idToken["email"] !== undefined && idToken["email"] !== userinfo["email"];
  const isVerifiedByIdToken = isEmailOfIdToken || (idToken["email"] !== undefined && idToken["email_verified"] !== undefined);
  return { ...userinfo, ...idToken, email_verified: (isVerifiedByIdToken ? idToken : userinfo)["email_verified"] };
}

/** As the provider says that it takes the secret; RFC 8414 has `client_secret_basic` where it does not say. */
function clientAuth(secret: string | undefined): ClientAuth {
  if (secret === undefined) return None();
  const [post, basic] = [ClientSecretPost(secret), ClientSecretBasic(secret)];
  return (server, ...rest) => {
    const taken = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
    return (taken.includes("client_secret_basic") ? basic : post)(server, ...rest);
  };
}

/** fetch, through a proxy where one applies; a failing provider is ProviderAway, and so is an answer without end. */
function boundedFetch(options: ProviderOptions): CustomFetch {
  const dispatcherOf = dispatchers(options);
  return async (url, init) => {
    const answer = await fetch(url, { ...(init as RequestInit), dispatcher: dispatcherOf(url) }).catch(unreached);
    if (answer.status >= 500) throw new ProviderAway(`it answers ${answer.status}`);
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for await (const part of answer.body ?? []) {
      bytes += part.byteLength;
      if (bytes > MAX_ANSWER_BYTES) throw new ProviderAway(`it answers more than ${MAX_ANSWER_BYTES} bytes`);
      parts.push(part);
    }
    return new Response(Buffer.concat(parts), { status: answer.status, headers: [...answer.headers] });
  };
}

/** Loopback is never reached through a proxy. */
function dispatchers({ httpsProxy, httpProxy, noProxy = "" }: ProviderOptions): (url: string) => Dispatcher {
  const straight = new Agent({ connect: { timeout: TIMEOUT_S * 1000 } });
  const [overTls, plain] = [httpsProxy, httpProxy].map((uri) => (uri === undefined ? straight : new ProxyAgent({ uri })));
  return (url) => {
    const { hostname, protocol } = new URL(url);
    const proxied = (protocol === "https:" ? overTls : plain) ?? straight;
    return isLoopback(hostname) || isExempt(url, noProxy) ? straight : proxied;
  };
}

function unreached(error: unknown): never {
  const { message, cause } = error as Error;
  throw new ProviderAway(cause instanceof Error ? cause.message || message : message);
}

function away(error: unknown): ProviderAway {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof ProviderAway) return at;
  return new ProviderAway((error as Error).message);
}

/** The library's errors hold answers and tokens: only their code goes on. */
function told(error: unknown): Error {
  if (error instanceof NotVouched) return error;
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof ProviderAway) return at;
  const { error: answered, code, name } = error as { error?: unknown; code?: unknown; name?: string };
  if (name === "TimeoutError" || code === "OAUTH_TIMEOUT") return new ProviderAway("it does not answer in time");
  const words = [answered, code].filter((word) => typeof word === "string");
  return new NotVouched(words.find((word) => /^[\w-]{1,80}$/.test(word)) ?? "invalid_answer");
}
