// What the routes of accounts are given. Invariant: types only, so that a route imports no other route by way of it.
import type { Kysely } from "kysely";
import type { Guards } from "../auth/request-identity.ts";
import type { BrowserSessions } from "./browser-session.ts";
import type { HashTurns } from "./hash-turns.ts";
import type { ReadTokens } from "./read-token.ts";
import type { Sessions } from "./session.ts";
import type { AccountTables } from "./table.ts";

export interface AccountDeps {
  db: Kysely<AccountTables>;
  sessions: Sessions;
  browserSessions: BrowserSessions;
  readTokens: Pick<ReadTokens, "issue" | "forget">;
  guards: Pick<Guards, "user">;
  hashTurns: HashTurns;
  /** Unix milliseconds. */
  now?: () => number;
  /** Of a page of a list. */
  pageRows?: number;
}
