// Defines the arguments and help of the commands `atherops-backend backup` and `restore`. Invariant: the code that copies and verifies is
// imported only when a command runs, because the imports of this file are loaded at each start of the backend.
import { resolve } from "node:path";
import type { Command } from "commander";
import { readSettings, SettingsError } from "../../settings.ts";
import type { BackupDestination } from "./run-backup.ts";

const BACKUP_HELP = `
The backend may keep running or be stopped. The backup contains all data of the embedded engines that the backend acknowledged before the
command started. It gets its final name only once it is complete, verified and synced to disk.

Examples:
  DATA_DIR=/var/lib/atherops atherops-backend backup /backup/atherops-$(date +%F)
  DATA_DIR=/var/lib/atherops atherops-backend backup --into /backup --keep 7

--into creates a folder named by the time; with --keep, the oldest of these folders are removed when the new backup is complete. Use a
separate folder for each installation. With BACKUP_EVERY, the backend does the same on a schedule.`;

const RESTORE_HELP = `
Stop the backend first, or set another DATA_DIR. Run it as the backend's user, to whom the restored files then belong.
docs/backup.md explains what to do about keys and hosts that are newer than the backup.

Example:
  DATA_DIR=/var/lib/atherops atherops-backend restore /backup/atherops-2026-11-21`;

interface Options {
  readonly into?: string;
  readonly keep?: string;
}

/** Adds both commands. They print on stderr what was done, and what the backup does not contain. */
export function addBackupCommands(program: Command, read: typeof readSettings = readSettings): void {
  program
    .command("backup [folder]")
    .description("copy the embedded engines' data and the generated secrets of DATA_DIR into a new folder, also while the backend runs")
    .option("--into <folder>", "create the backup in this folder, named by the time")
    .option("--keep <number>", "with --into: number of backups to keep")
    .addHelpText("after", BACKUP_HELP)
    .action(async (folder: string | undefined, options: Options) => {
      const destination = readDestination(folder, options);
      const { settings, secrets } = read();
      const { runBackup } = await import("./run-backup.ts");
      await runBackup(settings, secrets, destination);
    });
  program
    .command("restore <folder>")
    .description("check a backup and copy it into DATA_DIR, which must be empty or missing; print what was restored")
    .addHelpText("after", RESTORE_HELP)
    .action(async (folder: string) => {
      const { settings, secrets } = read();
      const { runRestore } = await import("./run-backup.ts");
      await runRestore(settings, secrets, resolve(folder));
    });
}

function readDestination(folder: string | undefined, { into, keep }: Options): BackupDestination {
  if ((folder === undefined) === (into === undefined)) throw new SettingsError("backup: specify a new folder, or --into");
  if (folder !== undefined) {
    if (keep !== undefined) throw new SettingsError("backup: --keep requires --into");
    return { folder: resolve(folder) };
  }
  const count = keep === undefined ? undefined : Number(keep);
  if (count !== undefined && (!Number.isSafeInteger(count) || count < 1))
    throw new SettingsError(`backup: --keep: "${keep}" is not a whole number of at least 1`);
  return { into: resolve(into ?? ""), keep: count };
}
