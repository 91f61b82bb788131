// Sets the password of a user in the account database, without a backend. Invariant: the password, the end of the user's sessions and the
// entry of the audit log are one transaction.
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { AuditTables } from "../auth/audit/trail.ts";
import { type AccountDb, type AccountTables, findUserByEmail, normalEmail, type UserRow } from "../auth/sessions/account-tables.ts";
import { hashPassword } from "../auth/sessions/password.ts";
import { openDatabase } from "../engines/relational/database.ts";
import { ACCOUNTS_FILE } from "../engines/sqlite/open.ts";
import { StartError } from "../errors.ts";
import type { Log } from "../log.ts";
import { describeDatabase } from "./backup/move.ts";

const COMMAND = "atherops-backend reset-password";
const MAX_NAMED_OPERATORS = 10;

interface AccountStore {
  readonly dataDir: string;
  /** Unset: the accounts are embedded. May contain a password. */
  readonly databaseUrl: string | undefined;
  readonly log: Log;
}

/** Throws StartError with nothing changed. */
export async function resetPassword({ dataDir, databaseUrl, log }: AccountStore, email: string, password: string): Promise<UserRow> {
  const file = join(dataDir, ACCOUNTS_FILE);
  if (databaseUrl === undefined && !existsSync(file))
    throw new StartError(`DATA_DIR: ${dataDir} has no ${ACCOUNTS_FILE}: set DATA_DIR, or DATABASE_URL, to the backend's`);
  const passwordHash = await hashPassword(password);
  try {
    await using database = await openDatabase({ url: databaseUrl, dataDir, log, poolSize: 1 });
    const db = database.tables<AccountTables & AuditTables>();
    return await db.transaction().execute(async (trx) => {
      const accounts = trx.$pickTables<keyof AccountTables>();
      const user = await changePassword(accounts, email, passwordHash);
      const nobody = { actor: null, actor_id: null, actor_org_id: null, address: "", request_id: "" };
      const subject = JSON.stringify({ user_id: user.id, email: user.email, command: COMMAND });
      const entry = { id: randomUUID(), org_id: user.org_id, at: new Date(), action: "user.password", ...nobody, subject };
      await trx.insertInto("audit_log").values(entry).execute();
      return user;
    });
  } catch (error) {
    if (error instanceof StartError) throw error;
    const where = databaseUrl === undefined ? `DATA_DIR: ${file}` : `DATABASE_URL: ${describeDatabase(databaseUrl)}`;
    throw new StartError(`${where}: the password cannot be set (${(error as Error).message})`, { cause: error });
  }
}

async function changePassword(db: AccountDb, email: string, passwordHash: string): Promise<UserRow> {
  const changed = await db
    .updateTable("users")
    .set(({ eb }) => ({ password_hash: passwordHash, session_epoch: eb("session_epoch", "+", 1) }))
    .where("email", "=", normalEmail(email))
    .where("sso_issuer", "is", null)
    .returningAll()
    .executeTakeFirst();
  if (changed) return changed;
  if (await findUserByEmail(db, email)) throw new StartError(`${email} logs in by single sign-on and has no password`);
  const operators = db.selectFrom("users").select("email").where("role", "=", "operator").orderBy("created_at");
  const names = (await operators.limit(MAX_NAMED_OPERATORS).execute()).map((row) => row.email);
  throw new StartError(`no user has the address ${JSON.stringify(email)}; operators: ${names.join(", ") || "none"}`);
}
