// `atherops-backend backup` of an embedded installation: a checked copy of DATA_DIR, of a stopped backend or of one that runs. Invariants: a
// backup that has its final name is complete and on the disk; what failed or was cut off has none. Of a backend that runs, the telemetry is
// of a moment before that of the accounts, and the accounts of one before the secrets: what a row needs is copied after the row. What is
// outside (PostgreSQL, ClickHouse, VictoriaMetrics) is backed up there: docs/backup.md.
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
import { StartError } from "../../startup-error.ts";
import { copyPieces, type Entries, freeBytes, type Piece, sharesBlocks, type Size, sizeOf } from "./copy-tree.ts";
import { type Held, HELD_JOURNAL, HOLD_FOLDER, type Outside, removeLeftovers } from "./held.ts";
import { askForHold, type Hold } from "./hold-client.ts";
import { lockDataDir } from "./lock.ts";
import { totalOf, writeManifest } from "./manifest.ts";
import { sizeText } from "./size-text.ts";
import { outsideOf } from "./outside.ts";

const ORPHAN_GRACE_MS = 10_000;
/** What belongs to a running process and not to the data; a killed one leaves `accounts.sqlite-wal`, which is data, and its index. */
const TRANSIENT = /^(compiled|lock|lock-journal|lock\.holder|backup\.sock|backup-hold|.*\.pid|.*-shm|\.restoring)$/;

/** Whether what has this name in a DATA_DIR is part of the installation. */
export function isData(name: string): boolean {
  return !TRANSIENT.test(name);
}

export interface BackupOptions {
  readonly signal?: AbortSignal;
  /** Told in advance. */
  readonly onSize?: (size: Size, freeBytes: number) => void;
  /** Called once no other backup of this DATA_DIR can be under way. */
  readonly onAlone?: () => Promise<void>;
  readonly freeBytes?: typeof freeBytes;
}

export interface Backup extends Size {
  readonly folder: string;
  /** Of a backend that runs: store → when. */
  readonly moments: Readonly<Record<string, string>> | undefined;
  readonly outside: Outside;
}

/** What is copied, and what is said of it. */
interface Source {
  readonly pieces: readonly Piece[];
  /** Copied first, by SQLite. */
  readonly accounts?: string;
  readonly moments?: Readonly<Record<string, string>>;
  readonly series?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Throws where something may have gone while it was copied. */
  readonly check?: () => void;
}

/** Copies into `folder`, which must not exist. Throws SettingsError, StartError or DataDirInUseError, with nothing left behind. */
export async function backup(settings: Settings, secrets: Secrets, folder: string, options: BackupOptions = {}): Promise<Backup> {
  const { dataDir } = settings;
  if (!existsSync(dataDir)) throw new SettingsError(`DATA_DIR ${dataDir} does not exist: set it to the backend's`);
  if (await isThere(folder)) throw new SettingsError(`${folder} exists: name a new folder`);
  if (`${resolve(folder)}/`.startsWith(`${dataDir}/`)) throw new SettingsError(`${folder} is inside DATA_DIR: name a folder elsewhere`);
  await using hold = await askForHold(dataDir);
  if (hold) return { ...(await write(folder, await heldSource(dataDir, hold, options.signal), options)), outside: hold.held.outside };
  const outside = outsideOf(settings, secrets);
  if (outside.engines.length === 3)
    throw new SettingsError("every engine is outside: there is nothing in DATA_DIR to back up; see docs/backup.md");
  await using _lock = await lockDataDir(dataDir);
  await endEngines(dataDir);
  await removeLeftovers(dataDir);
  const pieces = [{ from: dataDir, to: "", isWanted: isData }];
  return { ...(await write(folder, { pieces, signal: options.signal }, options)), outside };
}

/** A killed backend's engines may still write. */
async function endEngines(dataDir: string): Promise<void> {
  const pidFiles = (await readdir(dataDir)).filter((name) => name.endsWith(".pid"));
  for (const name of pidFiles) await endOrphan(join(dataDir, name), ORPHAN_GRACE_MS);
}

async function heldSource(dataDir: string, hold: Hold, stop: AbortSignal | undefined): Promise<Source> {
  const { held } = hold;
  const signal = stop ? AbortSignal.any([hold.lost, stop]) : hold.lost;
  const mark = join(dataDir, HOLD_FOLDER, held.mark);
  return {
    pieces: [...heldPieces(dataDir, held), ...(await otherPieces(dataDir, held))],
    ...(held.hasAccounts && { accounts: join(dataDir, ACCOUNTS_FILE) }),
    moments: held.moments,
    series: held.series,
    signal,
    check: () => {
      if (!existsSync(mark)) throw new StartError("the backend let go before all was copied: nothing is left of this backup; repeat it");
    },
  };
}

/** Where logs and spans were never stored, there is no table at that moment, whatever has come since. */
function heldPieces(dataDir: string, { frozen, snapshot, moments }: Held): Piece[] {
  const [clickhouse, metrics] = [join(dataDir, "clickhouse"), join(dataDir, "metrics")];
  const tables: Piece[] = [
    { from: clickhouse, to: "clickhouse", isWanted: (path) => isDefinition(clickhouse, path) },
    { from: frozen === undefined ? "" : frozenStore(clickhouse, frozen), to: "clickhouse/store" },
  ];
  const samples: Piece[] = [
    { from: snapshot === undefined ? "" : snapshotFolder(metrics, snapshot), to: "metrics", followWithin: metrics },
    { from: join(dataDir, HOLD_FOLDER, HELD_JOURNAL), to: "metrics-journal" },
  ];
  return [...(frozen === undefined || moments["logs"] === undefined ? [] : tables), ...(snapshot === undefined ? [] : samples)];
}

/** All that no running engine writes, the secrets among it. They come last: they are never changed, and older than what needs them. */
async function otherPieces(dataDir: string, { frozen, snapshot, hasAccounts }: Held): Promise<Piece[]> {
  const held = [
    ...(frozen === undefined ? [] : ["clickhouse"]),
    ...(snapshot === undefined ? [] : ["metrics", "metrics-journal"]),
    ...(hasAccounts ? ["", "-wal"].map((ending) => `${ACCOUNTS_FILE}${ending}`) : []),
  ];
  const names = (await readdir(dataDir)).filter((name) => isData(name) && !held.includes(name));
  return names.sort().map((name) => ({ from: join(dataDir, name), to: name, isOptional: true }));
}

async function write(folder: string, source: Source, options: BackupOptions): Promise<Omit<Backup, "outside">> {
  const draft = join(dirname(folder), `.${basename(folder)}.partial`);
  try {
    await options.onAlone?.();
    await rm(draft, { recursive: true, force: true });
    await mkdir(draft, { recursive: true, mode: 0o700 });
    await requireRoom(draft, source, options);
    const createdAt = new Date().toISOString();
    const { entries, moments } = await fill(draft, source);
    source.signal?.throwIfAborted();
    source.check?.();
    const told = { ...(moments && { moments }), ...(source.series !== undefined && { series: source.series }) };
    await writeManifest(draft, { created_at: createdAt, entries, ...told });
    await folderSynced(draft);
    await rename(draft, folder);
    await folderSynced(dirname(folder));
    return { folder, moments, ...totalOf(entries) };
  } catch (error) {
    await rm(draft, { recursive: true, force: true }).catch(() => undefined);
    // What is missing is so because the backend let go.
    source.signal?.throwIfAborted();
    throw inWords(error, folder);
  }
}

async function fill(draft: string, source: Source): Promise<{ entries: Entries; moments: Source["moments"] }> {
  const { pieces, accounts, moments, signal } = source;
  const data = join(draft, "data");
  if (accounts === undefined) return { entries: await copyPieces(pieces, data, signal), moments };
  const copy = join(draft, ACCOUNTS_FILE);
  const accountsAt = await copyOnline(accounts, copy);
  const { mode } = await stat(accounts);
  const entries = await copyPieces([{ from: copy, to: ACCOUNTS_FILE, mode: mode & 0o777 }, ...pieces], data, signal);
  await rm(copy);
  return { entries, moments: { ...moments, accounts: accountsAt } };
}

async function requireRoom(
  draft: string,
  { pieces, accounts }: Source,
  { onSize, freeBytes: ask = freeBytes }: BackupOptions,
): Promise<void> {
  const needed = await sizeOf([
    ...pieces,
    ...(accounts === undefined ? [] : [accounts, `${accounts}-wal`].map((from) => ({ from, to: "", isOptional: true }))),
  ]);
  const free = await ask(draft);
  onSize?.(needed, free);
  if (needed.bytes <= free || (await sharesBlocks(pieces, draft))) return;
  throw new StartError(
    `there is no room for this backup: it takes ${sizeText(needed.bytes)}, and where ${dirname(draft)} is ${sizeText(free)} are free; nothing was written`,
  );
}

function inWords(error: unknown, folder: string): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (!["ENOSPC", "EDQUOT", "EACCES", "EPERM", "EROFS", "ENOTDIR", "EEXIST", "EIO", "ENAMETOOLONG"].includes(String(code))) return error;
  return new StartError(`${folder} cannot be written (${message}): nothing is left of this backup`, { cause: error });
}

async function isThere(path: string): Promise<boolean> {
  return await lstat(path).then(
    () => true,
    () => false,
  );
}
