// What a backup says of itself, `manifest.json`. Invariant: a backup that has one is complete; what it lists is compared entry by entry.
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
  /** Of one that was taken while the backend ran: store → RFC 3339, what was answered before is in it. */
  readonly moments?: Readonly<Record<string, string>>;
  /** That the metrics engine knew then. */
  readonly series?: number;
}

/** On the disk when it resolves. */
export async function writeManifest(folder: string, content: Omit<Manifest, "format">): Promise<void> {
  await writeFile(join(folder, MANIFEST), JSON.stringify({ format: FORMAT, ...content }), { mode: 0o600, flush: true });
}

/** Throws SettingsError for a folder that is no backup of this version. */
export async function readManifest(folder: string): Promise<Manifest> {
  const text = await readFile(join(folder, MANIFEST), "utf8").catch(() => {
    throw new SettingsError(`${folder} is not a backup: it has no ${MANIFEST}`);
  });
  try {
    const manifest = JSON.parse(text) as Manifest;
    if (manifest.format === FORMAT && typeof manifest.entries === "object") return manifest;
  } catch {
    // Told below, like an unknown format.
  }
  throw new SettingsError(`${join(folder, MANIFEST)} cannot be read by this version`);
}

/** Throws SettingsError with the name of one that differs. */
export function checkSame(expected: Entries, found: Entries): void {
  const paths = new Set([...Object.keys(expected), ...Object.keys(found)]);
  for (const path of paths) {
    const [one, other] = [expected[path], found[path]];
    if (one && other && JSON.stringify(one) === JSON.stringify(other)) continue;
    const what = other === undefined ? "is missing" : one === undefined ? "was not part of it" : "is not as it was written";
    throw new SettingsError(`this backup is damaged: ${path} ${what}; nothing was restored`);
  }
}

export function totalOf(entries: Entries): Size {
  const sizes = Object.values(entries).flatMap((entry) => ("bytes" in entry ? [entry.bytes] : []));
  return { files: sizes.length, bytes: sizes.reduce((sum, size) => sum + size, 0) };
}
