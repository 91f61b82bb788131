// The routes of accounts: login, organisations, users. Wired by serve.ts, by tests, and described by /openapi.json.
import type { FastifyInstance } from "fastify";
import type { Guards } from "../request-identity.ts";
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
  now?: () => number;
}

export function registerAccountRoutes(app: FastifyInstance, deps: AccountDeps): void {
  registerLogin(app, deps);
  registerOrgRoutes(app, deps);
  registerUserRoutes(app, deps);
}
