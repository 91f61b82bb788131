// Opens a host's log files for the collector. Once a second, it scans LOG_PATHS, validates and opens new files, and maintains a folder with
// one link per descriptor; the collector reads only this folder. Invariants: a file is read only if it was validated while open; a deleted or
// renamed file stays open until the collector's offset is at its end (at most MAX_GONE_FILES of them); a file that was created and rotated
// between two passes is found by its new name; an unreadable file does not affect others; new, renamed and removed files never restart the
// collector.
import { readFileSync } from "node:fs";
import { lstat, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import type logEvents from "../../../common/log-events.json";
import { Loop } from "../../../common/loop.ts";
import type { Log } from "../../log.ts";
import { MAX_GONE_FILES, MAX_OPEN_FILES } from "../../agent-limits.ts";
import { FileBeginnings } from "./file-beginnings.ts";
import { fileId, idOfLink } from "./link-name.ts";
import type { FoundFilesStatus, WatchedFile } from "./log-files-status.ts";
import { LogTree } from "./log-tree.ts";
import { type OpenFile, OpenFiles, type LogFileRules, openLogFile, type Refusal, refusalOf, statOpenFile } from "./open-files.ts";
import { PathPatterns, unrotated } from "./log-paths.ts";

const PASS_EVERY_MS = 1000;
/** How often folders with recent rotations are checked between two passes. */
const CHECKS_PER_PASS = 10;
/** A pass takes at most this share of the time: a tree of a million files is scanned less often. */
const PASS_SHARE = 0.1;
/** What a pass needs at most for a folder or file. If it takes longer, the machine is busy, and files may be rotated meanwhile. */
const MAX_ENTRY_MS = 0.1;
/** A file may be a little older than the pass that did not see it. */
const BORN_SLACK_MS = 2000;
/** A refused file is examined again after this time, because permissions and ages change without a change of the folder. */
const RETRY_REFUSED_MS = 10_000;
/** How long a deleted file is kept after its last change. Programs write to a rotated file until they open the next one. */
const GONE_FOR_MS = 10_000;
const WARN_AGAIN_MS = 600_000;

type Problem = Exclude<Refusal, "gone"> | "limit" | "alike" | "name" | "link";
/** `old` and `gone` are not problems; the collector excludes old files too. */
interface Refused {
  readonly why: Problem | "old" | "gone";
  readonly retryAtMs: number;
}
const GONE: Refused = { why: "gone", retryAtMs: 0 };

function refuse(why: Refused["why"], nowMs: number): Refused {
  return why === "gone" ? GONE : { why, retryAtMs: nowMs + RETRY_REFUSED_MS };
}

export interface LogFilesOptions {
  /** Folder for the links; it must contain nothing else. */
  readonly folder: string;
  /** File to which the collector writes offsets at the end of each pass. */
  readonly offsetsFile: string;
  /** Offsets by path of the link; undefined if they cannot be read now. */
  readonly readOffsets: (offsetsFile: string) => Promise<ReadonlyMap<string, readonly number[]> | undefined>;
  /** Validates paths without links. Called once per pass, so that rules can be resolved again. */
  readonly rules: () => LogFileRules;
  readonly maxAgeMs: number;
  readonly log: Log;
  readonly passEveryMs?: number;
  readonly maxOpen?: number;
  readonly nowMs?: () => number;
}

export class LogFiles implements AsyncDisposable {
  readonly #options: LogFilesOptions;
  readonly #nowMs: () => number;
  readonly #files: OpenFiles;
  readonly #stop = new AbortController();
  #tree: LogTree;
  #paths: readonly string[] = [];
  #rules: LogFileRules;
  /** Result of the last pass: path → id of its open file. */
  #found = new Map<string, string>();
  #refused = new Map<string, Refused>();
  readonly #beginnings = new FileBeginnings();
  readonly #warnedAtMs = new Map<string, number>();
  /** A rotated file is unknown if it was created after this time. */
  #bornSinceMs = Number.POSITIVE_INFINITY;
  /** Offsets at which an earlier agent's collector stopped, by id of the file. */
  #earlier = new Map<string, number>();
  /** When the next pass is due even if nothing seems to have changed; of the clock of `performance`. */
  #dueAt = 0;
  #offsetsReadMs = 0;
  #isPrepared = false;
  #lastPassMs: number;
  #loop: Loop | undefined;
  #lastPass: Promise<unknown> = Promise.resolve();

  constructor(options: LogFilesOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    this.#files = new OpenFiles(options.folder, options.maxOpen ?? descriptorLimit());
    this.#rules = options.rules();
    this.#tree = this.#treeOf([]);
    this.#lastPassMs = this.#nowMs();
  }

  /** Runs the first pass. No collector may run yet: it would treat the files of the previous agent as removed. */
  async start(paths: readonly string[]): Promise<void> {
    this.#paths = paths;
    this.#tree = this.#treeOf(paths);
    // If the disk is full, everything but new files still works.
    await this.#pass().catch((error: Error) => this.#warnOfFailedPass(error));
    this.#loop = new Loop({
      signal: this.#stop.signal,
      firstAfterMs: (this.#options.passEveryMs ?? PASS_EVERY_MS) / CHECKS_PER_PASS,
      step: () => this.#passIfDue(),
      failed: (error) => this.#warnOfFailedPass(error as Error),
    });
  }

  /** Returns the wait until the next step. Without recent rotations, each step is a pass. */
  async #passIfDue(): Promise<number> {
    const { passEveryMs = PASS_EVERY_MS } = this.#options;
    const startedAt = performance.now();
    if (startedAt < this.#dueAt && !(await this.#tree.hasChanged()))
      return Math.min(this.#dueAt - startedAt, passEveryMs / CHECKS_PER_PASS);
    await this.#pass();
    const neededMs = Math.min(performance.now() - startedAt, this.#tree.size * MAX_ENTRY_MS);
    const pauseMs = neededMs / PASS_SHARE - neededMs;
    this.#dueAt = startedAt + Math.max(passEveryMs, pauseMs);
    return this.#tree.hasActiveFolders ? Math.max(passEveryMs / CHECKS_PER_PASS, pauseMs) : this.#dueAt - performance.now();
  }

  #warnOfFailedPass({ message }: Error): void {
    if (!this.#stop.signal.aborted) this.#warn("pass", { err: message }, "cannot scan LOG_PATHS, retrying");
  }

  /** Replaces the patterns; resolves once their files are open. */
  async follow(paths: readonly string[]): Promise<void> {
    if (paths.join() === this.#paths.join()) return;
    this.#paths = paths;
    this.#tree = this.#treeOf(paths);
    this.#found.clear();
    await this.#pass();
  }

  status(): FoundFilesStatus {
    const notRead: Record<string, number> = {};
    for (const [why, { length }] of this.#notRead()) notRead[why] = length;
    const isFollowing = this.#paths.length > 0;
    return { open: this.#files.size, notRead, isFollowing, lastPassMs: this.#lastPassMs };
  }

  /** The files that the collector should read, except those that `notRead` already counts. */
  async *watched(): AsyncGenerator<WatchedFile> {
    const alike = new Set(this.#beginnings.alike(this.#nowMs()));
    for (const { id, fd, path, link } of this.#files.all()) {
      if (link === undefined || alike.has(id)) continue;
      const stats = await statOpenFile(fd).catch(() => undefined);
      // Meanwhile, the descriptor may have been closed, and used for another file.
      if (!stats || fileId(stats) !== id) continue;
      yield { id, path, storedPath: join(this.#options.folder, link), size: Number(stats.size), changedMs: Number(stats.mtimeMs) };
    }
  }

  /** Dispose it after the collector. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#loop?.done;
    await this.#lastPass;
    await this.#files.removeAll();
    await this.#files.closeRemoved();
  }

  #treeOf(paths: readonly string[]): LogTree {
    return new LogTree(new PathPatterns(paths), (folder) => this.#rules.mayEnter(folder));
  }

  #pass(): Promise<void> {
    const pass = this.#lastPass.then(() => this.#passOnce());
    this.#lastPass = pass.catch(() => {});
    return pass;
  }

  async #passOnce(): Promise<void> {
    if (!this.#isPrepared) await this.#prepare();
    this.#isPrepared = true;
    await this.#files.closeRemoved();
    this.#rules = this.#options.rules();
    const nowMs = this.#nowMs();
    if (nowMs < this.#lastPassMs) this.#forgetTimes();
    const startedMs = Date.now();
    const [found, refused] = [new Map<string, string>(), new Map<string, Refused>()];
    /** The first path of each file; a path without links is preferred. */
    const pathOf = new Map<string, string>();
    const addResult = (path: string, result: string | Refused): void => {
      if (typeof result !== "string") return void refused.set(path, result);
      found.set(path, result);
      if (!pathOf.has(result)) pathOf.set(result, path);
    };
    const rotated: (readonly string[])[] = [];
    for await (const { files, links, rotated: names, isNews, refused: folders = [] } of this.#tree.pass(this.#stop.signal)) {
      if (isNews) rotated.push(names);
      for (const path of files)
        addResult(path, (isNews ? undefined : this.#previousResult(path, nowMs)) ?? (await this.#examine(path, path, nowMs)));
      for (const path of links) addResult(path, await this.#examineLink(path, isNews, nowMs));
      for (const [path, why] of folders) addResult(path, { why, retryAtMs: 0 });
    }
    for (const path of rotated.flat()) await this.#openUnseen(path, found, nowMs);
    this.#found = found;
    this.#refused = refused;
    this.#bornSinceMs = startedMs - BORN_SLACK_MS;
    this.#earlier.clear();
    const isRead = this.#readTest(nowMs);
    for (const file of this.#files.all()) {
      const path = pathOf.get(file.id);
      if (path !== file.path || file.link === undefined || file.gone) await this.#update(file, path, isRead);
    }
    await this.#limitGoneFiles();
    // The next pass refuses them.
    for (const file of await this.#beginnings.check(this.#files.byId, nowMs)) await this.#files.remove(file);
    this.#lastPassMs = this.#nowMs();
    this.#report();
  }

  /** The clock was set back: what waits for a time of before would wait for as long as that. */
  #forgetTimes(): void {
    this.#refused.clear();
    this.#warnedAtMs.clear();
    this.#offsetsReadMs = 0;
    for (const file of this.#files.all()) file.gone = undefined;
    this.#beginnings.checkNow();
  }

  /** Returns the previous result for a path in an unchanged folder; undefined if it must be examined again. */
  #previousResult(path: string, nowMs: number): string | Refused | undefined {
    const [id, refused] = [this.#found.get(path), this.#refused.get(path)];
    if (id !== undefined && this.#files.get(id)) return id;
    return refused && nowMs < refused.retryAtMs ? refused : undefined;
  }

  /** A link's target may have been replaced although the link did not change. */
  async #examineLink(path: string, isNews: boolean, nowMs: number): Promise<string | Refused> {
    const refused = this.#refused.get(path);
    if (!isNews && refused && nowMs < refused.retryAtMs) return refused;
    const target = await realpath(path).catch((error: NodeJS.ErrnoException) => refuse(refusalOf(error), nowMs));
    if (typeof target !== "string") return target;
    if (!this.#rules.mayRead(target) && !(await isFolder(target))) return refuse("outside", nowMs);
    return this.#examine(path, target, nowMs);
  }

  /** `target`: the path without links. Returns the id of the open file, or why it is not read. */
  async #examine(path: string, target: string, nowMs: number): Promise<string | Refused> {
    const stats = await lstat(target, { bigint: true }).catch(refusalOf);
    if (typeof stats === "string") return refuse(target.includes(NOT_UTF8) ? "name" : stats, nowMs);
    const known = this.#files.get(fileId(stats));
    if (known) return known.id;
    // A link whose name matches may point to a folder, which the walk enters.
    if (!stats.isFile()) return stats.isDirectory() && target !== path ? GONE : refuse("special", nowMs);
    if (Number(stats.mtimeMs) < nowMs - this.#options.maxAgeMs) return refuse("old", nowMs);
    if (!(await this.#files.makeRoom(stats.uid))) return refuse("limit", nowMs);
    const opened = await openLogFile(target, this.#rules.mayRead);
    if (typeof opened === "string") return refuse(opened, nowMs);
    return (await this.#files.add(opened, path)).id;
  }

  /** Before the first pass: finds out what an earlier agent and its collector have seen. */
  async #prepare(): Promise<void> {
    await this.#files.prepare();
    const { folder, offsetsFile, readOffsets } = this.#options;
    const stats = await stat(offsetsFile).catch(() => undefined);
    this.#bornSinceMs = (stats?.mtimeMs ?? Date.now()) - BORN_SLACK_MS;
    for (const [path, offsets] of (await readOffsets(offsetsFile)) ?? []) {
      const id = path.startsWith(`${folder}/`) ? idOfLink(path.slice(folder.length + 1)) : undefined;
      if (id !== undefined) this.#earlier.set(id, Math.max(...offsets, this.#earlier.get(id) ?? 0));
    }
  }

  /**
   * Opens a file that was rotated before a pass saw it by its first name, or that was not read to its end before this agent started. It stays
   * open like a file that was renamed.
   */
  async #openUnseen(path: string, found: ReadonlyMap<string, string>, nowMs: number): Promise<void> {
    const stats = await lstat(path, { bigint: true }).catch(() => undefined);
    if (!stats?.isFile() || this.#files.get(fileId(stats)) || Number(stats.mtimeMs) < nowMs - this.#options.maxAgeMs) return;
    const [name = path, earlier] = [unrotated(path), this.#earlier.get(fileId(stats))];
    // A program that writes to a file with a date in its name has no file without it.
    const isUnknown = Number(stats.birthtimeMs) >= this.#bornSinceMs && (found.has(name) || this.#found.has(name));
    // A file that was created since may have the device and inode of a removed one.
    if (!isUnknown && (earlier === undefined || earlier >= Number(stats.size))) return;
    if (!(await this.#files.makeRoom(stats.uid))) return;
    const opened = await openLogFile(path, this.#rules.mayRead);
    if (typeof opened !== "string") await this.#files.add(opened, name);
  }

  /** `path`: undefined if no path leads to the file any more. */
  async #update(file: OpenFile, path: string | undefined, isRead: (file: OpenFile) => Promise<boolean>): Promise<void> {
    try {
      if (path !== undefined) {
        file.gone = undefined;
        file.path = path;
      }
      await this.#files.link(file);
      if (path === undefined && (await isRead(file))) await this.#files.remove(file);
    } catch (error) {
      const { message, code } = error as NodeJS.ErrnoException;
      file.isPathTooLong = code === "ENAMETOOLONG";
      this.#warn("link", { file: file.path, err: message }, "cannot hand a log file to the collector; retrying");
    }
  }

  /** Whether the collector has read a file without a path, and will not read it any further. Reads the offsets once, if at all. */
  #readTest(nowMs: number): (file: OpenFile) => Promise<boolean> {
    const { folder, offsetsFile, readOffsets, maxAgeMs } = this.#options;
    const alike = new Set(this.#beginnings.alike(nowMs));
    let offsets: ReturnType<typeof readOffsets> | undefined;
    return async (file) => {
      const { size, mtimeMs } = await statOpenFile(file.fd);
      if (file.gone?.size !== size) file.gone = { size, changedAtMs: nowMs };
      const changedMs = Math.min(Number(mtimeMs), nowMs);
      if (nowMs - Math.max(file.gone.changedAtMs, changedMs) < GONE_FOR_MS) return false;
      if (size === 0n || alike.has(file.id) || nowMs - changedMs > maxAgeMs) return true;
      // During an outage, files wait for long, and the offsets of many files are many bytes.
      if (!offsets && nowMs - this.#offsetsReadMs < GONE_FOR_MS) return false;
      this.#offsetsReadMs = nowMs;
      offsets ??= readOffsets(offsetsFile);
      return (await offsets)?.get(join(folder, file.link ?? ""))?.includes(Number(size)) ?? false;
    };
  }

  /** Removed files must not fill this host's disk during a long outage of the backend. */
  async #limitGoneFiles(): Promise<void> {
    const gone = [...this.#files.all()].filter((file) => file.gone !== undefined);
    if (gone.length <= MAX_GONE_FILES) return;
    gone.sort((a, b) => (a.gone?.changedAtMs ?? 0) - (b.gone?.changedAtMs ?? 0));
    const removed = gone.slice(0, gone.length - MAX_GONE_FILES);
    this.#warn(
      "removed",
      { files: removed.length, file: removed[0]?.path },
      "too many deleted log files are open, closing the oldest; unread lines are lost",
    );
    for (const file of removed) await this.#files.remove(file);
  }

  /** Paths of matching files that are not read. */
  #notRead(): Map<Problem, string[]> {
    const paths = new Map<Problem, string[]>();
    const add = (why: Problem, path: string): void => {
      const list = paths.get(why);
      if (list) list.push(path);
      else paths.set(why, [path]);
    };
    for (const [path, { why }] of this.#refused) if (isProblem(why)) add(why, path);
    for (const { link, path, isPathTooLong } of this.#files.all()) if (link === undefined) add(isPathTooLong ? "name" : "link", path);
    for (const id of this.#beginnings.alike(this.#nowMs())) add("alike", this.#files.get(id)?.path ?? id);
    return paths;
  }

  #report(): void {
    for (const [why, files] of this.#notRead()) this.#warn(why, { files: files.slice(0, 10), count: files.length }, PROBLEMS[why]);
    if (this.#tree.isCut)
      this.#warn(
        "cut",
        { paths: this.#paths },
        "LOG_PATHS match more folders or links than the agent scans, ignoring the rest; narrow them",
      );
  }

  /** Logs each kind of warning at most once in ten minutes, because other users of this host can cause it. */
  #warn(what: Problem | "cut" | "pass" | "removed", fields: object, message: string): void {
    const nowMs = this.#nowMs();
    if (nowMs - (this.#warnedAtMs.get(what) ?? Number.NEGATIVE_INFINITY) < WARN_AGAIN_MS) return;
    this.#warnedAtMs.set(what, nowMs);
    const event: keyof typeof logEvents = `log_files.${what}`;
    this.#options.log.warn({ event, ...fields }, message);
  }
}

/** What is wrong, and advice. */
export const PROBLEMS: Readonly<Record<Problem, string>> = {
  outside: "links that lead outside of LOG_PATHS_ALLOWED are not read; add targets that should be read to it",
  unreadable:
    "log files or folders cannot be read, or their file system does not answer; run the agent as root or with CAP_DAC_READ_SEARCH, or narrow LOG_PATHS",
  special: "FIFOs, sockets and devices are not read; narrow LOG_PATHS",
  hard_link: "files with another hard link in a folder that other users can write to are not read; remove the other links",
  limit: "the limit of open log files is reached, others are not read; narrow LOG_PATHS",
  encoding: "compressed log files, and those in UTF-16 or UTF-32, are not read; narrow LOG_PATHS, or write them in UTF-8",
  link: "log files cannot be handed to the collector; free disk space and inodes for STATE_DIR",
  name: "log files with names that are not UTF-8, or with paths that are too long, are not read; rename them",
  alike: "log files begin with the same bytes as another log file, and are not read; remove the other one, or make the beginnings differ",
};
/** Node.js replaces the bytes of a name that are not UTF-8 with this character. */
const NOT_UTF8 = "\uFFFD";

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() ?? false;
}

function isProblem(why: Refused["why"]): why is Problem {
  return why !== "old" && why !== "gone";
}

/** Descriptors for connections, the agent's own files, and what the collector opens in addition to one per file. */
const RESERVED = 2048;

/** Returns how many log files this process and its collector may open. */
function descriptorLimit(): number {
  try {
    const soft = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    return soft === undefined ? MAX_OPEN_FILES : Math.min(MAX_OPEN_FILES, Math.max(Number(soft) - RESERVED, Math.floor(Number(soft) / 2)));
  } catch {
    return MAX_OPEN_FILES;
  }
}
