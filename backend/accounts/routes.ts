// The routes of accounts: login, browsers' sessions, organisations, users, read tokens, and what operators may do across organisations.
import type { FastifyInstance } from "fastify";
import { registerAccountAdministration } from "./administer-accounts.ts";
import { registerReadTokenAdministration } from "./administer-read-tokens.ts";
import { registerBrowserSessions } from "./browser-session-routes.ts";
import type { AccountDeps } from "./deps.ts";
import { HashTurns } from "./hash-turns.ts";
import { registerLogin } from "./login.ts";
import type { OneTimeLogin } from "./one-time-login.ts";
import { registerOneTimeLogin } from "./one-time-login-routes.ts";
import { registerOrgRoutes } from "./orgs.ts";
import { registerUserRoutes } from "./users.ts";

export interface AccountRoutesOptions extends Omit<AccountDeps, "hashTurns"> {
  /** `settings.isPasswordLogin` */
  isPasswordLogin: boolean;
  /** Where `npm start` started this backend. */
  oneTimeLogin?: OneTimeLogin | undefined;
}

export function registerAccountRoutes(app: FastifyInstance, { isPasswordLogin, oneTimeLogin, ...options }: AccountRoutesOptions): void {
  const deps = { ...options, hashTurns: new HashTurns() };
  registerLogin(app, { ...deps, isOnlyFirst: !isPasswordLogin });
  registerBrowserSessions(app, deps);
  if (oneTimeLogin) registerOneTimeLogin(app, deps, oneTimeLogin);
  registerOrgRoutes(app, deps);
  registerUserRoutes(app, deps);
  registerReadTokenAdministration(app, deps);
  registerAccountAdministration(app, deps);
}
