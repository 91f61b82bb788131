// Copies files, folders and symbolic links into or out of a backup, and returns the size and SHA-256 of each file. A backup consists of
// pieces: files or folders of DATA_DIR, each with its path in the copy. Invariants: when `copyPieces` returns, all files and folder entries
// are synced to disk; hashes are computed from the copies, not from the originals (the kernel may serve these reads from its page cache);
// memory grows only with the number of names.
import { createHash } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { chmod, copyFile, lstat, mkdir, open, readdir, readlink, realpath, rm, statfs, symlink, utimes } from "node:fs/promises";
import { dirname, join, sep } from "node:path";
import { folderSynced } from "../../../common/files.ts";

const BUFFER_BYTES = 1024 * 1024;

export type Entry = { folder: true; mode: number } | { link: string } | { bytes: number; sha256: string; mode: number };

/** Maps each path in the copy to its folder, link or file. */
export type Entries = Record<string, Entry>;

export interface Piece {
  readonly from: string;
  /** Path in the copy; empty for the root of the copy. */
  readonly to: string;
  /** Filters the contents of a folder by path, relative to the piece. Rejecting a folder skips all of its contents. */
  readonly isWanted?: (path: string) => boolean;
  /** If set, symbolic links are followed, and must resolve to a path in this folder. Otherwise, the links themselves are copied. */
  readonly followWithin?: string;
  /** `from` may be missing. */
  readonly isOptional?: boolean;
  /** Mode of the copied files. Default: the mode of each original. */
  readonly mode?: number;
}

export interface Size {
  readonly files: number;
  readonly bytes: number;
}

interface WalkedFile {
  readonly source: string;
  /** The path in the copy. */
  readonly path: string;
  readonly stat: Stats;
}

/** Returns the number and total size of the files that `copyPieces` would copy. */
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

/** Creates `target` and copies into it. Skips files that are deleted during the copy. */
export async function copyPieces(pieces: readonly Piece[], target: string, signal?: AbortSignal): Promise<Entries> {
  const entries: Entries = {};
  const folders = new Map<string, number>();
  // All files share one buffer: a stream for each file would need more memory than the rest of this process.
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
      const entry = await unlessDeleted(() => copyFileOrLink(found, to, { mode: piece.mode ?? stat.mode & 0o777, buffer }));
      if (entry) entries[path] = entry;
    }
  // Modes are set last, innermost folders first, because a read-only folder could not be filled.
  for (const [path, mode] of [...folders].toReversed()) {
    await folderSynced(join(target, path));
    await chmod(join(target, path), mode);
  }
  await folderSynced(target);
  return entries;
}

/** Whether the file system of `folder` shares blocks with the pieces (reflinks) instead of copying them. */
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

/** Returns how many bytes this user can still write to the file system of `folder`. */
export async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

async function* walk(piece: Piece): AsyncGenerator<WalkedFile> {
  if (!piece.isOptional) await lstat(piece.from);
  yield* walkBelow(piece, piece.from, "");
}

/** `path`: relative to the piece. */
async function* walkBelow(piece: Piece, source: string, path: string): AsyncGenerator<WalkedFile> {
  const found = await unlessDeleted(() => lstat(source));
  if (!found) return;
  if (found.isSymbolicLink() && piece.followWithin !== undefined) {
    const real = await realpath(source);
    const root = await realpath(piece.followWithin);
    if (!real.startsWith(root + sep)) throw new Error(`${source} leads out of ${root}`);
    yield* walkBelow(piece, real, path);
    return;
  }
  const to = [piece.to, path].filter(Boolean).join("/");
  if (found.isFile() || found.isDirectory() || found.isSymbolicLink()) yield { source, path: to, stat: found };
  if (!found.isDirectory()) return;
  const names = (await unlessDeleted(() => readdir(source))) ?? [];
  for (const name of names.sort()) {
    const inPiece = path === "" ? name : `${path}/${name}`;
    if (piece.isWanted?.(inPiece) ?? true) yield* walkBelow(piece, join(source, name), inPiece);
  }
}

async function copyFileOrLink(
  { source, stat }: WalkedFile,
  target: string,
  { mode, buffer }: { mode: number; buffer: Buffer },
): Promise<Entry> {
  if (stat.isSymbolicLink()) {
    const link = await readlink(source);
    await symlink(link, target);
    return { link };
  }
  await copyFile(source, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  await chmod(target, mode);
  await utimes(target, stat.atime, stat.mtime);
  return { ...(await syncAndHash(target, buffer)), mode };
}

/** Reads the copy back to compute its hash, then syncs it to disk. */
async function syncAndHash(path: string, buffer: Buffer): Promise<{ bytes: number; sha256: string }> {
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

/** Returns undefined if the file does not exist or was deleted. */
async function unlessDeleted<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
