// The routes of accounts: login, organisations, users, read tokens, and what operators may do across organisations.
import type { FastifyInstance } from "fastify";
import { registerAccountAdministration } from "./administer-accounts.ts";
import { registerReadTokenAdministration } from "./administer-read-tokens.ts";
import type { AccountDeps } from "./deps.ts";
import { HashTurns } from "./hash-turns.ts";
import { registerLogin } from "./login.ts";
import { registerOrgRoutes } from "./orgs.ts";
import { registerUserRoutes } from "./users.ts";

export function registerAccountRoutes(app: FastifyInstance, options: Omit<AccountDeps, "hashTurns">): void {
  const deps = { ...options, hashTurns: new HashTurns() };
  registerLogin(app, deps);
  registerOrgRoutes(app, deps);
  registerUserRoutes(app, deps);
  registerReadTokenAdministration(app, deps);
  registerAccountAdministration(app, deps);
}
