// A simulated disk with a page cache. What a call has written is in the cache; it is on the disk only after fsync. A power cut keeps a
// random part of what was not synced: writes in any order, torn at any byte, and the oldest changes of names (as a file system with a
// journal does). Invariant: what was synced stays.
import { dirname } from "node:path";
import type { Random } from "../../common/random.fixture.ts";

/** The machine that the disk belongs to. */
export interface DiskHost {
  readonly random: Random;
  readonly nowMs: number;
  readonly wallMs: number;
}

interface Write {
  readonly at: number;
  readonly bytes: Buffer;
}

interface FileNode {
  readonly isFolder: boolean;
  cached: Buffer;
  synced: Buffer;
  /** Not synced yet, oldest first. */
  writes: Write[];
  mtimeMs: number;
}

/** A change of names that is not on disk yet. */
interface Renaming {
  readonly folder: string;
  readonly apply: (names: Map<string, FileNode>) => void;
}

export interface DiskFaults {
  /** Bytes that may still be written; undefined: no limit. */
  freeBytes: number | undefined;
  isReadOnly: boolean;
  /** The next calls of this kind fail with EIO. */
  failing: { write: number; sync: number; read: number };
  /** Multiplies latencies. */
  slowness: number;
}

const WRITE_MS = 0.1;
const SYNC_MS = 3;

export class SystemError extends Error {
  readonly code: string;

  constructor(code: string, call: string, path: string) {
    super(`${code}: simulated, ${call} '${path}'`);
    this.code = code;
  }
}

export class Disk {
  readonly #machine: DiskHost;
  #names = new Map<string, FileNode>();
  #syncedNames = new Map<string, FileNode>();
  #renamings: Renaming[] = [];
  readonly #open = new Map<number, { path: string; node: FileNode }>();
  #lastFd = 100;
  readonly faults: DiskFaults = { freeBytes: undefined, isReadOnly: false, failing: { write: 0, sync: 0, read: 0 }, slowness: 1 };
  /** How often each fault was met by a call. */
  readonly hits: Record<string, number> = {};
  /** When a fault was last met by each path, and when a read last failed, in the time of the host. */
  readonly hitMs = new Map<string, number>();
  lastFailedReadMs = Number.NEGATIVE_INFINITY;

  constructor(machine: DiskHost, root: string) {
    this.#machine = machine;
    for (let folder = root; ; folder = dirname(folder)) {
      const node = { isFolder: true, cached: Buffer.alloc(0), synced: Buffer.alloc(0), writes: [], mtimeMs: 0 };
      this.#names.set(folder, node);
      this.#syncedNames.set(folder, node);
      if (folder === dirname(folder)) break;
    }
  }

  heal(): void {
    Object.assign(this.faults, { freeBytes: undefined, isReadOnly: false, failing: { write: 0, sync: 0, read: 0 }, slowness: 1 });
  }

  /** The process has ended; the page cache stays. */
  closeAll(): void {
    this.#open.clear();
  }

  powerCut(): void {
    const { random } = this.#machine;
    this.#open.clear();
    for (const renaming of this.#renamings.slice(0, random.whole(0, this.#renamings.length))) renaming.apply(this.#syncedNames);
    this.#renamings = [];
    // What is in a folder whose own name was lost is lost.
    for (const path of [...this.#syncedNames.keys()].toSorted())
      if (path !== "/" && !this.#syncedNames.has(dirname(path))) this.#syncedNames.delete(path);
    this.#names = new Map(this.#syncedNames);
    for (const node of new Set(this.#names.values())) {
      let kept = node.synced;
      // The order of writes within the cache is not kept.
      for (const write of node.writes.toSorted(() => random.next() - 0.5)) {
        const length = random.chance(0.3) ? write.bytes.length : random.whole(0, write.bytes.length);
        if (length > 0) kept = withBytes(kept, { at: write.at, bytes: write.bytes.subarray(0, length) });
      }
      [node.cached, node.synced, node.writes] = [kept, kept, []];
    }
  }

  /** Flips a bit of a synced file that matches; returns whether there was one. */
  rot(matches: (path: string) => boolean): string | undefined {
    const { random } = this.#machine;
    const found = [...this.#names].filter(
      ([path, { isFolder, synced, writes }]) => !isFolder && matches(path) && synced.length > 0 && writes.length === 0,
    );
    if (found.length === 0) return undefined;
    const [path, node] = random.pick(found);
    const changed = Buffer.from(node.synced);
    const at = random.whole(0, changed.length - 1);
    changed[at] = (changed[at] as number) ^ (1 << random.whole(0, 7));
    node.cached = node.synced = changed;
    return path;
  }

  files(matches: (path: string) => boolean): { path: string; content: Buffer }[] {
    return [...this.#names]
      .filter(([path, { isFolder }]) => !isFolder && matches(path))
      .map(([path, { cached }]) => ({ path, content: cached }));
  }

  open(path: string, flags: string): number {
    const isNew = flags.includes("w");
    let node = this.#names.get(path);
    if (!node && flags === "a") return this.open(path, "w");
    if (node && flags.includes("x")) throw new SystemError("EEXIST", "open", path);
    if (!node && !isNew) throw new SystemError("ENOENT", "open", path);
    if (isNew) {
      this.#refuseChanges("open", path);
      if (!node) node = this.#create(path, false);
      else this.#write(node, undefined, Buffer.alloc(0));
    }
    this.#lastFd += 1;
    this.#open.set(this.#lastFd, { path, node: node as FileNode });
    return this.#lastFd;
  }

  close(fd: number): void {
    if (!this.#open.delete(fd)) throw new SystemError("EBADF", "close", String(fd));
  }

  /** Returns how many bytes were written. */
  write(fd: number, bytes: Buffer, position: number | undefined): number {
    const { path, node } = this.#opened(fd, "write");
    this.#refuseChanges("write", path);
    this.#failNext("write", path);
    const { freeBytes } = this.faults;
    const length = freeBytes === undefined ? bytes.length : Math.min(bytes.length, freeBytes);
    if (length < bytes.length) {
      this.#hit("disk full", path);
      if (length === 0) throw new SystemError("ENOSPC", "write", path);
    }
    if (freeBytes !== undefined) this.faults.freeBytes = freeBytes - length;
    this.#write(node, position, bytes.subarray(0, length));
    return length;
  }

  sync(fd: number): void {
    const { path, node } = this.#opened(fd, "fsync");
    if (this.faults.failing.sync > 0) {
      this.faults.failing.sync -= 1;
      this.#hit("failed fsync", path);
      // The kernel reports a lost page once: the cache keeps it, the disk never gets it. Or it was written before the failure.
      if (this.#machine.random.chance(0.5)) node.writes = [];
      throw new SystemError("EIO", "fsync", path);
    }
    if (node.isFolder) {
      for (const renaming of this.#renamings) if (renaming.folder === path) renaming.apply(this.#syncedNames);
      this.#renamings = this.#renamings.filter(({ folder }) => folder !== path);
      return;
    }
    for (const write of node.writes.splice(0)) node.synced = withBytes(node.synced, write);
  }

  read(path: string): Buffer {
    this.#failNext("read", path);
    const node = this.#named(path, "open");
    if (node.isFolder) throw new SystemError("EISDIR", "read", path);
    return Buffer.from(node.cached);
  }

  list(path: string): string[] {
    this.#named(path, "scandir");
    const prefix = path === "/" ? path : `${path}/`;
    return [...this.#names.keys()]
      .filter((name) => name !== path && dirname(name) === path)
      .map((name) => name.slice(prefix.length))
      .sort();
  }

  stat(path: string): { size: number; mtimeMs: number; isDirectory: () => boolean } {
    const { isFolder, cached, mtimeMs } = this.#named(path, "stat");
    return { size: cached.length, mtimeMs, isDirectory: () => isFolder };
  }

  has(path: string): boolean {
    return this.#names.has(path);
  }

  makeFolder(path: string): void {
    if (this.#names.has(path)) throw new SystemError("EEXIST", "mkdir", path);
    this.#refuseChanges("mkdir", path);
    this.#create(path, true);
  }

  link(from: string, to: string): void {
    const node = this.#named(from, "link");
    if (this.#names.has(to)) throw new SystemError("EEXIST", "link", to);
    this.#refuseChanges("link", to);
    this.#rename(to, (names) => names.set(to, node));
  }

  rename(from: string, to: string): void {
    const node = this.#named(from, "rename");
    this.#refuseChanges("rename", to);
    this.#rename(to, (names) => {
      names.delete(from);
      names.set(to, node);
    });
  }

  /** Writes a file of another program, which it syncs. Returns whether there is space. */
  touch(path: string): boolean {
    if (this.faults.isReadOnly || this.faults.freeBytes === 0) return false;
    const empty = Buffer.alloc(0);
    const node = this.#names.get(path) ?? { isFolder: false, cached: empty, synced: empty, writes: [], mtimeMs: 0 };
    node.mtimeMs = this.#machine.wallMs;
    for (const names of [this.#names, this.#syncedNames]) names.set(path, node);
    return true;
  }

  remove(path: string, { force = false }: { force?: boolean } = {}): void {
    if (!this.#names.has(path)) {
      if (force) return;
      throw new SystemError("ENOENT", "rm", path);
    }
    this.#refuseChanges("rm", path);
    this.#rename(path, (names) => names.delete(path));
  }

  get writeMs(): number {
    return this.#machine.random.latencyMs(WRITE_MS) * this.faults.slowness;
  }

  get syncMs(): number {
    return this.#machine.random.latencyMs(SYNC_MS) * this.faults.slowness;
  }

  #opened(fd: number, call: string): { path: string; node: FileNode } {
    const opened = this.#open.get(fd);
    if (!opened) throw new SystemError("EBADF", call, String(fd));
    return opened;
  }

  #named(path: string, call: string): FileNode {
    const node = this.#names.get(path);
    if (!node) throw new SystemError("ENOENT", call, path);
    return node;
  }

  #create(path: string, isFolder: boolean): FileNode {
    this.#named(dirname(path), "open");
    const empty = Buffer.alloc(0);
    const node = { isFolder, cached: empty, synced: empty, writes: [], mtimeMs: this.#machine.wallMs };
    this.#rename(path, (names) => names.set(path, node));
    return node;
  }

  #rename(path: string, apply: Renaming["apply"]): void {
    apply(this.#names);
    this.#renamings.push({ folder: dirname(path), apply });
  }

  #write(node: FileNode, position: number | undefined, bytes: Buffer): void {
    const write = { at: position ?? node.cached.length, bytes: Buffer.from(bytes) };
    node.cached = withBytes(node.cached, write);
    node.writes.push(write);
    node.mtimeMs = this.#machine.wallMs;
  }

  #refuseChanges(call: string, path: string): void {
    if (this.faults.isReadOnly) {
      this.#hit("read-only", path);
      throw new SystemError("EROFS", call, path);
    }
    if (call !== "write" && call !== "rm" && this.faults.freeBytes === 0) {
      this.#hit("disk full", path);
      throw new SystemError("ENOSPC", call, path);
    }
  }

  #failNext(call: "write" | "read", path: string): void {
    if (this.faults.failing[call] === 0) return;
    this.faults.failing[call] -= 1;
    this.#hit(`failed ${call}`, path);
    throw new SystemError("EIO", call, path);
  }

  #hit(fault: string, path: string): void {
    this.hits[fault] = (this.hits[fault] ?? 0) + 1;
    this.hitMs.set(path, this.#machine.nowMs);
    if (fault === "failed read") this.lastFailedReadMs = this.#machine.nowMs;
  }
}

function withBytes(content: Buffer, { at, bytes }: Write): Buffer {
  const changed = Buffer.alloc(Math.max(content.length, at + bytes.length));
  content.copy(changed);
  bytes.copy(changed, at);
  return changed;
}
