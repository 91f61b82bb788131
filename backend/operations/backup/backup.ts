// Implements `atherops-backend backup` for an embedded installation: makes a verified copy of DATA_DIR, while the backend runs or is
// stopped. Invariants: a folder with its final name is a complete backup and on disk; if the backend runs, telemetry is copied first, then
// accounts, then secrets, so the backup contains everything that its rows refer to. External engines (PostgreSQL, ClickHouse,
// VictoriaMetrics) have their own backups: docs/backup.md.
import { existsSync } from "node:fs";
import { lstat, mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { folderSynced } from "../../../common/files.ts";
import { frozenStore, isDefinition } from "../../engines/clickhouse/freeze.ts";
import { endOrphan } from "../../engines/orphan.ts";
import { copyOnline } from "../../engines/sqlite/online-copy.ts";
import { ACCOUNTS_FILE } from "../../engines/sqlite/open.ts";
import { snapshotFolder } from "../../engines/victoria-metrics/snapshot.ts";
import { SettingsError, type Secrets, type Settings } from "../../settings.ts";
import { StartError } from "../../errors.ts";
import { copyPieces, type Entries, freeBytes, type Piece, sharesBlocks, type Size, sizeOf } from "./copy-tree.ts";
import {
  type BackupSnapshot,
  type External,
  externalOf,
  removeSnapshotRemains,
  SNAPSHOT_FOLDER,
  SNAPSHOT_JOURNAL,
} from "./snapshot-protocol.ts";
import { requestSnapshot, type OpenSnapshot } from "./snapshot-client.ts";
import { lockDataDir } from "./lock.ts";
import { totalOf, writeManifest } from "./manifest.ts";
import { sizeText } from "./contents.ts";

const ORPHAN_GRACE_MS = 10_000;
/** Files of a running process that are not data. `accounts.sqlite-wal`, which a killed process leaves, is data. */
const TRANSIENT = /^(compiled|lock|lock-journal|lock\.holder|backup\.sock|backup-hold|.*\.pid|.*-shm|\.restoring)$/;

/** Whether the file or folder of this name in DATA_DIR is part of the installation's data. */
export function isData(name: string): boolean {
  return !TRANSIENT.test(name);
}

export interface BackupOptions {
  readonly signal?: AbortSignal;
  /** Called before anything is copied. */
  readonly onSize?: (size: Size, freeBytes: number) => void;
  /** Called once no other backup of this DATA_DIR can start. */
  readonly onExclusive?: () => Promise<void>;
  readonly freeBytes?: typeof freeBytes;
}

export interface Backup extends Size {
  readonly folder: string;
  /** Set if the backend ran: the time of the snapshot of each store. */
  readonly snapshotTimes: Readonly<Record<string, string>> | undefined;
  readonly external: External;
}

/** The pieces to copy, and their description for the manifest. */
interface Source {
  readonly pieces: readonly Piece[];
  /** The path of accounts.sqlite if the backend runs: SQLite copies it, before all other pieces. */
  readonly accounts?: string;
  readonly snapshotTimes?: Readonly<Record<string, string>>;
  readonly series?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Throws if the snapshot may have been released while it was copied. */
  readonly check?: () => void;
}

/** Copies into `folder`, which must not exist. Throws SettingsError, StartError or DataDirInUseError, with nothing left behind. */
export async function backup(settings: Settings, secrets: Secrets, folder: string, options: BackupOptions = {}): Promise<Backup> {
  const { dataDir } = settings;
  if (!existsSync(dataDir)) throw new SettingsError(`DATA_DIR ${dataDir} does not exist: set it to the backend's`);
  if (await exists(folder)) throw new SettingsError(`${folder} exists: choose a new folder`);
  if (`${resolve(folder)}/`.startsWith(`${dataDir}/`)) throw new SettingsError(`${folder} is inside DATA_DIR: choose a folder elsewhere`);
  await using open = await requestSnapshot(dataDir);
  if (open)
    return { ...(await write(folder, await snapshotSource(dataDir, open, options.signal), options)), external: open.snapshot.external };
  const external = externalOf(settings, secrets);
  if (external.engines.length === 3)
    throw new SettingsError("every engine is external: there is nothing in DATA_DIR to back up; see docs/backup.md");
  using _lock = lockDataDir(dataDir);
  await terminateEngines(dataDir);
  await removeSnapshotRemains(dataDir);
  const pieces = [{ from: dataDir, to: "", isWanted: isData }];
  return { ...(await write(folder, { pieces, signal: options.signal }, options)), external };
}

/** Ends engines of a killed backend, which may still write. */
async function terminateEngines(dataDir: string): Promise<void> {
  const pidFiles = (await readdir(dataDir)).filter((name) => name.endsWith(".pid"));
  for (const name of pidFiles) await endOrphan(join(dataDir, name), ORPHAN_GRACE_MS);
}

async function snapshotSource(dataDir: string, { snapshot, lost }: OpenSnapshot, stopSignal: AbortSignal | undefined): Promise<Source> {
  const signal = stopSignal ? AbortSignal.any([lost, stopSignal]) : lost;
  const mark = join(dataDir, SNAPSHOT_FOLDER, snapshot.mark);
  return {
    pieces: [...enginePieces(dataDir, snapshot), ...(await remainingPieces(dataDir, snapshot))],
    ...(snapshot.hasAccounts && { accounts: join(dataDir, ACCOUNTS_FILE) }),
    snapshotTimes: snapshot.snapshotTimes,
    series: snapshot.series,
    signal,
    check: () => {
      if (!existsSync(mark))
        throw new StartError("the backend released its snapshot too early; the partial backup was removed: run the command again");
    },
  };
}

/** If no logs and spans were stored before the snapshot, it does not contain the tables, even if they exist now. */
function enginePieces(dataDir: string, { frozen, snapshot, snapshotTimes }: BackupSnapshot): Piece[] {
  const [clickhouse, metrics] = [join(dataDir, "clickhouse"), join(dataDir, "metrics")];
  const tables: Piece[] = [
    { from: clickhouse, to: "clickhouse", isWanted: (path) => isDefinition(clickhouse, path) },
    { from: frozen === undefined ? "" : frozenStore(clickhouse, frozen), to: "clickhouse/store" },
  ];
  const samples: Piece[] = [
    { from: snapshot === undefined ? "" : snapshotFolder(metrics, snapshot), to: "metrics", followWithin: metrics },
    { from: join(dataDir, SNAPSHOT_FOLDER, SNAPSHOT_JOURNAL), to: "metrics-journal" },
  ];
  return [...(frozen === undefined || snapshotTimes["logs"] === undefined ? [] : tables), ...(snapshot === undefined ? [] : samples)];
}

/**
 * Everything that no running engine writes, such as secrets. It is copied last, because it never changes and is older than the data that
 * needs it.
 */
async function remainingPieces(dataDir: string, { frozen, snapshot, hasAccounts }: BackupSnapshot): Promise<Piece[]> {
  const inSnapshot = [
    ...(frozen === undefined ? [] : ["clickhouse"]),
    ...(snapshot === undefined ? [] : ["metrics", "metrics-journal"]),
    ...(hasAccounts ? ["", "-wal"].map((ending) => `${ACCOUNTS_FILE}${ending}`) : []),
  ];
  const names = (await readdir(dataDir)).filter((name) => isData(name) && !inSnapshot.includes(name));
  return names.sort().map((name) => ({ from: join(dataDir, name), to: name, isOptional: true }));
}

async function write(folder: string, source: Source, options: BackupOptions): Promise<Omit<Backup, "external">> {
  const draft = join(dirname(folder), `.${basename(folder)}.partial`);
  try {
    await options.onExclusive?.();
    await rm(draft, { recursive: true, force: true });
    await mkdir(draft, { recursive: true, mode: 0o700 });
    await requireFreeSpace(draft, source, options);
    const createdAt = new Date().toISOString();
    const { entries, snapshotTimes } = await fill(draft, source);
    source.signal?.throwIfAborted();
    source.check?.();
    const details = { ...(snapshotTimes && { moments: snapshotTimes }), ...(source.series !== undefined && { series: source.series }) };
    await writeManifest(draft, { created_at: createdAt, entries, ...details });
    await folderSynced(draft);
    await rename(draft, folder);
    await folderSynced(dirname(folder));
    return { folder, snapshotTimes, ...totalOf(entries) };
  } catch (error) {
    await rm(draft, { recursive: true, force: true }).catch(() => undefined);
    // If the backend released the snapshot, report that as the reason for missing files.
    source.signal?.throwIfAborted();
    throw explainError(error, folder);
  }
}

async function fill(draft: string, source: Source): Promise<{ entries: Entries; snapshotTimes: Source["snapshotTimes"] }> {
  const { pieces, accounts, snapshotTimes, signal } = source;
  const data = join(draft, "data");
  if (accounts === undefined) return { entries: await copyPieces(pieces, data, signal), snapshotTimes };
  const copy = join(draft, ACCOUNTS_FILE);
  const accountsAt = await copyOnline(accounts, copy);
  const { mode } = await stat(accounts);
  const entries = await copyPieces([{ from: copy, to: ACCOUNTS_FILE, mode: mode & 0o777 }, ...pieces], data, signal);
  await rm(copy);
  return { entries, snapshotTimes: { ...snapshotTimes, accounts: accountsAt } };
}

async function requireFreeSpace(
  draft: string,
  { pieces, accounts }: Source,
  { onSize, freeBytes: readFreeBytes = freeBytes }: BackupOptions,
): Promise<void> {
  const needed = await sizeOf([
    ...pieces,
    ...(accounts === undefined ? [] : [accounts, `${accounts}-wal`].map((from) => ({ from, to: "", isOptional: true }))),
  ]);
  const free = await readFreeBytes(draft);
  onSize?.(needed, free);
  if (needed.bytes <= free || (await sharesBlocks(pieces, draft))) return;
  throw new StartError(
    `not enough space in ${dirname(draft)}: this backup needs ${sizeText(needed.bytes)}; ${sizeText(free)} available; nothing was written`,
  );
}

/** A StartError if the operator can fix the cause, such as a full disk. */
function explainError(error: unknown, folder: string): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (!["ENOSPC", "EDQUOT", "EACCES", "EPERM", "EROFS", "ENOTDIR", "EEXIST", "EIO", "ENAMETOOLONG"].includes(String(code))) return error;
  return new StartError(`${folder} cannot be written (${message}); the partial backup was removed`, { cause: error });
}

async function exists(path: string): Promise<boolean> {
  return await lstat(path).then(
    () => true,
    () => false,
  );
}
