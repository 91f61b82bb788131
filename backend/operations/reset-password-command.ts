// Defines the command `atherops-backend reset-password`, for a lost password that no other user can reset, such as that of the only
// operator. Invariant: the password is never an argument, which every user of the machine can read, and is in no log.
import { text } from "node:stream/consumers";
import type { Command } from "commander";
import { readAccountSettings, SettingsError } from "../settings.ts";

const HELP = `
Without --stdin, the command generates a password and prints it once, on stdout. The backend may keep running or be stopped. The command
needs DATA_DIR, or DATABASE_URL (DATABASE_URL_FILE) if the accounts are in PostgreSQL; with DATA_DIR, run it as the backend's user.

Examples:
  DATA_DIR=/var/lib/atherops atherops-backend reset-password admin@localhost
  DATABASE_URL_FILE=/etc/atherops/database-url atherops-backend reset-password --stdin admin@localhost < new-password

While an operator can log in, prefer \`atherops users password EMAIL\`. Users of single sign-on have no password.`;

/** Adds the command. Only a generated password is printed on stdout. */
export function addResetPasswordCommand(program: Command): void {
  program
    .command("reset-password <email>")
    .description("set the password of a user, for example of the only operator, and end the user's sessions")
    .option("--stdin", "read the password from stdin, instead of generating one")
    .addHelpText("after", HELP)
    .action(async (email: string, { stdin: isRead = false }: { stdin?: boolean }) => {
      const settings = readAccountSettings();
      const given = isRead ? (await text(process.stdin)).replace(/\r?\n$/, "") : undefined;
      // Imported only here, because the imports at the top are loaded at each start of the backend.
      const { createLog } = await import("../log.ts");
      const { newPassword, PASSWORD_SCHEMA } = await import("../auth/sessions/password.ts");
      const { minLength, maxLength } = PASSWORD_SCHEMA;
      if (given !== undefined && (given.length < minLength || given.length > maxLength))
        throw new SettingsError(`reset-password: the password on stdin must have ${minLength} to ${maxLength} characters`);
      const { resetPassword } = await import("./reset-password.ts");
      const password = given ?? newPassword();
      const user = await resetPassword({ ...settings, log: createLog("warn") }, email, password);
      console.error(`password of ${user.email} (${user.role}) set; the sessions of this user end within 5 seconds`);
      if (given === undefined) console.log(password);
    });
}
