// The routes of accounts: login, browser sessions, organisations, users, read tokens, and administration across organisations.
import type { FastifyInstance } from "fastify";
import { registerAccountAdministration } from "./administer-accounts.ts";
import { registerReadTokenAdministration } from "./administer-read-tokens.ts";
import { registerBrowserSessions } from "../../auth/sessions/browser-session-routes.ts";
import type { AccountDeps } from "../../auth/sessions/deps.ts";
import { HashQueue } from "../../auth/sessions/password.ts";
import { registerLogin } from "../../auth/sessions/login.ts";
import { type OneTimeLogin, registerOneTimeLogin } from "../../auth/sessions/one-time-login.ts";
import { registerOrgRoutes } from "./orgs.ts";
import { registerUserRoutes } from "./users.ts";

export interface AccountRoutesOptions extends Omit<AccountDeps, "hashQueue"> {
  /** `settings.isPasswordLogin` */
  isPasswordLogin: boolean;
  /** Set if `npm start` started this backend. */
  oneTimeLogin?: OneTimeLogin | undefined;
}

export function registerAccountRoutes(app: FastifyInstance, { isPasswordLogin, oneTimeLogin, ...options }: AccountRoutesOptions): void {
  const deps = { ...options, hashQueue: new HashQueue() };
  registerLogin(app, { ...deps, isFirstOperatorOnly: !isPasswordLogin });
  registerBrowserSessions(app, deps);
  if (oneTimeLogin) registerOneTimeLogin(app, deps, oneTimeLogin);
  registerOrgRoutes(app, deps);
  registerUserRoutes(app, deps);
  registerReadTokenAdministration(app, deps);
  registerAccountAdministration(app, deps);
}
