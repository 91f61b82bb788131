// Opens log files. For each file descriptor, keeps a link in a folder that only the collector reads. Invariants: the collector reads
// through the descriptor, so it reads exactly the file that was validated; the name of a link identifies its file, and a renamed file gets
// its new link before the old one is removed; the number of files is limited, and one user's files cannot displace those of other users.
import { mkdir, readdir, rm, rmdir, symlink, unlink, lstat, readlink, realpath } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileId, linkName } from "./link-name.ts";
import { type BigIntStats, close, constants, fstat, open, read } from "node:fs";
import { promisify } from "node:util";

export interface OpenFile {
  readonly id: string;
  readonly fd: number;
  readonly uid: bigint;
  /** Modification time when the file was opened. */
  readonly mtimeMs: number;
  path: string;
  /** Name of the link; undefined until the link is created. */
  link: string | undefined;
  /** Whether it has no link because of the length of its path. */
  isPathTooLong?: boolean;
  /** The file's state after its last path disappeared; undefined while a path exists. */
  gone: Gone | undefined;
}

interface Gone {
  readonly size: bigint;
  readonly changedAtMs: number;
}

export class OpenFiles {
  readonly #folder: string;
  readonly #limit: number;
  readonly #files = new Map<string, OpenFile>();
  readonly #countOf = new Map<bigint, number>();
  readonly #removed: number[] = [];

  constructor(folder: string, limit: number) {
    this.#folder = folder;
    this.#limit = limit;
  }

  /** Removes links that a killed agent left behind. No collector may be running. */
  async prepare(): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    for (const name of await readdir(this.#folder)) await rm(join(this.#folder, name), { recursive: true, force: true });
  }

  get size(): number {
    return this.#files.size;
  }

  get(id: string): OpenFile | undefined {
    return this.#files.get(id);
  }

  all(): IterableIterator<OpenFile> {
    return this.#files.values();
  }

  get byId(): ReadonlyMap<string, OpenFile> {
    return this.#files;
  }

  /**
   * If the limit is reached, closes the oldest file of the user with the most open files, provided that user has at least two more than
   * `uid`. Returns whether another file of `uid` may be opened.
   */
  async makeRoom(uid: bigint): Promise<boolean> {
    if (this.#files.size < this.#limit) return true;
    const [largestUid, largestCount] = [...this.#countOf].reduce((a, b) => (b[1] > a[1] ? b : a));
    if (largestUid === uid || largestCount <= (this.#countOf.get(uid) ?? 0) + 1) return false;
    let oldest: OpenFile | undefined;
    for (const file of this.#files.values()) {
      if (file.uid === largestUid && (!oldest || file.mtimeMs < oldest.mtimeMs)) oldest = file;
    }
    if (oldest) await this.remove(oldest);
    return true;
  }

  /** Takes ownership of the descriptor; closes it if the file is already open. */
  async add({ fd, stats }: OpenLogFile, path: string): Promise<OpenFile> {
    const id = fileId(stats);
    const existing = this.#files.get(id);
    if (existing) {
      await closeFile(fd);
      return existing;
    }
    const { uid, mtimeMs } = stats;
    const file: OpenFile = { id, fd, uid, mtimeMs: Number(mtimeMs), path, link: undefined, gone: undefined };
    this.#files.set(id, file);
    this.#countOf.set(uid, (this.#countOf.get(uid) ?? 0) + 1);
    return file;
  }

  /** Creates the link for the file's current path. Throws system errors; call it again after one. */
  async link(file: OpenFile): Promise<void> {
    const name = linkName(file.id, file.path);
    const { link: before } = file;
    if (before === name) return;
    const path = join(this.#folder, name);
    if (name.includes("/")) await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await symlink(`/proc/${process.pid}/fd/${file.fd}`, path);
    file.link = name;
    if (before !== undefined) await this.#unlink(before);
  }

  /**
   * Removes the link. The descriptor stays open until `closeRemoved`: a collector that has just resolved the link still reads this file,
   * and not another file that reuses the descriptor's number.
   */
  async remove(file: OpenFile): Promise<void> {
    if (file.link !== undefined) await this.#unlink(file.link);
    if (!this.#files.delete(file.id)) return;
    const count = (this.#countOf.get(file.uid) ?? 1) - 1;
    if (count > 0) this.#countOf.set(file.uid, count);
    else this.#countOf.delete(file.uid);
    this.#removed.push(file.fd);
  }

  /** Closes the descriptors of removed files. Call at the beginning of a pass. */
  async closeRemoved(): Promise<void> {
    for (const fd of this.#removed.splice(0)) await closeFile(fd);
  }

  async removeAll(): Promise<void> {
    for (const file of this.#files.values()) await this.remove(file);
  }

  async #unlink(name: string): Promise<void> {
    await unlink(join(this.#folder, name)).catch(ignoreMissing);
    for (let folder = dirname(name); folder !== "."; folder = dirname(folder)) {
      // This fails only if the folder contains another link.
      await rmdir(join(this.#folder, folder)).catch(() => {});
    }
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== "ENOENT") throw error;
}

export const closeFile = promisify(close);
const openFile = promisify(open);
const readFile = promisify(read);
const statOf = promisify<number, { bigint: true }, BigIntStats>(fstat);

export const statOpenFile = async (fd: number): Promise<BigIntStats> => statOf(fd, { bigint: true });

/** Opening a FIFO must not wait for its writer, and opening a terminal must not make it the controlling terminal. */
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY;
const FOLDER_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_DIRECTORY;
const OTHERS_WRITE = 0o022n;

/** Reason for which a file is not read. `gone`: the file no longer exists, or was replaced while it was being opened. */
export type Refusal = "gone" | "unreadable" | "outside" | "special" | "hard_link" | "encoding";

export interface LogFileRules {
  readonly mayRead: (realPath: string) => boolean;
  /** Called with the target of a link to a folder. */
  readonly mayEnter: (realFolder: string) => boolean;
}

export interface OpenLogFile {
  readonly fd: number;
  readonly stats: BigIntStats;
}

/** `mayRead` gets a path without links. The last component of `path` must not be a link. */
export async function openLogFile(path: string, mayRead: (realPath: string) => boolean): Promise<OpenLogFile | Refusal> {
  let fd: number;
  try {
    // Opening a device, or closing a file that this process has locked, has side effects, so a path that leads outside the permitted
    // folders is not opened at all.
    if (!mayRead(await realpath(path))) return "outside";
    fd = await openFile(path, FLAGS);
  } catch (error) {
    return refusalOf(error as NodeJS.ErrnoException);
  }
  let refusal: Refusal | undefined = "gone";
  try {
    const stats = await statOpenFile(fd);
    refusal = await whyRefused(fd, stats, mayRead);
    if (refusal === undefined) return { fd, stats };
    return refusal;
  } catch {
    return "gone";
  } finally {
    if (refusal !== undefined) await closeFile(fd);
  }
}

async function whyRefused(fd: number, stats: BigIntStats, mayRead: (realPath: string) => boolean): Promise<Refusal | undefined> {
  if (!stats.isFile()) return "special";
  if (stats.nlink === 0n) return "gone";
  const path = await readlink(`/proc/self/fd/${fd}`);
  if (!mayRead(path)) return "outside";
  if (stats.nlink > 1n && !(await isOwnersFolder(path, stats))) return "hard_link";
  return isText(await readBeginning(fd, MAGIC_BYTES)) ? undefined : "encoding";
}

/** Returns the first bytes of a file, at most `length`. */
export async function readBeginning(fd: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await readFile(fd, Buffer.alloc(length), 0, length, 0);
  return buffer.subarray(0, bytesRead);
}

/** Beginnings of files in UTF-16 and UTF-32, and of files that a rotation compressed with gzip, xz, zstd or bzip2. */
const NO_TEXT = ["fffe", "feff", "0000feff", "1f8b08", "fd377a585a00", "28b52ffd", "425a6839314159265359"];
const MAGIC_BYTES = 10;

/** The collector reads files as UTF-8. */
export function isText(beginning: Buffer): boolean {
  return !NO_TEXT.some((magic) => beginning.toString("hex", 0, MAGIC_BYTES).startsWith(magic));
}

/**
 * A file with several names may be another user's secret that was hard-linked here, if the kernel allows that (fs.protected_hardlinks=0).
 * Such a file is read only if no one except its owner or root can have created this name: the folder belongs to one of them, and no other
 * user can write to it.
 */
async function isOwnersFolder(path: string, { dev, ino, uid }: BigIntStats): Promise<boolean> {
  const slash = path.lastIndexOf("/");
  const folder = await openFile(path.slice(0, slash) || "/", FOLDER_FLAGS);
  try {
    const { uid: owner, mode } = await statOpenFile(folder);
    if ((owner !== 0n && owner !== uid) || (mode & OTHERS_WRITE) !== 0n) return false;
    // Confirms that this folder contains the file, even if folders are being renamed.
    const named = await lstat(`/proc/self/fd/${folder}/${path.slice(slash + 1)}`, { bigint: true });
    return named.dev === dev && named.ino === ino;
  } finally {
    await closeFile(folder);
  }
}

/** Throws the error if it is not a problem of the path. */
export function refusalOf(error: NodeJS.ErrnoException): Refusal {
  const { code = "" } = error;
  // The process has no more file descriptors.
  if (code === "EMFILE" || code === "ENFILE") throw error;
  if (code === "ENXIO" || code === "ENODEV") return "special";
  // Other errors, such as EIO and ESTALE, are of the disk or the network.
  return ["ENOENT", "ENOTDIR", "ELOOP"].includes(code) ? "gone" : "unreadable";
}
