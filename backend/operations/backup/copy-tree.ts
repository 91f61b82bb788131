// Copies folders, files and symbolic links as they are, and tells what was written. Invariant: what it has answered for is on the disk,
// names included, and was read back; memory does not grow with what is copied, its list of names apart.
import { createHash } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { chmod, copyFile, lstat, mkdir, open, readdir, readlink, realpath, rm, statfs, symlink, utimes } from "node:fs/promises";
import { dirname, join, sep } from "node:path";
import { folderSynced } from "../../../common/files.ts";

const BUFFER_BYTES = 1024 * 1024;

export type Entry = { folder: true; mode: number } | { link: string } | { bytes: number; sha256: string; mode: number };

/** Relative path → what it is. */
export type Entries = Record<string, Entry>;

/** A file or a folder, and where it goes. */
export interface Piece {
  readonly from: string;
  /** Relative; empty: the target itself. */
  readonly to: string;
  /** Of a folder: paths relative to it. What is not wanted is not looked into. */
  readonly isWanted?: (path: string) => boolean;
  /** Links within this folder are copied as what they lead to; without it, as links. */
  readonly followWithin?: string;
  /** `from` need not be there. */
  readonly isOptional?: boolean;
  /** Of a file; default its own. */
  readonly mode?: number;
}

export interface Size {
  readonly files: number;
  readonly bytes: number;
}

interface Found {
  readonly source: string;
  readonly path: string;
  readonly stat: Stats;
}

/** What `copyPieces` would copy. */
export async function sizeOf(pieces: readonly Piece[]): Promise<Size> {
  let [files, bytes] = [0, 0];
  for (const piece of pieces)
    for await (const { stat } of walk(piece)) {
      if (!stat.isFile()) continue;
      files += 1;
      bytes += stat.size;
    }
  return { files, bytes };
}

/** Copies into `target`, which it makes. What goes while it is copied is left out. */
export async function copyPieces(pieces: readonly Piece[], target: string, signal?: AbortSignal): Promise<Entries> {
  const entries: Entries = {};
  const folders = new Map<string, number>();
  // One for all files: those of a stream each would be more than all else that this process has.
  const buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES);
  await mkdir(target, { recursive: true });
  for (const piece of pieces)
    for await (const found of walk(piece)) {
      const { path, stat } = found;
      signal?.throwIfAborted();
      const to = join(target, path);
      if (stat.isDirectory()) {
        await mkdir(to, { recursive: true });
        folders.set(path, stat.mode & 0o777);
        if (path !== "") entries[path] = { folder: true, mode: stat.mode & 0o777 };
        continue;
      }
      await mkdir(dirname(to), { recursive: true });
      const entry = await unlessGone(() => copyOne(found, to, { mode: piece.mode ?? stat.mode & 0o777, buffer }));
      if (entry) entries[path] = entry;
    }
  // Last, and from below: one that cannot be written could not be filled.
  for (const [path, mode] of [...folders].toReversed()) {
    await folderSynced(join(target, path));
    await chmod(join(target, path), mode);
  }
  await folderSynced(target);
  return entries;
}

/** Whether the file system of `folder` shares blocks with the pieces instead of copying them. */
export async function sharesBlocks(pieces: readonly Piece[], folder: string): Promise<boolean> {
  const probe = join(folder, ".probe");
  const file = await firstFile(pieces);
  if (file === undefined) return false;
  try {
    await copyFile(file, probe, constants.COPYFILE_FICLONE_FORCE);
    return true;
  } catch {
    return false;
  } finally {
    await rm(probe, { force: true });
  }
}

async function firstFile(pieces: readonly Piece[]): Promise<string | undefined> {
  for (const piece of pieces) for await (const { source, stat } of walk(piece)) if (stat.isFile() && stat.size > 0) return source;
  return undefined;
}

/** What this user may still write where `folder` is. */
export async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

async function* walk(piece: Piece): AsyncGenerator<Found> {
  if (!piece.isOptional) await lstat(piece.from);
  yield* below(piece, piece.from, "");
}

async function* below(piece: Piece, source: string, path: string): AsyncGenerator<Found> {
  const found = await unlessGone(() => lstat(source));
  if (!found) return;
  if (found.isSymbolicLink() && piece.followWithin !== undefined) {
    const real = await realpath(source);
    const root = await realpath(piece.followWithin);
    if (!real.startsWith(root + sep)) throw new Error(`${source} leads out of ${root}`);
    yield* below(piece, real, path);
    return;
  }
  const to = [piece.to, path].filter(Boolean).join("/");
  if (found.isFile() || found.isDirectory() || found.isSymbolicLink()) yield { source, path: to, stat: found };
  if (!found.isDirectory()) return;
  const names = (await unlessGone(() => readdir(source))) ?? [];
  for (const name of names.sort()) {
    const inPiece = path === "" ? name : `${path}/${name}`;
    if (piece.isWanted?.(inPiece) ?? true) yield* below(piece, join(source, name), inPiece);
  }
}

async function copyOne({ source, stat }: Found, target: string, { mode, buffer }: { mode: number; buffer: Buffer }): Promise<Entry> {
  if (stat.isSymbolicLink()) {
    const link = await readlink(source);
    await symlink(link, target);
    return { link };
  }
  await copyFile(source, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  await chmod(target, mode);
  await utimes(target, stat.atime, stat.mtime);
  return { ...(await syncedHash(target, buffer)), mode };
}

async function syncedHash(path: string, buffer: Buffer): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash("sha256");
  await using handle = await open(path, "r");
  let bytes = 0;
  for (;;) {
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, bytes);
    if (bytesRead === 0) break;
    hash.update(buffer.subarray(0, bytesRead));
    bytes += bytesRead;
  }
  await handle.sync();
  return { bytes, sha256: hash.digest("hex") };
}

async function unlessGone<T>(look: () => Promise<T>): Promise<T | undefined> {
  try {
    return await look();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
