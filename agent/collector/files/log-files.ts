// Opens a host's log files for the collector. Once a second, it scans LOG_PATHS, validates and opens new files, and maintains a folder with
// one link per descriptor; the collector reads only this folder. Invariants: a file is read only if it was validated while open; a deleted or
// renamed file stays open until the collector has read it to its end (at most MAX_GONE_FILES of them); an unreadable file does not affect
// others; new, renamed and removed files never restart the collector.
import { readFileSync } from "node:fs";
import { lstat, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import type logEvents from "../../../common/log-events.json";
import { Loop } from "../../../common/loop.ts";
import type { Log } from "../../log.ts";
import { MAX_GONE_FILES, MAX_OPEN_FILES } from "../../agent-limits.ts";
import { FileBeginnings } from "./file-beginnings.ts";
import { fileId } from "./link-name.ts";
import { LogTree } from "./log-tree.ts";
import { type OpenFile, OpenFiles, type LogFileRules, openLogFile, type Refusal, statOpenFile } from "./open-files.ts";
import { PathPatterns } from "./log-paths.ts";

const PASS_EVERY_MS = 1000;
/** A pass takes at most this share of the time: a tree of a million files is scanned less often. */
const PASS_SHARE = 0.1;
/** A refused file is examined again after this time, because permissions and ages change without a change of the folder. */
const RETRY_REFUSED_MS = 10_000;
/** How long a deleted file is kept after its last change. Programs write to a rotated file until they open the next one. */
const GONE_FOR_MS = 10_000;
/** Collector passes to wait for after a deleted file's last change; the first may have begun before the change. */
const GONE_PASSES = 3;
const WARN_AGAIN_MS = 600_000;

type Problem = Exclude<Refusal, "gone"> | "limit" | "alike" | "name";
/** `old` and `gone` are not problems; the collector excludes old files too. */
interface Refused {
  readonly why: Problem | "old" | "gone";
  readonly retryAtMs: number;
}
const GONE: Refused = { why: "gone", retryAtMs: 0 };

export interface LogFilesOptions {
  /** Folder for the links; it must contain nothing else. */
  readonly folder: string;
  /** File to which the collector writes offsets at the end of each pass. */
  readonly offsetsFile: string;
  /** Validates paths without links. Called once per pass, so that rules can be resolved again. */
  readonly rules: () => LogFileRules;
  readonly maxAgeMs: number;
  readonly log: Log;
  readonly passEveryMs?: number;
  readonly maxOpen?: number;
  readonly nowMs?: () => number;
}

/** A file that the collector should read. */
export interface WatchedFile {
  /** Path that people know. */
  readonly path: string;
  /** Path by which the collector stores its offset. */
  readonly storedPath: string;
  readonly id: string;
  readonly size: number;
  readonly changedMs: number;
}

export interface LogFilesStatus {
  readonly open: number;
  /** Matching files that are not read, by reason. */
  readonly notRead: Readonly<Record<string, number>>;
  /** False while no logs are collected. */
  readonly isFollowing: boolean;
  /** Agent's clock, Unix milliseconds. */
  readonly lastPassMs: number;
  /** When the collector's last pass was observed; 0 before the first. */
  readonly lastCollectorPassMs: number;
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
  /** Finished passes of the collector that were observed. */
  #collectorPasses = 0;
  #collectorPassMs = 0;
  #offsetsMs = 0;
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
      firstAfterMs: this.#options.passEveryMs ?? PASS_EVERY_MS,
      step: async () => {
        const startedAt = performance.now();
        await this.#pass();
        return Math.max(this.#options.passEveryMs ?? PASS_EVERY_MS, (performance.now() - startedAt) / PASS_SHARE);
      },
      failed: (error) => this.#warnOfFailedPass(error as Error),
    });
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

  status(): LogFilesStatus {
    const notRead: Record<string, number> = {};
    for (const [why, { length }] of this.#notRead()) notRead[why] = length;
    const isFollowing = this.#paths.length > 0;
    return { open: this.#files.size, notRead, isFollowing, lastPassMs: this.#lastPassMs, lastCollectorPassMs: this.#collectorPassMs };
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
    if (!this.#isPrepared) await this.#files.prepare();
    this.#isPrepared = true;
    await this.#files.closeRemoved();
    await this.#countCollectorPasses();
    this.#rules = this.#options.rules();
    const nowMs = this.#nowMs();
    const [found, refused] = [new Map<string, string>(), new Map<string, Refused>()];
    /** The first path of each file; a path without links is preferred. */
    const pathOf = new Map<string, string>();
    const addResult = (path: string, result: string | Refused): void => {
      if (typeof result !== "string") return void refused.set(path, result);
      found.set(path, result);
      if (!pathOf.has(result)) pathOf.set(result, path);
    };
    for await (const { files, links, isNews } of this.#tree.pass(this.#stop.signal)) {
      for (const path of files)
        addResult(path, (isNews ? undefined : this.#previousResult(path, nowMs)) ?? (await this.#examine(path, path, nowMs)));
      for (const path of links) addResult(path, await this.#examineLink(path, isNews, nowMs));
    }
    this.#found = found;
    this.#refused = refused;
    for (const file of this.#files.all()) {
      const path = pathOf.get(file.id);
      if (path !== file.path || file.link === undefined || file.gone) await this.#update(file, path, nowMs);
    }
    await this.#limitGoneFiles();
    // The next pass refuses them.
    for (const file of await this.#beginnings.check(this.#files.byId, nowMs)) await this.#files.remove(file);
    this.#lastPassMs = this.#nowMs();
    this.#report();
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
    const target = await realpath(path).catch(() => undefined);
    if (target === undefined) return GONE;
    if (!this.#rules.mayRead(target) && !(await isFolder(target))) return { why: "outside", retryAtMs: nowMs + RETRY_REFUSED_MS };
    return this.#examine(path, target, nowMs);
  }

  /** `target`: the path without links. Returns the id of the open file, or why it is not read. */
  async #examine(path: string, target: string, nowMs: number): Promise<string | Refused> {
    const refuse = (why: Refused["why"]): Refused => (why === "gone" ? GONE : { why, retryAtMs: nowMs + RETRY_REFUSED_MS });
    const stats = await lstat(target, { bigint: true }).catch(() => undefined);
    if (!stats) return target.includes(NOT_UTF8) ? refuse("name") : GONE;
    const known = this.#files.get(fileId(stats));
    if (known) return known.id;
    // A link whose name matches may point to a folder, which the walk enters.
    if (!stats.isFile()) return target === path ? refuse("special") : GONE;
    if (Number(stats.mtimeMs) < nowMs - this.#options.maxAgeMs) return refuse("old");
    if (!(await this.#files.makeRoom(stats.uid))) return refuse("limit");
    const opened = await openLogFile(target, this.#rules.mayRead);
    if (typeof opened === "string") return refuse(opened);
    return (await this.#files.add(opened, path)).id;
  }

  /** `path`: undefined if no path leads to the file any more. */
  async #update(file: OpenFile, path: string | undefined, nowMs: number): Promise<void> {
    try {
      if (path !== undefined) {
        file.gone = undefined;
        file.path = path;
      }
      await this.#files.link(file);
      if (path === undefined && (await this.#isReadToEnd(file, nowMs))) await this.#files.remove(file);
    } catch (error) {
      const { message } = error as Error;
      this.#warn("link", { file: file.path, err: message }, "cannot hand a log file to the collector; retrying");
    }
  }

  async #isReadToEnd(file: OpenFile, nowMs: number): Promise<boolean> {
    const { size, mtimeMs } = await statOpenFile(file.fd);
    const passes = this.#collectorPasses;
    if (file.gone?.size !== size) file.gone = { size, changedAtMs: nowMs, passes };
    const idleMs = nowMs - Math.max(file.gone.changedAtMs, Math.min(Number(mtimeMs), nowMs));
    return idleMs >= GONE_FOR_MS && passes - file.gone.passes >= GONE_PASSES;
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

  /** The collector stores its offsets at the end of each pass over its files. */
  async #countCollectorPasses(): Promise<void> {
    const storedMs = (await stat(this.#options.offsetsFile).catch(() => undefined))?.mtimeMs ?? this.#offsetsMs;
    if (storedMs !== this.#offsetsMs) {
      this.#collectorPasses += 1;
      this.#collectorPassMs = this.#nowMs();
    }
    this.#offsetsMs = storedMs;
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
  #warn(what: Problem | "cut" | "link" | "pass" | "removed", fields: object, message: string): void {
    const nowMs = this.#nowMs();
    if (nowMs - (this.#warnedAtMs.get(what) ?? Number.NEGATIVE_INFINITY) < WARN_AGAIN_MS) return;
    this.#warnedAtMs.set(what, nowMs);
    const event: keyof typeof logEvents = `log_files.${what}`;
    this.#options.log.warn({ event, ...fields }, message);
  }
}

const PROBLEMS: Readonly<Record<Problem, string>> = {
  outside: "links that lead outside of LOG_PATHS_ALLOWED are not read",
  unreadable: "log files cannot be read: run the agent as root or with CAP_DAC_READ_SEARCH, or narrow LOG_PATHS",
  special: "LOG_PATHS match entries that are not regular files; they are not read",
  hard_link: "files with another hard link in a folder that other users can write to are not read",
  limit: "the limit of open log files is reached, others are not read; narrow LOG_PATHS",
  encoding: "log files in UTF-16 or UTF-32 are not read; write them in UTF-8",
  name: "log files with names that are not UTF-8 are not read; rename them",
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
