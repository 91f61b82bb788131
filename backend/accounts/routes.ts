// The routes of accounts: login, organisations, users, and what operators may do across organisations.
import type { FastifyInstance } from "fastify";
import type { Guards } from "../auth/request-identity.ts";
import { registerAccountAdministration } from "./administer-accounts.ts";
import { HashTurns } from "./hash-turns.ts";
import { registerLogin } from "./login.ts";
import { registerOrgRoutes } from "./orgs.ts";
import type { Sessions } from "./session.ts";
import type { AccountTables } from "./table.ts";
import { registerUserRoutes } from "./users.ts";
import type { Kysely } from "kysely";

export interface AccountDeps {
  db: Kysely<AccountTables>;
  sessions: Sessions;
  guards: Pick<Guards, "user">;
  hashTurns: HashTurns;
  now?: () => number;
}

export function registerAccountRoutes(app: FastifyInstance, options: Omit<AccountDeps, "hashTurns">): void {
  const deps = { ...options, hashTurns: new HashTurns() };
  registerLogin(app, deps);
  registerOrgRoutes(app, deps);
  registerUserRoutes(app, deps);
  registerAccountAdministration(app, deps);
}
