// Registers the routes of tenants: accounts (login, browser sessions, organisations, users, read tokens, and administration across
// organisations) and enrolment (clusters, hosts, install tokens, keys for direct ingest, ingest tokens).
import type { FastifyInstance } from "fastify";
import { registerAccountAdministration } from "./accounts/administer-accounts.ts";
import { registerReadTokenAdministration } from "./accounts/administer-read-tokens.ts";
import { type AccountDeps, registerBrowserSessions, registerLogin } from "../auth/sessions/login.ts";
import { HashQueue } from "../auth/sessions/password.ts";
import { type OneTimeLogin, registerOneTimeLogin } from "../auth/sessions/one-time-login.ts";
import { registerOrgRoutes } from "./accounts/orgs.ts";
import { registerUserRoutes } from "./accounts/users.ts";
import { registerClusterAdministration } from "./enrolment/administer-clusters.ts";
import { registerHostAdministration } from "./enrolment/administer-hosts.ts";
import { registerIngestTokenAdministration } from "./enrolment/administer-ingest-tokens.ts";
import { registerKeyAdministration } from "./enrolment/administer-keys.ts";
import { registerInstallTokenAdministration } from "./enrolment/administer-install-tokens.ts";
import type { EnrolmentDeps } from "./enrolment/deps.ts";
import { registerClusterHeartbeat, registerHostHeartbeat } from "./enrolment/heartbeats.ts";
import { registerHostConfig } from "./enrolment/host-config.ts";
import { registerRegisterCluster, registerRegisterHost } from "./enrolment/register.ts";
import { registerRotateKey } from "./enrolment/rotate-key.ts";

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

export function registerEnrolmentRoutes(app: FastifyInstance, options: Omit<EnrolmentDeps, "now"> & { now?: () => number }): void {
  const deps: EnrolmentDeps = { now: Date.now, ...options };
  registerRegisterCluster(app, deps);
  registerClusterHeartbeat(app, deps);
  registerRotateKey(app, deps);
  registerRegisterHost(app, deps);
  registerHostHeartbeat(app, deps);
  registerHostConfig(app, deps);
  registerInstallTokenAdministration(app, deps);
  registerClusterAdministration(app, deps);
  registerHostAdministration(app, deps);
  registerKeyAdministration(app, deps);
  registerIngestTokenAdministration(app, deps);
}
