// Runs `backup` and `restore`, and prints what they did. Invariant: SIGINT and SIGTERM end a backup and leave no files behind.
import { constants, setPriority } from "node:os";
import { basename, join } from "node:path";
import type { Secrets, Settings } from "../../settings.ts";
import { StartError } from "../../startup-error.ts";
import { type Backup, backup } from "./backup.ts";
import type { BackupPlace } from "./backup-command.ts";
import { newName, prune, removeCutOff } from "./backup-schedule.ts";
import { outsideLines, outsideOf } from "./snapshot-protocol.ts";
import { restore } from "./restore.ts";
import { countText, sizeText } from "./contents.ts";

export async function runBackup(settings: Settings, secrets: Secrets, place: BackupPlace): Promise<void> {
  // Requests to this machine take precedence.
  setPriority(constants.priority.PRIORITY_LOW);
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => stop.abort(new StartError(`ended by ${signal}: nothing is left of this backup`)));
  const folder = "into" in place ? join(place.into, newName(new Date())) : place.folder;
  const made = await backup(settings, secrets, folder, {
    signal: stop.signal,
    onSize: ({ files, bytes }, free) =>
      print(`copying ${countText(files, "file")}, ${sizeText(bytes)}, to ${folder}; ${sizeText(free)} are free there`),
    ...("into" in place && { onAlone: () => removeCutOff(place.into) }),
  });
  for (const line of backupLines(made)) print(line);
  if (!("into" in place) || place.keep === undefined) return;
  const removed = await prune(place.into, place.keep, basename(folder));
  if (removed.length > 0) print(`removed ${removed.join(", ")}: the newest ${place.keep} are kept`);
}

function backupLines({ folder, files, bytes, moments, outside }: Backup): string[] {
  return [
    `${countText(files, "file")}, ${sizeText(bytes)} in ${folder}; it holds secrets and telemetry: keep it as safe as DATA_DIR`,
    ...(moments ? [`the backend went on; what was answered before is in it: ${momentsText(moments)}`] : []),
    ...outsideLines(outside),
  ];
}

/** Names the stores that operators know; the snapshot lists the engine's own tables too. */
function momentsText(moments: Readonly<Record<string, string>>): string {
  const named = ["metrics", "logs", "spans", "accounts"].filter((store) => moments[store] !== undefined);
  return named.map((store) => `${store} ${moments[store]}`).join(", ");
}

export async function runRestore(settings: Settings, secrets: Secrets, folder: string): Promise<void> {
  const { files, bytes, createdAt, lines, accountsAt } = await restore(settings, folder);
  print(
    `${countText(files, "file")}, ${sizeText(bytes)} of ${createdAt} restored into ${settings.dataDir}: start it with \`atherops-backend serve\``,
  );
  for (const line of lines) print(line);
  if (lines.some((line) => line.startsWith("accounts")))
    print(
      `who enrolled, or got a new key, after ${accountsAt} is unknown to it: give each such agent a new install token; keys that were removed since are in force again (docs/backup.md, "After a restore")`,
    );
  for (const line of outsideLines(outsideOf(settings, secrets))) print(line);
}

function print(line: string): void {
  console.error(line);
}
