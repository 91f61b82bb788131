// Single sign-on by OpenID Connect: the code flow with PKCE, state and nonce (docs/contract.md, "Single sign-on"). Invariants: a response
// of the provider is accepted once, and only in the browser that began the login. Every refused login states the reason, on a page for
// browsers, and is audited. If the provider is unreachable, everything else works.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Kysely } from "kysely";
import type { BrowserSessions } from "../sessions/browser-session.ts";
import { describeSession, SESSION_SCHEMA } from "../sessions/login.ts";
import type { Sessions, SigningSecrets } from "../sessions/session.ts";
import type { AccountTables } from "../sessions/account-tables.ts";
import { FairQueue } from "../../admission/fair-queue.ts";
import { audit } from "../audit-log.ts";
import { auditedLimits } from "../label-limits-schema.ts";
import { ApiError } from "../../errors.ts";
import { networkOf } from "../../http/http-client.ts";
import { publicOrigin } from "../../http/cookies.ts";
import { objectSchema, optionalSchema } from "../../http/schemas.ts";
import { addRoute, endpoint, NO_GUARDS } from "../../http/route.ts";
import type { OidcSettings } from "../../settings.ts";
import { Attempts, type CliReturn, type LoginTarget, parseReturnPath } from "./attempt.ts";
import { CliCodes } from "./cli-code.ts";
import { formAction, GRANT_PATH, pageHeaders, renderConfirmation, sendLoginError, START_AGAIN } from "./pages.ts";
import type { Provider, ProviderOptions } from "./provider.ts";
import { findGrant, type ProviderIdentity, type SignedIn, signIn } from "./sign-in.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

export interface SsoRoutesOptions {
  readonly db: Kysely<AccountTables>;
  readonly browserSessions: BrowserSessions;
  readonly sessions: Pick<Sessions, "find" | "forget" | "issueFor">;
  readonly signing: SigningSecrets;
  /** Undefined without single sign-on. */
  readonly oidc: OidcSettings | undefined;
  readonly provider: Pick<ProviderOptions, "clientSecret" | "httpsProxy" | "httpProxy" | "noProxy">;
  readonly now?: () => number;
}

const CALLBACK = "/api/auth/oidc/callback";
/** Concurrent requests to the provider, in total and per client network. */
const QUEUE_LIMITS = { running: 16, perOrg: 4, waitingPerOrg: 16, waitingInAll: 256 };
const RETRY_AFTER_S = 5;

const TOKEN_BODY_BYTES = 4096;
/** At least 43 characters: 256 bits. */
const SECRET_PATTERN = "^[A-Za-z0-9_-]{43,128}$";
const NO_BODY = { type: "null" } as const;
const LOGIN_ERRORS = ["login_refused", "forbidden", "not_found", "conflict"] as const;
const ROUTES = {
  start: {
    ...endpoint("GET", "/api/auth/oidc/start", "anyone", "accounts"),
    errors: LOGIN_ERRORS,
    summary: "Log a browser in by single sign-on",
    description: "Redirects to the identity provider, which redirects to /api/auth/oidc/callback.",
    query: optionalSchema({
      return_to: { type: "string", maxLength: 2000, description: "the path of this server to redirect to after the login" },
      cli_port: {
        type: "integer",
        minimum: 1024,
        maximum: 65_535,
        description: "the port of 127.0.0.1 at which `atherops login --sso` waits for a code; this browser gets no session",
      },
      cli_state: { type: "string", pattern: SECRET_PATTERN, description: "with cli_port: returned together with the code" },
      cli_challenge: {
        type: "string",
        pattern: "^[A-Za-z0-9_-]{43}$",
        description: "with cli_port: SHA-256 of the verifier, as in PKCE",
      },
    }),
    response: { 302: { description: "to the identity provider", ...NO_BODY } },
  },
  callback: {
    ...endpoint("GET", CALLBACK, "anyone", "accounts"),
    errors: LOGIN_ERRORS,
    summary: "Complete a login: the identity provider redirects browsers here",
    description: "Begins a browser session, like POST /api/auth/session. For the command line, a page asks the user to confirm first.",
    response: {
      200: {
        description: "the session, or the confirmation page for the command line",
        content: { "application/json": { schema: SESSION_SCHEMA }, "text/html": { schema: { type: "string" } } },
      },
      303: { description: "to the path of return_to", ...NO_BODY },
    },
  },
  grant: {
    ...endpoint("POST", GRANT_PATH, "anyone", "accounts"),
    errors: LOGIN_ERRORS,
    summary: "Confirm the login of a command line",
    description: "The form of the confirmation page. It is valid for five minutes, together with the cookie of the page.",
    consumes: ["application/x-www-form-urlencoded"],
    body: { type: "object", required: ["token"], properties: { token: { type: "string", pattern: SECRET_PATTERN } } },
    response: { 303: { description: "to the command line, with a code", ...NO_BODY } },
  },
  token: {
    ...endpoint("POST", "/api/auth/oidc/token", "anyone", "accounts"),
    errors: LOGIN_ERRORS,
    summary: "Exchange a code of the command line for a session",
    description: "Returns a session like POST /api/auth/login. A code is valid once, for one minute, with the verifier of its login.",
    body: objectSchema({ code: { type: "string", maxLength: 2000 }, verifier: { type: "string", pattern: SECRET_PATTERN } }),
    response: { 200: objectSchema({ token: { type: "string" }, email: { type: "string" } }) },
  },
} as const;

interface StartQuery {
  readonly return_to?: string;
  readonly cli_port?: number;
  readonly cli_state?: string;
  readonly cli_challenge?: string;
}

export function registerSsoRoutes(app: FastifyInstance, options: SsoRoutesOptions): void {
  const flow = new LoginFlow(options);
  const codes = new CliCodes({ ...options, now: options.now ?? Date.now });
  addRoute(app, NO_GUARDS, {
    ...ROUTES.start,
    errorHandler: sendLoginError,
    handler: async (request: FastifyRequest<{ Querystring: StartQuery }>, reply: FastifyReply) => {
      preventCaching(reply);
      return await reply.redirect(await flow.begin(request, reply, request.query), 302);
    },
  });
  addRoute(app, NO_GUARDS, {
    ...ROUTES.callback,
    errorHandler: sendLoginError,
    handler: async (request, reply) => {
      preventCaching(reply);
      const { user, returnTo, cli } = await flow.end(request, reply);
      if (cli) {
        const token = await codes.requestConfirmation(request, reply, cli, user);
        const tenantDb = tenantDatabase(options.db, user.org_id);
        const { name: orgName } = await tenantDb.selectFrom("orgs").select("name").where("id", "=", user.org_id).executeTakeFirstOrThrow();
        return await reply
          .headers(pageHeaders(formAction(cli)))
          .type("text/html; charset=utf-8")
          .send(renderConfirmation({ cli, token, user, orgName }));
      }
      const session = await options.browserSessions.open(request, reply, user);
      if (returnTo !== undefined) return await reply.redirect(returnTo, 303);
      return await describeSession(options.db, session);
    },
  });
  registerGrant(app, flow, codes);
  registerTokenExchange(app, flow, codes, options);
}

function registerTokenExchange(app: FastifyInstance, flow: LoginFlow, codes: CliCodes, { sessions }: SsoRoutesOptions): void {
  addRoute(app, NO_GUARDS, {
    ...ROUTES.token,
    maxBodyBytes: TOKEN_BODY_BYTES,
    handler: async (request: FastifyRequest<{ Body: { code: string; verifier: string } }>, reply: FastifyReply) => {
      preventCaching(reply);
      flow.requireConfigured();
      const user = await codes.redeem(request.body.code, request.body.verifier);
      const token = user && (await sessions.issueFor(user.userId));
      if (!user || token === undefined) {
        audit(request, "login.failed", { by: "sso", reason: "cli_code" });
        throw new ApiError("login_refused", "the code is invalid, already used or older than a minute: run `atherops login --sso` again");
      }
      audit(request, "login", { user_id: user.userId, org_id: user.orgId, email: user.email, by: "sso" });
      return { token, email: user.email };
    },
  });
}

/** Accepts a form, because the page has no scripts. */
function registerGrant(app: FastifyInstance, flow: LoginFlow, codes: CliCodes): void {
  void app.register(async (scope) => {
    scope.addContentTypeParser("application/x-www-form-urlencoded", async (request: FastifyRequest) =>
      Object.fromEntries(new URLSearchParams((await app.smallBodies.read(request, TOKEN_BODY_BYTES)).toString("utf8"))),
    );
    addRoute(scope, NO_GUARDS, {
      ...ROUTES.grant,
      maxBodyBytes: TOKEN_BODY_BYTES,
      errorHandler: sendLoginError,
      handler: async (request: FastifyRequest<{ Body: { token: string } }>, reply: FastifyReply) => {
        preventCaching(reply);
        flow.requireConfigured();
        const location = await codes.confirm(request, request.body.token);
        if (location !== undefined) return await reply.redirect(location, 303);
        audit(request, "login.failed", { by: "sso", reason: "cli_page" });
        throw new ApiError(
          "login_refused",
          "the page is invalid, already used or older than five minutes: run `atherops login --sso` again",
        );
      },
    });
  });
}

/** URLs contain codes, so they must not be cached or sent to other sites. */
function preventCaching(reply: FastifyReply): void {
  void reply.header("cache-control", "no-store").header("referrer-policy", "no-referrer");
}

class LoginFlow {
  readonly #options: SsoRoutesOptions;
  readonly #now: () => number;
  readonly #attempts: Attempts;
  readonly #queue = new FairQueue({
    ...QUEUE_LIMITS,
    fullMessage: "too many logins are waiting for the identity provider: try again",
    retryAfterS: RETRY_AFTER_S,
  });
  #provider: Promise<Provider> | undefined;

  constructor(options: SsoRoutesOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#attempts = new Attempts(options.signing, this.#now);
  }

  /** Returns where to redirect the browser. */
  async begin(request: FastifyRequest, reply: FastifyReply, query: StartQuery): Promise<string> {
    const oidc = this.requireConfigured();
    const target = { returnTo: readReturnTo(query), cli: readCliReturn(query) };
    const redirectUri = callbackUrl(request).href;
    const provider = await this.#openProvider(oidc);
    const attempt = await this.#attempts.begin(request, reply, target);
    return await this.#callProvider(request, () => provider.loginUrl(attempt, redirectUri));
  }

  async end(request: FastifyRequest, reply: FastifyReply): Promise<Pick<SignedIn, "user"> & LoginTarget> {
    const oidc = this.requireConfigured();
    const attempt = this.#attempts.end(request, reply);
    if (attempt === "used") {
      audit(request, "login.failed", { by: "sso", reason: "attempt_used" });
      throw new ApiError("login_refused", `this login was already used${START_AGAIN}`);
    }
    if (!attempt) {
      audit(request, "login.failed", { by: "sso", reason: "no_attempt" });
      throw new ApiError("login_refused", `this browser did not begin a login within the last ten minutes${START_AGAIN}`);
    }
    const url = callbackUrl(request);
    url.search = new URL(request.url, url).search;
    const provider = await this.#openProvider(oidc);
    const claims = await this.#callProvider(request, () => provider.fetchClaims(attempt, url));
    const identity = await this.#identify(request, oidc, claims);
    const { user, change, before } = await signIn(this.#options.db, identity, new Date(this.#now())).catch((error: unknown) => {
      if (error instanceof ApiError && error.status < 500) this.#auditRefusal(request, error.code, identity.email);
      throw error;
    });
    this.#options.sessions.forget(user.id);
    const who = { user_id: user.id, org_id: user.org_id, email: user.email };
    if (change)
      audit(request, change, {
        ...who,
        role: user.role,
        ...auditedLimits(user),
        ...(before && { from: before.role, from_org_id: before.org_id }),
        by: "sso",
      });
    // The command line is logged in when it has exchanged its code.
    if (!attempt.cli) audit(request, "login", { ...who, by: "sso" });
    return { user, returnTo: attempt.returnTo, cli: attempt.cli };
  }

  /** The organisation and role that the groups grant. Throws `forbidden` if there is none. */
  async #identify(
    request: FastifyRequest,
    oidc: OidcSettings,
    claims: Record<string, unknown> & { sub: string },
  ): Promise<ProviderIdentity> {
    const email = typeof claims["email"] === "string" ? claims["email"] : undefined;
    const grant = findGrant(claims[oidc.groupsClaim], oidc.grants);
    const org = grant && (await this.#options.db.selectFrom("orgs").select("id").where("name", "=", grant.org).executeTakeFirst());
    if (!org) {
      this.#auditRefusal(request, grant ? "unknown_organisation" : "no_group", email);
      const why = grant
        ? `your group grants access to the organisation "${grant.org}", which does not exist`
        : "none of your groups grants access to an organisation";
      throw new ApiError("forbidden", `${why}: ask an operator to change OIDC_GROUPS`);
    }
    const verified = claims["email_verified"];
    const isEmailVerified = typeof verified === "boolean" ? verified : verified === undefined ? undefined : verified === "true";
    const mayClaimEmail = isEmailVerified === true || (isEmailVerified === undefined && oidc.allowsUnverifiedEmail);
    const { role, label_limits: labelLimits } = grant;
    return { issuer: oidc.issuer, subject: claims.sub, email, isEmailVerified, mayClaimEmail, orgId: org.id, role, labelLimits };
  }

  #auditRefusal(request: FastifyRequest, reason: string, email: string | undefined): void {
    audit(request, "login.failed", { by: "sso", reason, ...(email && { email: sanitize(email) }) });
  }

  requireConfigured(): OidcSettings {
    if (!this.#options.oidc) throw new ApiError("not_found", "single sign-on is not configured (OIDC_ISSUER): log in with a password");
    return this.#options.oidc;
  }

  async #openProvider(oidc: OidcSettings): Promise<Provider> {
    this.#provider ??= import("./provider.ts").then(({ Provider }) => new Provider({ ...oidc, ...this.#options.provider }));
    return await this.#provider;
  }

  /** Calls the provider through the queue and maps its errors to API errors. */
  async #callProvider<T>(request: FastifyRequest, call: () => Promise<T>): Promise<T> {
    try {
      return await this.#queue.run(networkOf(request.ip), undefined, call);
    } catch (error) {
      const { name, message, reason } = error as Error & { reason?: string };
      if (name === "ProviderUnavailable")
        throw new ApiError("unavailable", "the identity provider cannot be reached", {
          cause: new Error(message),
          retryAfterS: RETRY_AFTER_S,
        });
      if (name !== "LoginRejected") throw error;
      audit(request, "login.failed", { by: "sso", reason });
      throw new ApiError("login_refused", `${message}${START_AGAIN}`);
    }
  }
}

function readReturnTo({ return_to: text }: StartQuery): string | undefined {
  const returnTo = text === undefined ? undefined : parseReturnPath(text);
  if (text !== undefined && returnTo === undefined)
    throw new ApiError("invalid_parameter", "return_to: must be a path of this server, such as /");
  return returnTo;
}

function readCliReturn({
  return_to: returnTo,
  cli_port: port,
  cli_state: state,
  cli_challenge: challenge,
}: StartQuery): CliReturn | undefined {
  if (port === undefined && state === undefined && challenge === undefined) return undefined;
  if (port === undefined || state === undefined || challenge === undefined || returnTo !== undefined)
    throw new ApiError("invalid_parameter", "cli_port, cli_state and cli_challenge are required together, and exclude return_to");
  return { port, state, challenge };
}

function callbackUrl(request: FastifyRequest): URL {
  const origin = publicOrigin(request);
  if (origin === undefined) throw new ApiError("invalid_parameter", "the Host header contains no valid host");
  return new URL(CALLBACK, origin);
}

/** Makes an unverified address safe for the audit log. */
function sanitize(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cs}]/gu, "?").slice(0, 254);
}
