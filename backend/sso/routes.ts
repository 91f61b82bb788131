// Single sign-on by OpenID Connect: the code flow with PKCE, state and nonce (docs/contract.md, "Single sign-on"). Invariant: what comes back
// counts only in the browser that began it, once; every refusal says why, to a person on a page, and is an audit line; without the provider
// everything else works.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Kysely } from "kysely";
import type { BrowserSessions } from "../accounts/browser-session.ts";
import { SESSION_SCHEMA, shownSession } from "../accounts/browser-session-routes.ts";
import type { Sessions } from "../accounts/session.ts";
import type { SigningSecrets } from "../accounts/signed-token.ts";
import type { AccountTables } from "../accounts/table.ts";
import { FairTurns, QueueFullError } from "../admission/fair-turns.ts";
import { audit } from "../auth/audit-log.ts";
import { ApiError } from "../errors.ts";
import { networkOf } from "../http/client-network.ts";
import { originSeen } from "../http/cookies.ts";
import { objectOf } from "../http/schemas.ts";
import type { OidcSettings } from "../settings.ts";
import { Attempts, type CliReturn, type Return } from "./attempt.ts";
import { CliCodes } from "./cli-code.ts";
import { formAction, GRANT_PATH, pageOf } from "./cli-page.ts";
import { grantOf } from "./grant.ts";
import { pageHeaders } from "./page.ts";
import type { Provider, ProviderOptions } from "./provider.ts";
import { answerRefusal, BEGIN_AGAIN } from "./refusal-page.ts";
import { returnPath } from "./return-path.ts";
import { signIn, type SignedIn, type Vouched } from "./sign-in.ts";
import { tenantDatabase } from "../engines/relational/tenant-database.ts";

export interface SsoRoutesOptions {
  readonly db: Kysely<AccountTables>;
  readonly browserSessions: BrowserSessions;
  readonly sessions: Pick<Sessions, "find" | "forget" | "issueFor">;
  readonly signing: SigningSecrets;
  /** Undefined: there is no single sign-on. */
  readonly oidc: OidcSettings | undefined;
  readonly provider: Pick<ProviderOptions, "clientSecret" | "httpsProxy" | "httpProxy" | "noProxy">;
  /** Unix milliseconds. */
  readonly now?: () => number;
}

const CALLBACK = "/api/auth/oidc/callback";
/** Questions to the provider at once, of one network and in all. */
const TURNS = { running: 16, perOrg: 4, waitingPerOrg: 16, waitingInAll: 256 };
const RETRY_AFTER_S = 5;

const TOKEN_BODY_BYTES = 4096;
/** Of 43 characters at least: 256 bits. */
const SECRET_PATTERN = "^[A-Za-z0-9_-]{43,128}$";
const NO_BODY = { type: "null" } as const;
const schemas = {
  start: {
    tags: ["accounts"],
    summary: "Log a browser in by single sign-on",
    description: "Leads to the identity provider, and from there to /api/auth/oidc/callback.",
    querystring: {
      type: "object",
      properties: {
        return_to: { type: "string", maxLength: 2000, description: "a path of this server to go to afterwards" },
        cli_port: {
          type: "integer",
          minimum: 1024,
          maximum: 65_535,
          description: "of 127.0.0.1, where `atherops login --sso` waits: it gets a code there, and this browser no session",
        },
        cli_state: { type: "string", pattern: SECRET_PATTERN, description: "with cli_port: goes back with the code" },
        cli_challenge: {
          type: "string",
          pattern: "^[A-Za-z0-9_-]{43}$",
          description: "with cli_port: SHA-256 of the verifier, as in PKCE",
        },
      },
    },
    response: { 302: { description: "to the identity provider", ...NO_BODY } },
  },
  callback: {
    tags: ["accounts"],
    summary: "The identity provider's answer, as a browser brings it",
    description:
      "Begins a browser's session, as POST /api/auth/session does. For the admin client it is a page that asks the person first.",
    response: {
      200: {
        description: "the session, or for the admin client the page",
        content: { "application/json": { schema: SESSION_SCHEMA }, "text/html": { schema: { type: "string" } } },
      },
      303: { description: "to the path that return_to named", ...NO_BODY },
    },
  },
  grant: {
    tags: ["accounts"],
    summary: "The person's word that the admin client may have a session",
    description: "The form of the page that the callback shows; it counts with the cookie that came beside it, for five minutes.",
    consumes: ["application/x-www-form-urlencoded"],
    body: { type: "object", required: ["token"], properties: { token: { type: "string", pattern: SECRET_PATTERN } } },
    response: { 303: { description: "to the admin client, with a code", ...NO_BODY } },
  },
  token: {
    tags: ["accounts"],
    summary: "The admin client's code for a session",
    description: "A session as of POST /api/auth/login. A code is good once, within a minute, with the verifier that its login began with.",
    body: {
      type: "object",
      required: ["code", "verifier"],
      properties: { code: { type: "string", maxLength: 2000 }, verifier: { type: "string", pattern: SECRET_PATTERN } },
    },
    response: { 200: objectOf({ token: { type: "string" }, email: { type: "string" } }) },
  },
} as const;

interface StartQuery {
  readonly return_to?: string;
  readonly cli_port?: number;
  readonly cli_state?: string;
  readonly cli_challenge?: string;
}

export function registerSsoRoutes(app: FastifyInstance, options: SsoRoutesOptions): void {
  const flow = new Flow(options);
  const codes = new CliCodes({ ...options, now: options.now ?? Date.now });
  const forBrowsers = { errorHandler: answerRefusal };
  app.get<{ Querystring: StartQuery }>("/api/auth/oidc/start", { schema: schemas.start, ...forBrowsers }, async (request, reply) => {
    hide(reply);
    return await reply.redirect(await flow.begin(request, reply, request.query), 302);
  });
  app.get(CALLBACK, { schema: schemas.callback, ...forBrowsers }, async (request, reply) => {
    hide(reply);
    const { user, returnTo, cli } = await flow.end(request, reply);
    if (cli) {
      const token = await codes.ask(request, reply, cli, user);
      const own = tenantDatabase(options.db, user.org_id);
      const { name: orgName } = await own.selectFrom("orgs").select("name").where("id", "=", user.org_id).executeTakeFirstOrThrow();
      return await reply
        .headers(pageHeaders(formAction(cli)))
        .type("text/html; charset=utf-8")
        .send(pageOf({ cli, token, user, orgName }));
    }
    const session = await options.browserSessions.open(request, reply, user);
    if (returnTo !== undefined) return await reply.redirect(returnTo, 303);
    return await shownSession(options.db, session);
  });
  registerGrant(app, flow, codes);
  const body = { schema: schemas.token, bodyLimit: TOKEN_BODY_BYTES };
  app.post<{ Body: { code: string; verifier: string } }>("/api/auth/oidc/token", body, async (request, reply) => {
    hide(reply);
    flow.requireConfigured();
    const user = await codes.take(request.body.code, request.body.verifier);
    const token = user && (await options.sessions.issueFor(user.userId));
    if (!user || token === undefined) {
      audit(request, "login.failed", { by: "sso", reason: "cli_code" });
      throw new ApiError(
        "login_refused",
        "this code was used, is older than a minute, or is another login's: run `atherops login --sso` again",
      );
    }
    audit(request, "login", { user_id: user.userId, org_id: user.orgId, email: user.email, by: "sso" });
    return { token, email: user.email };
  });
}

/** A form, as a page without script sends it. */
function registerGrant(app: FastifyInstance, flow: Flow, codes: CliCodes): void {
  const options = { schema: schemas.grant, bodyLimit: TOKEN_BODY_BYTES, errorHandler: answerRefusal };
  void app.register(async (scope) => {
    scope.addContentTypeParser("application/x-www-form-urlencoded", async (request: FastifyRequest) =>
      Object.fromEntries(new URLSearchParams((await app.smallBodies.read(request, TOKEN_BODY_BYTES)).toString("utf8"))),
    );
    scope.post<{ Body: { token: string } }>(GRANT_PATH, options, async (request, reply) => {
      hide(reply);
      flow.requireConfigured();
      const location = await codes.returnUrl(request, request.body.token);
      if (location !== undefined) return await reply.redirect(location, 303);
      audit(request, "login.failed", { by: "sso", reason: "cli_page" });
      throw new ApiError(
        "login_refused",
        "this page is older than five minutes, was used, or another login began in this browser since: run `atherops login --sso` again",
      );
    });
  });
}

/** Codes stand in the address: no cache and no other site learns it. */
function hide(reply: FastifyReply): void {
  void reply.header("cache-control", "no-store").header("referrer-policy", "no-referrer");
}

class Flow {
  readonly #options: SsoRoutesOptions;
  readonly #now: () => number;
  readonly #attempts: Attempts;
  readonly #turns = new FairTurns(TURNS);
  #provider: Promise<Provider> | undefined;

  constructor(options: SsoRoutesOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#attempts = new Attempts(options.signing, this.#now);
  }

  /** Answers where to lead the browser. */
  async begin(request: FastifyRequest, reply: FastifyReply, query: StartQuery): Promise<string> {
    const oidc = this.requireConfigured();
    const leads = { returnTo: returnToOf(query), cli: cliOf(query) };
    const redirectUri = callbackUrl(request).href;
    const provider = await this.#opened(oidc);
    const attempt = await this.#attempts.begin(request, reply, leads);
    return await this.#asked(request, () => provider.loginUrl(attempt, redirectUri));
  }

  async end(request: FastifyRequest, reply: FastifyReply): Promise<Pick<SignedIn, "user"> & Return> {
    const oidc = this.requireConfigured();
    const attempt = this.#attempts.end(request, reply);
    if (attempt === "used") {
      audit(request, "login.failed", { by: "sso", reason: "attempt_used" });
      throw new ApiError("login_refused", `this login was used${BEGIN_AGAIN}`);
    }
    if (!attempt) throw new ApiError("login_refused", `this browser began no login, or more than ten minutes ago${BEGIN_AGAIN}`);
    const url = callbackUrl(request);
    url.search = new URL(request.url, url).search;
    const provider = await this.#opened(oidc);
    const claims = await this.#asked(request, () => provider.claimsOf(attempt, url));
    const vouched = await this.#granted(request, oidc, claims);
    const { user, change, before } = await signIn(this.#options.db, vouched, new Date(this.#now()));
    this.#options.sessions.forget(user.id);
    const who = { user_id: user.id, org_id: user.org_id, email: user.email };
    if (change)
      audit(request, change, { ...who, role: user.role, ...(before && { from: before.role, from_org_id: before.org_id }), by: "sso" });
    // The admin client is logged in when it has exchanged its code.
    if (!attempt.cli) audit(request, "login", { ...who, by: "sso" });
    return { user, returnTo: attempt.returnTo, cli: attempt.cli };
  }

  /** What the groups open. Throws `forbidden` where that is nothing. */
  async #granted(request: FastifyRequest, oidc: OidcSettings, claims: Record<string, unknown> & { sub: string }): Promise<Vouched> {
    const email = typeof claims["email"] === "string" ? claims["email"] : undefined;
    const grant = grantOf(claims[oidc.groupsClaim], oidc.grants);
    const org = grant && (await this.#options.db.selectFrom("orgs").select("id").where("name", "=", grant.org).executeTakeFirst());
    if (!org) {
      audit(request, "login.failed", {
        by: "sso",
        reason: grant ? "no_such_organisation" : "no_group",
        ...(email && { email: shortened(email) }),
      });
      const why = grant
        ? `your group leads to the organisation "${grant.org}", which is not there`
        : "none of your groups opens an organisation";
      throw new ApiError("forbidden", `${why}: an operator can mend that (OIDC_GROUPS)`);
    }
    const verified = claims["email_verified"];
    const isEmailVerified = typeof verified === "boolean" ? verified : verified === undefined ? undefined : verified === "true";
    const mayClaimEmail = isEmailVerified === true || (isEmailVerified === undefined && oidc.allowsUnverifiedEmail);
    return { issuer: oidc.issuer, subject: claims.sub, email, isEmailVerified, mayClaimEmail, orgId: org.id, role: grant.role };
  }

  requireConfigured(): OidcSettings {
    if (!this.#options.oidc) throw new ApiError("not_found", "single sign-on is not set up here (OIDC_ISSUER): log in with a password");
    return this.#options.oidc;
  }

  async #opened(oidc: OidcSettings): Promise<Provider> {
    this.#provider ??= import("./provider.ts").then(({ Provider }) => new Provider({ ...oidc, ...this.#options.provider }));
    return await this.#provider;
  }

  /** In turn, and with errors of ours. */
  async #asked<T>(request: FastifyRequest, ask: () => Promise<T>): Promise<T> {
    try {
      return await this.#turns.run(networkOf(request.ip), undefined, ask);
    } catch (error) {
      if (error instanceof QueueFullError)
        throw new ApiError("unavailable", "too many logins wait for the identity provider: try again", { retryAfterS: RETRY_AFTER_S });
      const { name, message, reason } = error as Error & { reason?: string };
      if (name === "ProviderAway")
        throw new ApiError("unavailable", "the identity provider cannot be reached", {
          cause: new Error(message),
          retryAfterS: RETRY_AFTER_S,
        });
      if (name !== "NotVouched") throw error;
      audit(request, "login.failed", { by: "sso", reason });
      throw new ApiError("login_refused", `${message}${BEGIN_AGAIN}`);
    }
  }
}

function returnToOf({ return_to: wanted }: StartQuery): string | undefined {
  const returnTo = wanted === undefined ? undefined : returnPath(wanted);
  if (wanted !== undefined && returnTo === undefined)
    throw new ApiError("invalid_parameter", "return_to: must be a path of this server, such as /");
  return returnTo;
}

function cliOf({ return_to: returnTo, cli_port: port, cli_state: state, cli_challenge: challenge }: StartQuery): CliReturn | undefined {
  if (port === undefined && state === undefined && challenge === undefined) return undefined;
  if (port === undefined || state === undefined || challenge === undefined || returnTo !== undefined)
    throw new ApiError("invalid_parameter", "cli_port, cli_state and cli_challenge come together, and without return_to");
  return { port, state, challenge };
}

function callbackUrl(request: FastifyRequest): URL {
  const origin = originSeen(request);
  if (origin === undefined) throw new ApiError("invalid_parameter", "the header Host names no host");
  return new URL(CALLBACK, origin);
}

/** Of an address that nobody has vouched for. */
function shortened(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cs}]/gu, "?").slice(0, 254);
}
