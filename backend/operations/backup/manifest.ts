// Reads and writes the manifest of a backup, `manifest.json`, which lists every file with its size and hash. Invariant: a backup with a
// manifest is complete, and a restore compares every entry.
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { SettingsError } from "../../settings.ts";
import type { Entries, Size } from "./copy-tree.ts";

export const MANIFEST = "manifest.json";
const FORMAT = 1;

export interface Manifest {
  readonly format: number;
  readonly created_at: string;
  readonly entries: Entries;
  /**
   * Set if the backend ran: store → RFC 3339 time. Everything that was acknowledged before that time is in the backup. Existing backups have
   * this name, so it cannot change without a new format.
   */
  readonly moments?: Readonly<Record<string, string>>;
  /** The number of series in the metrics engine at that time. */
  readonly series?: number;
}

/** Resolves when the file is on disk. */
export async function writeManifest(folder: string, content: Omit<Manifest, "format">): Promise<void> {
  await writeFile(join(folder, MANIFEST), JSON.stringify({ format: FORMAT, ...content }), { mode: 0o600, flush: true });
}

/** Throws SettingsError if the folder is not a backup of this version. */
export async function readManifest(folder: string): Promise<Manifest> {
  const text = await readFile(join(folder, MANIFEST), "utf8").catch(() => {
    throw new SettingsError(`${folder} is not a backup: it has no ${MANIFEST}`);
  });
  try {
    const manifest = JSON.parse(text) as Manifest;
    if (manifest.format === FORMAT && typeof manifest.entries === "object") return manifest;
  } catch {
    // Reported below, like an unknown format.
  }
  throw new SettingsError(`${join(folder, MANIFEST)} cannot be read by this version`);
}

/** Throws SettingsError with the path of the first entry that differs. */
export function requireSameEntries(expected: Entries, found: Entries): void {
  const paths = new Set([...Object.keys(expected), ...Object.keys(found)]);
  for (const path of paths) {
    const [before, now] = [expected[path], found[path]];
    if (before && now && JSON.stringify(before) === JSON.stringify(now)) continue;
    const difference = now === undefined ? "is missing" : before === undefined ? "was not part of it" : "is not as it was written";
    throw new SettingsError(`this backup is damaged: ${path} ${difference}; nothing was restored`);
  }
}

export function totalOf(entries: Entries): Size {
  const sizes = Object.values(entries).flatMap((entry) => ("bytes" in entry ? [entry.bytes] : []));
  return { files: sizes.length, bytes: sizes.reduce((sum, size) => sum + size, 0) };
}
