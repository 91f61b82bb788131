// Runs `atherops-backend backup` and `restore`, and prints what they did. Invariants: after SIGINT or SIGTERM, a backup stops and leaves no
// files behind; a restore needs an empty DATA_DIR, and compares every copied file with the manifest before the first one is moved to its
// destination. The last step renames one top-level entry after the other, so a crash within it can leave a part of the backup in DATA_DIR.
import { constants, setPriority } from "node:os";
import { basename, dirname, join } from "node:path";
import { type Secrets, type Settings, SettingsError } from "../../settings.ts";
import { StartError } from "../../errors.ts";
import { type Backup, backup, isData } from "./backup.ts";
import { listBackups, backupName, prune, removePartialBackups } from "./backup-schedule.ts";
import { externalLines, externalOf } from "./snapshot-protocol.ts";
import { countText, describeContents, sizeText } from "./contents.ts";
import { existsSync } from "node:fs";
import { readdir, rename, rm } from "node:fs/promises";
import { folderSynced } from "../../../common/files.ts";
import { copyPieces, freeBytes, sharesBlocks } from "./copy-tree.ts";
import { lockDataDir } from "./lock.ts";
import { type Manifest, readManifest, requireSameEntries, totalOf } from "./manifest.ts";

/** Either the backup's own folder, or the folder in which a new backup is created. */
export type BackupDestination = { readonly folder: string } | { readonly into: string; readonly keep: number | undefined };

export async function runBackup(settings: Settings, secrets: Secrets, destination: BackupDestination): Promise<void> {
  // Requests to this machine have priority.
  setPriority(constants.priority.PRIORITY_LOW);
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => stop.abort(new StartError(`interrupted by ${signal}; the partial backup was removed`)));
  const folder = "into" in destination ? join(destination.into, backupName(new Date())) : destination.folder;
  const result = await backup(settings, secrets, folder, {
    signal: stop.signal,
    onSize: ({ files, bytes }, free) =>
      print(`copying ${countText(files, "file")}, ${sizeText(bytes)}, to ${folder}; ${sizeText(free)} available`),
    ...("into" in destination && { onExclusive: () => removePartialBackups(destination.into) }),
  });
  for (const line of backupLines(result)) print(line);
  if (!("into" in destination) || destination.keep === undefined) return;
  const removed = await prune(destination.into, destination.keep, basename(folder));
  if (removed.length > 0) print(`removed ${removed.join(", ")}: the newest ${destination.keep} are kept`);
}

function backupLines({ folder, files, bytes, snapshotTimes, external }: Backup): string[] {
  return [
    `${countText(files, "file")}, ${sizeText(bytes)} in ${folder}; it contains secrets and telemetry: protect it like DATA_DIR`,
    ...(snapshotTimes
      ? [`taken while the backend was running; it contains everything acknowledged before: ${snapshotTimesText(snapshotTimes)}`]
      : []),
    ...externalLines(external),
  ];
}

/** Lists the stores that operators know; the snapshot also lists the engine's own tables. */
function snapshotTimesText(times: Readonly<Record<string, string>>): string {
  const stores = ["metrics", "logs", "spans", "accounts"].filter((store) => times[store] !== undefined);
  return stores.map((store) => `${store} ${times[store]}`).join(", ");
}

export async function runRestore(settings: Settings, secrets: Secrets, folder: string): Promise<void> {
  const { files, bytes, createdAt, lines, accountsAt } = await restore(settings, folder);
  print(
    `${countText(files, "file")}, ${sizeText(bytes)} of ${createdAt} restored into ${settings.dataDir}: start it with \`atherops-backend serve\``,
  );
  for (const line of lines) print(line);
  if (lines.some((line) => line.startsWith("accounts")))
    print(
      `Keys of agents that enrolled or rotated their key after ${accountsAt} are not in this backup: give each such agent a new install token. Keys revoked after ${accountsAt} are valid again; revoke them again (docs/backup.md, "After a restore").`,
    );
  for (const line of externalLines(externalOf(settings, secrets))) print(line);
}

function print(line: string): void {
  console.error(line);
}

/** Throws SettingsError, StartError or DataDirInUseError, with DATA_DIR unchanged unless the final renames failed. */
export async function restore(
  settings: Settings,
  folder: string,
  { freeBytes: readFreeBytes = freeBytes }: { freeBytes?: typeof freeBytes } = {},
) {
  const { dataDir } = settings;
  const newest = listBackups(folder).at(-1);
  if (newest !== undefined)
    throw new SettingsError(`${folder} contains several backups: choose one, such as the newest, ${join(folder, newest)}`);
  const manifest = await readManifest(folder);
  using _lock = lockDataDir(dataDir);
  const draft = join(dataDir, ".restoring");
  await rm(draft, { recursive: true, force: true });
  const present = (await readdir(dataDir)).filter(isData);
  if (present.length > 0)
    throw new SettingsError(`DATA_DIR ${dataDir} is not empty (${present.slice(0, 3).join(", ")}): restore into an empty one`);
  const pieces = [{ from: join(folder, "data"), to: "" }];
  const total = totalOf(manifest.entries);
  const free = await readFreeBytes(dataDir);
  if (total.bytes > free && !(await sharesBlocks(pieces, dataDir)))
    throw new StartError(
      `not enough space in DATA_DIR ${dataDir}: this backup needs ${sizeText(total.bytes)}; ${sizeText(free)} available`,
    );
  const lines = await copyVerified(draft, manifest, pieces, dataDir);
  return { ...total, createdAt: manifest.created_at, lines, accountsAt: manifest.moments?.["accounts"] ?? manifest.created_at };
}

async function copyVerified(
  draft: string,
  manifest: Manifest,
  pieces: Parameters<typeof copyPieces>[0],
  dataDir: string,
): Promise<string[]> {
  try {
    requireSameEntries(manifest.entries, await copyPieces(pieces, draft));
    const lines = describeContents(draft, manifest);
    for (const name of await readdir(draft)) await rename(join(draft, name), join(dataDir, name));
    return lines;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== "ENOSPC" && code !== "EDQUOT") throw error;
    throw new StartError(`DATA_DIR ${dataDir} cannot take this backup (${message}): nothing was restored`, { cause: error });
  } finally {
    await rm(draft, { recursive: true, force: true });
    await folderSynced(existsSync(dataDir) ? dataDir : dirname(dataDir));
  }
}
