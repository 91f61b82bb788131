// Creates the first organisation, its operator, and its install token if FIRST_INSTALL_TOKEN is set, at the first start. Invariant: each is
// created once, even if several replicas start together or a start is interrupted.
import { existsSync } from "node:fs";
import { writeDurably } from "../common/files.ts";
import { generatedOnce, secretsFolder } from "./operations/backup/secrets.ts";
import { advisoryLock, type Database } from "./engines/relational/database.ts";
import { tenantDatabase } from "./engines/relational/tenant-database.ts";
import { installTokenRow } from "./tenants/enrolment/install-token.ts";
import { reencryptKeys } from "./tenants/enrolment/key-table.ts";
import type { MasterKeys } from "./tenants/enrolment/master-key.ts";
import type { EnrolmentTables } from "./tenants/enrolment/enrolment-tables.ts";
import { reencryptChannels } from "./notification/channels/channel-store.ts";
import type { NotificationTables } from "./notification/model/notification-tables.ts";
import type { Log } from "./log.ts";
import { SettingsError, type Secrets, type Settings } from "./settings.ts";
import { StartError } from "./errors.ts";
import { hashPassword, newPassword } from "./auth/sessions/password.ts";
import { insertOrg, insertUser, type AccountTables } from "./auth/sessions/account-tables.ts";

export interface BootstrapOptions {
  database: Database;
  settings: Settings;
  secrets: Secrets;
  masterKeys: MasterKeys;
  log: Log;
  now?: () => number;
}

const FIRST_ORG = "default";
const FIRST_INSTALL_TOKEN_TTL_MS = 24 * 60 * 60_000;

/** Creates the first organisation and operator if there is none, and re-encrypts keys with the current master key. One replica at a time. */
export async function bootstrap(options: BootstrapOptions): Promise<void> {
  const { database, settings, secrets, log, masterKeys, now = Date.now } = options;
  const db = database.tables<AccountTables & EnrolmentTables & NotificationTables>();
  await db.transaction().execute(async (trx) => {
    await advisoryLock(database, trx, "bootstrap");
    const moved = await reencryptKeys(trx, masterKeys);
    const channels = await reencryptChannels(trx.$pickTables<keyof NotificationTables>(), masterKeys);
    if (moved + channels > 0)
      log.info(
        { event: "bootstrap.master_key_rotated", keys: moved, channels },
        "API keys and channel secrets re-encrypted with the new MASTER_KEY; remove MASTER_PREVIOUS_KEY once all replicas use it",
      );
    if (await trx.selectFrom("orgs").select("id").limit(1).executeTakeFirst()) return;
    requireFirstStart(database);
    const password = firstPassword(options);
    const org = await insertOrg(trx, FIRST_ORG, new Date(now()));
    const operator = { org_id: org.id, email: settings.adminEmail, role: "operator" as const, password_hash: await hashPassword(password) };
    const user = await insertUser(trx, operator, new Date(now()));
    if (secrets.firstInstallToken !== undefined) {
      const token = installTokenRow(org.id, secrets.firstInstallToken, now(), FIRST_INSTALL_TOKEN_TTL_MS);
      await tenantDatabase(trx, org.id).insertInto("install_tokens").values(token).execute();
    }
    log.info(
      { event: "bootstrap.completed", audit: true, action: "bootstrap", org_id: org.id, user_id: user.id, email: user.email },
      "created the first organisation and operator",
    );
  });
  if (database.madeFile && !existsSync(database.madeFile)) writeDurably(database.madeFile, MADE_TEXT);
}

const MADE_TEXT = "This DATA_DIR has contained accounts. While this file exists, the backend does not create new ones when it starts.\n";

/** An interrupted first start is repeated; if accounts were deleted later, no new ones are created. */
function requireFirstStart({ madeFile }: Database): void {
  if (madeFile === undefined || !existsSync(madeFile)) return;
  throw new StartError(
    `DATA_DIR: the accounts are missing: the database has no organisation, but ${madeFile} shows that it had one; restore a backup (docs/backup.md), or set DATA_DIR to an empty folder to start with new accounts`,
  );
}

function firstPassword({ settings, secrets }: BootstrapOptions): string {
  if (secrets.adminPassword) return secrets.adminPassword;
  if (secrets.databaseUrl) throw new SettingsError("ADMIN_PASSWORD is required on the first start with DATABASE_URL");
  return generatedOnce(secretsFolder(settings), "admin-password", newPassword);
}
