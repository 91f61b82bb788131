// `atherops-backend backup` and `restore` of an embedded installation: a checked copy of DATA_DIR, taken while nothing runs on it.
// Invariant: a backup folder that has its final name is complete, and a restore that its manifest does not confirm, file by file, never
// becomes a DATA_DIR. What is outside (PostgreSQL, ClickHouse, VictoriaMetrics) is backed up there: docs/backup.md.
import { createHash } from "node:crypto";
import { constants, createReadStream } from "node:fs";
import { chmod, copyFile, lstat, mkdir, open, readdir, readFile, readlink, rename, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Command } from "commander";
import { lockDataDir } from "./lock.ts";
import { endOrphan } from "../engines/orphan.ts";
import { readSettings, SettingsError, type Secrets, type Settings } from "../settings.ts";

const MANIFEST = "manifest.json";
const FORMAT = 1;
const ORPHAN_GRACE_MS = 10_000;
/** What belongs to a running process and not to the data; a killed one leaves `accounts.sqlite-wal`, which is data, and its index. */
const TRANSIENT = /^(compiled|lock|lock-journal|lock\.holder|.*\.pid|.*-shm|\.restoring)$/;

interface Manifest {
  format: number;
  created_at: string;
  /** Relative path → what it is. */
  entries: Record<string, Entry>;
}

type Entry = { folder: true; mode: number } | { link: string } | { bytes: number; sha256: string; mode: number };

/** Adds both commands. They answer on stderr what was done and what is not part of it. */
export function addBackupCommands(program: Command, read: typeof readSettings = readSettings): void {
  program
    .command("backup <folder>")
    .description("copy the embedded engines' data and the generated secrets of DATA_DIR into a new folder; stop the backend first")
    .addHelpText("after", "\nExample:\n  DATA_DIR=/var/lib/atherops atherops-backend backup /backup/atherops-$(date +%F)")
    .action(async (folder: string) => {
      const { settings, secrets } = read();
      const { files, bytes } = await backup(settings, secrets, resolve(folder));
      console.error(`${files} files, ${bytes} bytes in ${resolve(folder)}; it holds secrets and telemetry: keep it as safe as DATA_DIR`);
      for (const line of outside(settings, secrets)) console.error(line);
    });
  program
    .command("restore <folder>")
    .description("check a backup and copy it into DATA_DIR, which must be empty or missing")
    .addHelpText("after", "\nExample:\n  DATA_DIR=/var/lib/atherops atherops-backend restore /backup/atherops-2026-11-21")
    .action(async (folder: string) => {
      const { settings, secrets } = read();
      const { files, createdAt } = await restore(settings, resolve(folder));
      console.error(`${files} files of ${createdAt} restored into ${settings.dataDir}: start it with \`atherops-backend serve\``);
      for (const line of outside(settings, secrets)) console.error(line);
    });
}

/** Copies DATA_DIR into `folder`, which must not exist. Throws when the backend runs, or when nothing is embedded. */
export async function backup(settings: Settings, secrets: Secrets, folder: string): Promise<{ files: number; bytes: number }> {
  const { dataDir } = settings;
  if (secrets.databaseUrl && secrets.clickhouseUrl && settings.metricsWriteUrl)
    throw new SettingsError("every engine is outside: there is nothing in DATA_DIR to back up; see docs/backup.md");
  if (!(await isThere(dataDir))) throw new SettingsError(`DATA_DIR ${dataDir} does not exist: set it to the backend's`);
  if (await isThere(folder)) throw new SettingsError(`${folder} exists: name a new folder`);
  if (`${folder}/`.startsWith(`${dataDir}/`)) throw new SettingsError(`${folder} is inside DATA_DIR: name a folder elsewhere`);
  await using _lock = await lockDataDir(dataDir);
  await endEngines(dataDir);
  const draft = join(dirname(folder), `.${basename(folder)}.partial`);
  await rm(draft, { recursive: true, force: true });
  await mkdir(draft, { recursive: true, mode: 0o700 });
  const entries = await copyTree(dataDir, join(draft, "data"), (name) => !TRANSIENT.test(name));
  const manifest: Manifest = { format: FORMAT, created_at: new Date().toISOString(), entries };
  await writeSynced(join(draft, MANIFEST), JSON.stringify(manifest));
  await rename(draft, folder);
  await syncFolder(dirname(folder));
  const sizes = Object.values(entries).flatMap((entry) => ("bytes" in entry ? [entry.bytes] : []));
  return { files: sizes.length, bytes: sizes.reduce((sum, size) => sum + size, 0) };
}

/** Copies a backup into DATA_DIR after checking each file of it. Throws, with DATA_DIR as it was, when a file is not as it was written. */
export async function restore(settings: Settings, folder: string): Promise<{ files: number; createdAt: string }> {
  const { dataDir } = settings;
  const manifest = await readManifest(folder);
  await using _lock = await lockDataDir(dataDir);
  const draft = join(dataDir, ".restoring");
  await rm(draft, { recursive: true, force: true });
  const present = (await readdir(dataDir)).filter((name) => !TRANSIENT.test(name));
  if (present.length > 0)
    throw new SettingsError(`DATA_DIR ${dataDir} is not empty (${present.slice(0, 3).join(", ")}): restore into an empty one`);
  try {
    const restored = await copyTree(join(folder, "data"), draft, () => true);
    checkSame(manifest.entries, restored);
    for (const name of await readdir(draft)) await rename(join(draft, name), join(dataDir, name));
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  await syncFolder(dataDir);
  return { files: Object.values(manifest.entries).filter((entry) => "bytes" in entry).length, createdAt: manifest.created_at };
}

/** A killed backend's engines may still write. */
async function endEngines(dataDir: string): Promise<void> {
  const pidFiles = (await readdir(dataDir)).filter((name) => name.endsWith(".pid"));
  for (const name of pidFiles) await endOrphan(join(dataDir, name), ORPHAN_GRACE_MS);
}

function outside(settings: Settings, secrets: Secrets): string[] {
  const engines = [
    secrets.databaseUrl && "PostgreSQL",
    secrets.clickhouseUrl && "ClickHouse",
    settings.metricsWriteUrl && "VictoriaMetrics",
  ];
  const values = [secrets.masterKey && "MASTER_KEY", secrets.jwtSecret && "JWT_SECRET"];
  return [
    ...engines.filter(Boolean).map((name) => `${name} is outside and not part of this: see docs/backup.md`),
    ...values.filter(Boolean).map((name) => `${name} comes from the environment and is not part of this: keep it too`),
  ];
}

/** Copies folders, files and symbolic links as they are; answers what was written, with the hash of what was read back. */
async function copyTree(from: string, to: string, wanted: (name: string) => boolean, prefix = ""): Promise<Record<string, Entry>> {
  const entries: Record<string, Entry> = {};
  const { mode } = await lstat(from);
  await mkdir(to, { recursive: true });
  for (const name of (await readdir(from)).filter(wanted).sort()) {
    const path = prefix ? `${prefix}/${name}` : name;
    const [source, target] = [join(from, name), join(to, name)];
    const stat = await lstat(source);
    if (stat.isDirectory()) {
      entries[path] = { folder: true, mode: stat.mode & 0o777 };
      Object.assign(entries, await copyTree(source, target, () => true, path));
    } else if (stat.isSymbolicLink()) {
      const link = await readlink(source);
      await symlink(link, target);
      entries[path] = { link };
    } else if (stat.isFile()) {
      await copyFile(source, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
      await chmod(target, stat.mode & 0o777);
      await utimes(target, stat.atime, stat.mtime);
      entries[path] = { ...(await syncedHash(target)), mode: stat.mode & 0o777 };
    }
  }
  await chmod(to, mode & 0o777);
  return entries;
}

async function syncedHash(path: string): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  const handle = await open(path, "r");
  try {
    await handle.sync();
    return { bytes: (await handle.stat()).size, sha256: hash.digest("hex") };
  } finally {
    await handle.close();
  }
}

function checkSame(expected: Record<string, Entry>, found: Record<string, Entry>): void {
  const paths = new Set([...Object.keys(expected), ...Object.keys(found)]);
  for (const path of paths) {
    const [one, other] = [expected[path], found[path]];
    if (one && other && JSON.stringify(one) === JSON.stringify(other)) continue;
    const what = other === undefined ? "is missing" : one === undefined ? "was not part of it" : "is not as it was written";
    throw new SettingsError(`this backup is damaged: ${path} ${what}; nothing was restored`);
  }
}

async function readManifest(folder: string): Promise<Manifest> {
  const text = await readFile(join(folder, MANIFEST), "utf8").catch(() => {
    throw new SettingsError(`${folder} is not a backup: it has no ${MANIFEST}`);
  });
  try {
    const manifest = JSON.parse(text) as Manifest;
    if (manifest.format === FORMAT) return manifest;
  } catch {
    // Told below, like an unknown format.
  }
  throw new SettingsError(`${join(folder, MANIFEST)} cannot be read by this version`);
}

async function isThere(path: string): Promise<boolean> {
  return await lstat(path).then(
    () => true,
    () => false,
  );
}

async function writeSynced(path: string, text: string): Promise<void> {
  await writeFile(path, text, { mode: 0o600, flush: true });
}

async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
