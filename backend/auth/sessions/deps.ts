// The dependencies of the account routes. Invariant: types only, so that routes do not import each other through this file.
import type { Kysely } from "kysely";
import type { Guards } from "../request-identity.ts";
import type { BrowserSessions } from "./browser-session.ts";
import type { HashQueue } from "./password.ts";
import type { ReadTokens } from "./read-token.ts";
import type { Sessions } from "./session.ts";
import type { AccountTables } from "./table.ts";

export interface AccountDeps {
  db: Kysely<AccountTables>;
  sessions: Sessions;
  browserSessions: BrowserSessions;
  readTokens: Pick<ReadTokens, "issue" | "forget">;
  guards: Pick<Guards, "user">;
  hashQueue: HashQueue;
  /** Unix milliseconds. */
  now?: () => number;
  /** Rows per page of a list. */
  pageRows?: number;
}
