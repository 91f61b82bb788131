// Opens a file that a pattern matched, and decides by the open file whether it may be read. Invariant: a decision about a path is worthless
// when another user can replace what the path leads to, so every check is made on the descriptor, which is what the collector then reads.
import { type BigIntStats, close, constants, fstat, open } from "node:fs";
import { lstat, readlink, realpath } from "node:fs/promises";
import { promisify } from "node:util";

export const closeFile = promisify(close);
const openFile = promisify(open);
const statOf = promisify(fstat) as unknown as (fd: number, options: { bigint: true }) => Promise<BigIntStats>;

export const statOpenFile = async (fd: number): Promise<BigIntStats> => statOf(fd, { bigint: true });

/** Never waits for a FIFO's writer, never makes a terminal the process's own. */
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY;
const FOLDER_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_DIRECTORY;
const OTHERS_WRITE = 0o022n;

/** Why a file is not read. `gone`: it is not there any more, or was replaced meanwhile. */
export type Refusal = "gone" | "unreadable" | "outside" | "special" | "hard_link";

export interface LogFileRules {
  readonly mayRead: (realPath: string) => boolean;
  /** Of the target of a link to a folder. */
  readonly mayEnter: (realFolder: string) => boolean;
}

export interface OpenLogFile {
  readonly fd: number;
  readonly stats: BigIntStats;
}

/** `mayRead` validates a path without links. The last name of `path` must not be a link. */
export async function openLogFile(path: string, mayRead: (realPath: string) => boolean): Promise<OpenLogFile | Refusal> {
  let fd: number;
  try {
    // Opening a device, or closing a file that this process has locked, has effects: what leads outside already is not opened at all.
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
  return stats.nlink > 1n && !(await isOwnersFolder(path, stats)) ? "hard_link" : undefined;
}

/**
 * A file with several names may be another user's secret that was linked here, where the kernel allows that (fs.protected_hardlinks=0). It is
 * read if only its owner or root can have made this name: its folder belongs to one of them, and no other user may write to it.
 */
async function isOwnersFolder(path: string, { dev, ino, uid }: BigIntStats): Promise<boolean> {
  const slash = path.lastIndexOf("/");
  const folder = await openFile(path.slice(0, slash) || "/", FOLDER_FLAGS);
  try {
    const { uid: owner, mode } = await statOpenFile(folder);
    if ((owner !== 0n && owner !== uid) || (mode & OTHERS_WRITE) !== 0n) return false;
    // The folder that was looked at is the one that holds the file, even if folders are renamed meanwhile.
    const named = await lstat(`/proc/self/fd/${folder}/${path.slice(slash + 1)}`, { bigint: true });
    return named.dev === dev && named.ino === ino;
  } finally {
    await closeFile(folder);
  }
}

function refusalOf(error: NodeJS.ErrnoException): Refusal {
  const { code } = error;
  // Not about this file: the process has no descriptor left.
  if (code === "EMFILE" || code === "ENFILE") throw error;
  if (code === "EACCES" || code === "EPERM") return "unreadable";
  if (code === "ENXIO" || code === "ENODEV") return "special";
  return "gone";
}
