// `atherops-backend restore`: copies a backup into an empty DATA_DIR. Invariant: every file must match the manifest; afterwards DATA_DIR has
// either the whole backup or nothing.
import { existsSync } from "node:fs";
import { readdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { folderSynced } from "../../../common/files.ts";
import { SettingsError, type Settings } from "../../settings.ts";
import { StartError } from "../../startup-error.ts";
import { isData } from "./backup.ts";
import { finished } from "./backup-schedule.ts";
import { copyPieces, freeBytes, sharesBlocks } from "./copy-tree.ts";
import { lockDataDir } from "./lock.ts";
import { requireSameEntries, type Manifest, readManifest, totalOf } from "./manifest.ts";
import { describeContents, sizeText } from "./contents.ts";

export interface Restored {
  readonly files: number;
  readonly bytes: number;
  readonly createdAt: string;
  /** What was restored, one line for each store. */
  readonly lines: readonly string[];
  /** The accounts are as of this time. */
  readonly accountsAt: string;
}

/** Throws SettingsError, StartError or DataDirInUseError, with DATA_DIR as it was. */
export async function restore(
  settings: Settings,
  folder: string,
  { freeBytes: ask = freeBytes }: { freeBytes?: typeof freeBytes } = {},
): Promise<Restored> {
  const { dataDir } = settings;
  const newest = finished(folder).at(-1);
  if (newest !== undefined) throw new SettingsError(`${folder} has several backups: name one, such as the newest, ${join(folder, newest)}`);
  const manifest = await readManifest(folder);
  await using _lock = await lockDataDir(dataDir);
  const draft = join(dataDir, ".restoring");
  await rm(draft, { recursive: true, force: true });
  const present = (await readdir(dataDir)).filter(isData);
  if (present.length > 0)
    throw new SettingsError(`DATA_DIR ${dataDir} is not empty (${present.slice(0, 3).join(", ")}): restore into an empty one`);
  const pieces = [{ from: join(folder, "data"), to: "" }];
  const total = totalOf(manifest.entries);
  const free = await ask(dataDir);
  if (total.bytes > free && !(await sharesBlocks(pieces, dataDir)))
    throw new StartError(
      `there is no room in DATA_DIR ${dataDir}: this backup takes ${sizeText(total.bytes)}, and ${sizeText(free)} are free`,
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
