// The client of the identity provider, based on openid-client. Invariant: responses are limited in bytes and time. The provider's metadata and
// keys are loaded on first use, cached for an hour, and still used if the provider is unreachable. No token, code or secret leaves this file.
// Loaded on the first login, because fetch and its dependencies use 5 MB.
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
import { isLoopback } from "../../../common/ip-networks.ts";
import { isExempt } from "../../../common/no-proxy.ts";
import { MAX_PROVIDER_RESPONSE_BYTES, MAX_PROVIDER_RESPONSE_PIECES } from "../auth-limits.ts";
import { type Attempt, challengeOf } from "./attempt.ts";

const TIMEOUT_S = 10;
const CACHE_MS = 3_600_000;
/** Wait after a failure, so that unauthenticated clients cannot cause constant requests. */
const RETRY_AFTER_MS = 2_000;

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

/** The provider is unreachable or fails. */
export class ProviderUnavailable extends Error {
  override readonly name = "ProviderUnavailable";
}

/** The provider rejected the login, or its response is invalid. `reason` is an error code of the protocol. */
export class LoginRejected extends Error {
  override readonly name = "LoginRejected";
  readonly reason: string;
  constructor(reason: string) {
    super(`the identity provider rejected this login: ${reason}`);
    this.reason = reason;
  }
}

export class Provider {
  readonly #options: ProviderOptions;
  readonly #fetch: CustomFetch;
  #cached: { readonly configuration: Configuration; readonly atMs: number } | undefined;
  #loading: Promise<Configuration> | undefined;
  #failed: { readonly error: unknown; readonly atMs: number } | undefined;

  constructor(options: ProviderOptions) {
    this.#options = options;
    this.#fetch = boundedFetch(options);
  }

  /** Where the browser is redirected. Throws ProviderUnavailable. */
  async loginUrl({ state, nonce, verifier }: Attempt, redirectUri: string): Promise<string> {
    const parameters = { redirect_uri: redirectUri, scope: this.#options.scopes, state, nonce, response_type: "code" };
    const pkce = { code_challenge: challengeOf(verifier), code_challenge_method: "S256" };
    return buildAuthorizationUrl(await this.#configuration(), { ...parameters, ...pkce }).href;
  }

  /** The claims of the user who was redirected back to `url`. Throws ProviderUnavailable and LoginRejected. */
  async fetchClaims({ state, nonce, verifier }: Attempt, url: URL): Promise<Record<string, unknown> & { sub: string }> {
    const configuration = await this.#configuration();
    try {
      const checks = { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, idTokenExpected: true };
      const tokens = await authorizationCodeGrant(configuration, url, checks);
      const claims = tokens.claims();
      if (!claims) throw new LoginRejected("no_id_token");
      const isComplete = ["email", "email_verified", this.#options.groupsClaim].every((name) => claims[name] !== undefined);
      if (isComplete || !configuration.serverMetadata().userinfo_endpoint) return claims;
      // Many providers keep ID tokens small.
      return mergeClaims(claims, await fetchUserInfo(configuration, tokens.access_token, claims.sub));
    } catch (error) {
      throw sanitizeError(error);
    }
  }

  async #configuration(): Promise<Configuration> {
    const nowMs = performance.now();
    const cached = this.#cached;
    if (cached && nowMs - cached.atMs < CACHE_MS) return cached.configuration;
    if (this.#failed && nowMs - this.#failed.atMs < RETRY_AFTER_MS) {
      if (cached) return cached.configuration;
      throw this.#failed.error;
    }
    try {
      this.#loading ??= this.#discover().finally(() => (this.#loading = undefined));
      return await this.#loading;
    } catch (error) {
      this.#failed = { error: toUnavailable(error), atMs: performance.now() };
      if (cached) return cached.configuration;
      throw this.#failed.error;
    }
  }

  async #discover(): Promise<Configuration> {
    const { issuer, clientId, clientSecret } = this.#options;
    const isPlain = new URL(issuer).protocol === "http:";
    const configuration = await discovery(new URL(issuer), clientId, {}, clientAuth(clientSecret), {
      [customFetch]: this.#fetch,
      timeout: TIMEOUT_S,
      // Also verifies the signature of the ID token, although it comes directly from the provider.
      execute: [...(isPlain ? [allowInsecureRequests] : []), enableNonRepudiationChecks],
    });
    this.#cached = { configuration, atMs: performance.now() };
    this.#failed = undefined;
    return configuration;
  }
}

/**
 * The claims of the ID token, completed by those of the userinfo endpoint. `email_verified` comes from the same source as `email`, because
 * a user may have two addresses, only one of which is verified.
 */
function mergeClaims<T extends Record<string, unknown>>(idToken: T, userinfo: Record<string, unknown>): T {
  const isEmailOfIdToken = idToken["email"] !== undefined && idToken["email"] !== userinfo["email"];
  const isVerifiedByIdToken = isEmailOfIdToken || (idToken["email"] !== undefined && idToken["email_verified"] !== undefined);
  return { ...userinfo, ...idToken, email_verified: (isVerifiedByIdToken ? idToken : userinfo)["email_verified"] };
}

/** Sends the secret with a method that the provider supports; the default of RFC 8414 is `client_secret_basic`. */
function clientAuth(secret: string | undefined): ClientAuth {
  if (secret === undefined) return None();
  const [post, basic] = [ClientSecretPost(secret), ClientSecretBasic(secret)];
  return (server, ...rest) => {
    const supported = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
    return (supported.includes("client_secret_basic") ? basic : post)(server, ...rest);
  };
}

/** fetch, through a proxy if one is configured. Server errors and oversized responses are ProviderUnavailable. */
function boundedFetch(options: ProviderOptions): CustomFetch {
  const findDispatcher = createDispatchers(options);
  return async (url, init) => {
    const response = await fetch(url, { ...(init as RequestInit), dispatcher: findDispatcher(url) }).catch(throwUnreachable);
    if (response.status >= 500) throw new ProviderUnavailable(`it responded with status ${response.status}`);
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of response.body ?? []) {
      bytes += chunk.byteLength;
      if (bytes > MAX_PROVIDER_RESPONSE_BYTES) throw new ProviderUnavailable(`its response exceeds ${MAX_PROVIDER_RESPONSE_BYTES} bytes`);
      chunks.push(chunk);
      if (chunks.length > MAX_PROVIDER_RESPONSE_PIECES) throw new ProviderUnavailable("its response arrives in too many small pieces");
    }
    return new Response(Buffer.concat(chunks), { status: response.status, headers: [...response.headers] });
  };
}

/** Loopback addresses never use a proxy. */
function createDispatchers({ httpsProxy, httpProxy, noProxy = "" }: ProviderOptions): (url: string) => Dispatcher {
  const direct = new Agent({ connect: { timeout: TIMEOUT_S * 1000 } });
  const [overTls, plain] = [httpsProxy, httpProxy].map((uri) => (uri === undefined ? direct : new ProxyAgent({ uri })));
  return (url) => {
    const { hostname, protocol } = new URL(url);
    const proxied = (protocol === "https:" ? overTls : plain) ?? direct;
    return isLoopback(hostname) || isExempt(url, noProxy) ? direct : proxied;
  };
}

function throwUnreachable(error: unknown): never {
  const { message, cause } = error as Error;
  throw new ProviderUnavailable(cause instanceof Error ? cause.message || message : message);
}

function toUnavailable(error: unknown): ProviderUnavailable {
  for (let cause = error; cause instanceof Error; cause = cause.cause) if (cause instanceof ProviderUnavailable) return cause;
  return new ProviderUnavailable((error as Error).message);
}

/** The errors of the library contain responses and tokens, so only their code is kept. */
function sanitizeError(error: unknown): Error {
  if (error instanceof LoginRejected) return error;
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof ProviderUnavailable) return at;
  const { error: oauthError, code, name } = error as { error?: unknown; code?: unknown; name?: string };
  if (name === "TimeoutError" || code === "OAUTH_TIMEOUT") return new ProviderUnavailable("it does not respond in time");
  const codes = [oauthError, code].filter((value) => typeof value === "string");
  return new LoginRejected(codes.find((value) => /^[\w-]{1,80}$/.test(value)) ?? "invalid_response");
}
