// Finds the files that patterns match. Invariants: a folder, identified by device and inode, is entered once per position in the patterns, so
// that links neither multiply the work nor cause cycles; paths without links are found before paths with links; unchanged folders are not
// listed again. Whether a file may be read is decided when it is opened (open-files.ts).
import type { BigIntStats, Dirent } from "node:fs";
import { lstat, opendir, realpath, stat } from "node:fs/promises";
import { fileId } from "./link-name.ts";
import { type Position, PathPatterns, unrotated } from "./log-paths.ts";
import { closeFile, type LogFileRules, openLogFile, type Refusal, refusalOf } from "./open-files.ts";

/** The matching files of one folder. */
export interface FoundFiles {
  /** Includes FIFOs, sockets and devices, so that they are reported; they must not be opened. */
  readonly files: readonly string[];
  /** Paths whose last name is a symbolic link. */
  readonly links: readonly string[];
  /** Paths of files that do not match, but would without the suffix of a rotation. */
  readonly rotated: readonly string[];
  /** False if the folder has not changed since the previous pass, so that each name leads to the same file or link. */
  readonly isNews: boolean;
  /** Folders, and links to folders, that are not entered. */
  readonly refused?: ReadonlyMap<string, Refusal | "name">;
}

interface Listing {
  readonly id: string;
  readonly mtimeMs: number;
  /** 0: the folder must be listed again. */
  readonly listedAtMs: number;
  readonly refusal?: Refusal;
  readonly files: readonly string[];
  readonly links: readonly string[];
  readonly rotated: readonly string[];
  readonly folders: readonly string[];
}

interface Visit {
  readonly folder: string;
  readonly position: Position;
}

export interface LogTreeLimits {
  readonly folders: number;
  readonly entriesOfFolder: number;
  readonly linksOfFolder: number;
  readonly depth: number;
  /** How long to wait for a folder that was never listed. */
  readonly answerMs: number;
}

export const LOG_TREE_LIMITS: LogTreeLimits = {
  folders: 100_000,
  entriesOfFolder: 200_000,
  linksOfFolder: 100,
  depth: 64,
  answerMs: 5000,
};
/** Each system call that does not return occupies one of the four threads that this process has for file systems. */
const MAX_UNANSWERED = 2;

/** A folder may change again within the same tick of the file system's clock in which it was listed. */
const SETTLED_AFTER_MS = 2000;
/** A folder whose entries changed within this time may have a rotation again soon. */
const ACTIVE_FOR_MS = 60_000;
const MAX_ACTIVE_FOLDERS = 20;

export class LogTree {
  readonly #patterns: PathPatterns;
  readonly #mayEnter: (realPath: string) => boolean;
  readonly #limits: LogTreeLimits;
  #listings = new Map<string, Listing>();
  #activeFolders: readonly string[] = [];
  #isCut = false;
  /** Folders whose `stat` or `realpath` has not returned yet. */
  readonly #unanswered = new Set<string>();

  /** `mayEnter` decides whether to follow a link to a folder, by its target. */
  constructor(patterns: PathPatterns, mayEnter: (realPath: string) => boolean, limits: LogTreeLimits = LOG_TREE_LIMITS) {
    this.#patterns = patterns;
    this.#mayEnter = mayEnter;
    this.#limits = limits;
  }

  /** True if the last pass omitted files or folders because a limit was reached. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Number of folders and matching files of the last pass. */
  get size(): number {
    return [...this.#listings.values()].reduce((sum, { files, links }) => sum + 1 + files.length + links.length, 0);
  }

  /** Whether files were recently created, renamed or removed in a folder, so that more may follow soon. */
  get hasActiveFolders(): boolean {
    return this.#activeFolders.length > 0;
  }

  /** Whether that has happened in such a folder since the last pass. */
  async hasChanged(): Promise<boolean> {
    for (const folder of this.#activeFolders) {
      const stats = await stat(folder, { bigint: true }).catch(() => undefined);
      if (stats && Number(stats.mtimeMs) !== this.#listings.get(folder)?.mtimeMs) return true;
    }
    return false;
  }

  /** One pass over the tree. Throws the reason of `signal` if it aborts. */
  async *pass(signal: AbortSignal): AsyncGenerator<FoundFiles> {
    this.#isCut = false;
    const before = this.#listings;
    const listings = new Map<string, Listing>();
    const visited = new Set<string>();
    const visits: Visit[] = this.#patterns.roots.map(({ folder, position }) => ({ folder, position }));
    // Links are followed only after every folder that is reachable without them.
    const links: Visit[] = [];
    const refused = new Map<string, Refusal | "name">();
    for (let visit = visits.shift(); visit; visit = visits.shift() ?? (await this.#nextFollowedLink(links, refused))) {
      signal.throwIfAborted();
      const { folder, position } = visit;
      const ask = (): Promise<BigIntStats | Refusal> => stat(folder, { bigint: true }).catch(refusalOf);
      const stats = await (before.has(folder) ? ask() : this.#inTime(folder, ask));
      // Node.js replaces bytes of a name that are not UTF-8, so the path does not exist.
      if (typeof stats === "string") refused.set(folder, folder.includes("\uFFFD") ? "name" : stats);
      if (typeof stats === "string" || !stats.isDirectory()) continue;
      const key = `${fileId(stats)} ${position.join()}`;
      if (visited.has(key)) continue;
      if (visited.size >= this.#limits.folders || folder.split("/").length > this.#limits.depth) {
        this.#isCut = true;
        continue;
      }
      visited.add(key);
      const isNews = !isUnchanged(before.get(folder), stats);
      const listing = isNews ? await this.#list(visit, stats, before.get(folder)) : (before.get(folder) as Listing);
      listings.set(folder, listing);
      if (listing.refusal !== undefined) refused.set(folder, listing.refusal);
      for (const name of listing.folders)
        visits.push({ folder: join(folder, name), position: this.#patterns.step(position, name).position });
      const linked = listing.links.map((name) => ({ path: join(folder, name), step: this.#patterns.step(position, name) }));
      for (const { path, step } of linked) if (step.position.length > 0) links.push({ folder: path, position: step.position });
      const matching = linked.flatMap(({ path, step }) => (step.isMatch ? [path] : []));
      const [files, rotated] = [listing.files, listing.rotated].map((names) => names.map((name) => join(folder, name)));
      yield { files: files ?? [], links: matching, rotated: rotated ?? [], isNews };
    }
    yield { files: [], links: [], rotated: [], isNews: true, refused };
    this.#listings = listings;
    const sinceMs = Date.now() - ACTIVE_FOR_MS;
    this.#activeFolders = [...listings]
      .flatMap(([folder, { mtimeMs }]) => (mtimeMs > sinceMs ? [folder] : []))
      .slice(0, MAX_ACTIVE_FOLDERS);
  }

  async #nextFollowedLink(links: Visit[], refused: Map<string, Refusal | "name">): Promise<Visit | undefined> {
    for (let link = links.shift(); link; link = links.shift()) {
      const { folder } = link;
      const target = await this.#inTime(folder, () => realpath(folder).catch(() => undefined));
      if (target === "unreadable") refused.set(folder, target);
      if (target === undefined || target === "unreadable") continue;
      if (this.#mayEnter(target)) return link;
      if ((await stat(target).catch(() => undefined))?.isDirectory()) refused.set(link.folder, "outside");
    }
    return undefined;
  }

  /**
   * A file system that does not respond, such as NFS without its server, must delay neither the other folders nor the agent's start. A folder
   * that was listed is waited for: its files would otherwise count as removed.
   */
  async #inTime<T>(folder: string, ask: () => Promise<T>): Promise<T | "unreadable"> {
    if (this.#unanswered.has(folder)) return "unreadable";
    const answer = ask();
    if (this.#unanswered.size >= MAX_UNANSWERED) return answer;
    this.#unanswered.add(folder);
    const { promise: late, resolve } = Promise.withResolvers<"unreadable">();
    const timer = setTimeout(resolve, this.#limits.answerMs, "unreadable");
    const answered = (): void => {
      clearTimeout(timer);
      this.#unanswered.delete(folder);
    };
    answer.then(answered, answered);
    return Promise.race([answer, late]);
  }

  /** Lists a folder; if that fails temporarily, as on a network file system, returns the previous listing. */
  async #list({ folder, position }: Visit, stats: BigIntStats, before: Listing | undefined): Promise<Listing> {
    const names = { files: [] as string[], links: [] as string[], rotated: [] as string[], folders: [] as string[] };
    const listing: Listing = { id: fileId(stats), mtimeMs: Number(stats.mtimeMs), listedAtMs: Date.now(), ...names };
    try {
      let count = 0;
      for await (const entry of await opendir(folder, { bufferSize: 256 })) {
        if (++count > this.#limits.entriesOfFolder) {
          this.#isCut = true;
          break;
        }
        this.#listFor(entry, position, names)?.push(entry.name);
      }
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const isPermanent = code === "EACCES" || code === "EPERM" || code === "ENOENT" || code === "ENOTDIR";
      // A change of permissions does not change the folder's time.
      return { ...(isPermanent || !before ? listing : before), listedAtMs: 0, refusal: refusalOf(error as NodeJS.ErrnoException) };
    }
    return listing;
  }

  /** Undefined if no pattern needs the entry. */
  #listFor(entry: Dirent, position: Position, lists: Record<"files" | "links" | "rotated" | "folders", string[]>): string[] | undefined {
    const step = this.#patterns.step(position, entry.name);
    if (entry.isFile()) {
      if (step.isMatch) return lists.files;
      const name = unrotated(entry.name);
      return name !== undefined && this.#patterns.step(position, name).isMatch ? lists.rotated : undefined;
    }
    if (entry.isDirectory()) return step.position.length > 0 ? lists.folders : undefined;
    if (!entry.isSymbolicLink()) return step.isMatch ? lists.files : undefined;
    if (!step.isMatch && step.position.length === 0) return undefined;
    if (lists.links.length < this.#limits.linksOfFolder) return lists.links;
    this.#isCut = true;
    return undefined;
  }
}

function isUnchanged(listing: Listing | undefined, stats: BigIntStats): boolean {
  return (
    listing !== undefined &&
    listing.id === fileId(stats) &&
    listing.mtimeMs === Number(stats.mtimeMs) &&
    listing.listedAtMs - listing.mtimeMs > SETTLED_AFTER_MS
  );
}

function join(folder: string, name: string): string {
  return folder === "/" ? `/${name}` : `${folder}/${name}`;
}

export interface LogFilesSurvey {
  /** Number of matching paths. */
  readonly count: number;
  readonly notRead: ReadonlyMap<Refusal | "name", readonly string[]>;
}

export async function surveyLogFiles(patterns: readonly string[], { mayRead, mayEnter }: LogFileRules): Promise<LogFilesSurvey> {
  const notRead = new Map<Refusal | "name", string[]>();
  const refuse = (path: string, why: Refusal | "name"): void => void notRead.set(why, [...(notRead.get(why) ?? []), path]);
  let count = 0;
  const open = async (path: string, target: string): Promise<void> => {
    const stats = await lstat(target).catch(() => undefined);
    // The walk enters folders.
    if (stats?.isDirectory()) return;
    count += 1;
    // Opening and closing a FIFO affects the program that writes to it.
    const isSpecial = stats !== undefined && !stats.isFile() && !stats.isSymbolicLink();
    const opened = isSpecial ? "special" : await openLogFile(target, mayRead);
    if (typeof opened !== "string") await closeFile(opened.fd);
    else refuse(path, opened);
  };
  for await (const { files, links, refused = [] } of new LogTree(new PathPatterns(patterns), mayEnter).pass(new AbortController().signal)) {
    for (const path of files) await open(path, path);
    for (const path of links) await open(path, await realpath(path).catch(() => path));
    for (const [path, why] of refused) refuse(path, why);
  }
  return { count, notRead };
}
