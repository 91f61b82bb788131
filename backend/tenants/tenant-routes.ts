// Registers the routes of tenants: accounts (login, browser sessions, organisations, users, invitations, read tokens, and administration across
// organisations) and enrolment (clusters, hosts, install tokens, keys for direct ingest, ingest tokens).
import type { FastifyInstance } from "fastify";
import { registerInvitationAcceptance } from "./accounts/accept-invitation.ts";
import { registerAccountAdministration } from "./accounts/administer-accounts.ts";
import { registerReadTokenAdministration } from "./accounts/administer-read-tokens.ts";
import { type AccountDeps, registerBrowserSessions, registerLogin } from "../auth/sessions/login.ts";
import { HashQueue } from "../auth/sessions/password.ts";
import { type OneTimeLogin, registerOneTimeLogin } from "../auth/sessions/one-time-login.ts";
import { registerInvitationRoutes } from "./accounts/invitations.ts";
import { registerOrgRoutes } from "./accounts/orgs.ts";
import { registerOwnPassword } from "./accounts/own-password.ts";
import { registerUserRoutes } from "./accounts/users.ts";
import { registerClusterAdministration } from "./enrolment/administer-clusters.ts";
import { registerHostAdministration } from "./enrolment/administer-hosts.ts";
import { registerIngestTokenAdministration } from "./enrolment/administer-ingest-tokens.ts";
import { registerIssuerAdministration } from "./enrolment/administer-issuers.ts";
import { registerKeyAdministration } from "./enrolment/administer-keys.ts";
import { registerInstallTokenAdministration } from "./enrolment/administer-install-tokens.ts";
import { registerClusterConfig } from "./enrolment/cluster-config.ts";
import type { EnrolmentDeps } from "./enrolment/enrolment-tables.ts";
import { registerClusterHeartbeat, registerHostHeartbeat } from "./enrolment/heartbeats.ts";
import { registerHostConfig } from "./enrolment/host-config.ts";
import { registerRegisterCluster, registerRegisterHost } from "./enrolment/register.ts";
import { registerRotateKey } from "./enrolment/rotate-key.ts";

export interface AccountRoutesOptions extends Omit<AccountDeps, "hashQueue"> {
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
  registerInvitationRoutes(app, { ...deps, isPasswordLogin });
  registerInvitationAcceptance(app, { ...deps, isPasswordLogin });
  registerOwnPassword(app, deps);
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
  registerClusterConfig(app, deps);
  registerInstallTokenAdministration(app, deps);
  registerClusterAdministration(app, deps);
  registerHostAdministration(app, deps);
  registerKeyAdministration(app, deps);
  registerIngestTokenAdministration(app, deps);
  registerIssuerAdministration(app, deps);
}
