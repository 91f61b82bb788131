// Finds log files that grow although the collector does not read them, whatever the reason. It compares the size of each file with the offsets
// that the collector stores. Invariants: a file is reported if its offset has not moved for 20 s and three passes of the collector, although
// it has more bytes; a collector that has not finished its passes, because it reads a backlog or waits for the backend, is the business of
// the watchdog (watchdog.ts); a file that disappears is counted as lost if the collector neither has it open nor can have opened it.
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { Loop } from "../../../common/loop.ts";
import type { Log } from "../../log.ts";
import { fileId } from "../files/link-name.ts";
import type { LostFiles, WatchedFile } from "../files/log-files-status.ts";
import type { FailingSignal } from "./watchdog.ts";
import { readOffsets } from "./stored-offsets.ts";

export interface UnreadFilesOptions {
  readonly files: () => AsyncIterable<WatchedFile>;
  /** The collector's store of offsets. */
  readonly offsetsFile: string;
  /** The collector does not read files that have not changed for so long. */
  readonly maxAgeMs: number;
  /** The collector's pause between two passes. */
  readonly pauseMs?: () => number;
  /** Process id of the collector; null while none runs. */
  readonly collectorPid: () => number | null;
  readonly log: Log;
  readonly nowMs?: () => number;
  readonly everyMs?: number;
}

/** A file with more bytes than the collector has read. */
interface Behind {
  readonly path: string;
  readonly storedPath: string;
  readonly size: number;
  readonly offsets: string;
  readonly sinceMs: number;
  /** Passes of the collector that had finished. */
  readonly passes: number;
}

const EVERY_MS = 5000;
/** A check takes at most this share of the time: a host with 20,000 files is checked less often. */
const CHECK_SHARE = 0.02;
const UNREAD_AFTER_MS = 20_000;
/** The first one may have begun before the file grew. */
const UNREAD_PASSES = 3;
const WARN_AGAIN_MS = 600_000;
const SHOWN_FILES = 10;
/** A file that was behind for less than two checks may have been read to its end between them. */
const BEHIND_MS = 2 * EVERY_MS - 1000;
const LOST = "a log file was removed, or is older than LOG_MAX_AGE, before the collector had read it";
/** How long lost files are shown as a failing signal. */
const LOST_SHOWN_MS = 600_000;

export class UnreadFiles implements AsyncDisposable {
  readonly #options: UnreadFilesOptions;
  readonly #nowMs: () => number;
  readonly #loop: Loop;
  #behind = new Map<string, Behind>();
  /** Files without a path that a collector still has open, by id. */
  #held = new Map<string, Behind & { readonly pid: number | null }>();
  #lost = { files: 0, bytes: 0, lastMs: Number.NEGATIVE_INFINITY, path: "" };
  #passes = 0;
  #storedMs = 0;
  #checkedMs = 0;
  #lastCollectorPassMs = 0;
  #warnedMs = Number.NEGATIVE_INFINITY;

  constructor(options: UnreadFilesOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    const everyMs = options.everyMs ?? EVERY_MS;
    const step = async (): Promise<number> => {
      const startedAt = performance.now();
      await this.check();
      return Math.max(everyMs, (performance.now() - startedAt) / CHECK_SHARE);
    };
    const failed = (error: unknown): void =>
      options.log.debug(
        { event: "collector.progress_unknown", err: (error as Error).message },
        "cannot compare log files with their offsets",
      );
    this.#loop = new Loop({ firstAfterMs: everyMs, step, failed });
  }

  /** When a finished pass of the collector was last observed; Unix milliseconds, 0 before the first. */
  get lastCollectorPassMs(): number {
    return this.#lastCollectorPassMs;
  }

  /** Paths of files that are not read. */
  paths(): string[] {
    return this.#unread().map(({ path }) => path);
  }

  /** Files that disappeared before the collector read them, since the agent started. */
  lost(): LostFiles {
    const { files, bytes } = this.#lost;
    return { files, bytes };
  }

  failing(): FailingSignal[] {
    return [...this.#failingLost(), ...this.#failingUnread()];
  }

  #failingLost(): FailingSignal[] {
    const { files, bytes, lastMs, path } = this.#lost;
    if (this.#nowMs() - lastMs > LOST_SHOWN_MS) return [];
    const error = `log files were removed, or too old, before the collector had read them: ${files}, with ${bytes} unread bytes, such as ${path}`;
    return [{ signal: "logs", sinceMs: lastMs, error }];
  }

  #failingUnread(): FailingSignal[] {
    const unread = this.#unread();
    const [first] = unread;
    if (!first) return [];
    const error = `log files grow, but the collector does not read them: ${unread.length}, such as ${first.path}`;
    return [{ signal: "logs", sinceMs: Math.min(...unread.map(({ sinceMs }) => sinceMs)), error }];
  }

  /** Runs one check; called every few seconds. */
  async check(): Promise<void> {
    const { files, offsetsFile, maxAgeMs } = this.#options;
    const storedMs = (await stat(offsetsFile).catch(() => undefined))?.mtimeMs ?? this.#storedMs;
    const nowMs = this.#nowMs();
    // The clock was set back: otherwise, nothing would be reported for as long as that.
    if (nowMs < this.#checkedMs) [this.#behind, this.#warnedMs] = [new Map(), Number.NEGATIVE_INFINITY];
    this.#checkedMs = nowMs;
    if (storedMs !== this.#storedMs) {
      this.#passes += 1;
      this.#lastCollectorPassMs = nowMs;
    }
    this.#storedMs = storedMs;
    // Sizes are read first: what the collector has read meanwhile does not count as unread.
    const grown: WatchedFile[] = [];
    const [present, old] = [new Set<string>(), new Set<string>()];
    for await (const file of files()) {
      const isOld = nowMs - file.changedMs >= maxAgeMs;
      (isOld ? old : present).add(file.id);
      if (file.size > 0 && !isOld) grown.push(file);
    }
    const stored = await readOffsets(offsetsFile);
    // With the next check.
    if (!stored) return;
    const behind = new Map<string, Behind>();
    await this.#countLost(present, old, stored);
    for (const { id, path, storedPath, size } of grown) {
      const offsets = stored.get(storedPath) ?? [];
      if (offsets.includes(size)) continue;
      const before = this.#behind.get(id);
      const state = offsets.join();
      const [sinceMs, passes] = before?.offsets === state ? [before.sinceMs, before.passes] : [nowMs, this.#passes];
      behind.set(id, { path, storedPath, size, offsets: state, sinceMs, passes });
    }
    this.#behind = behind;
    this.#report();
  }

  /**
   * The collector opens files at the beginning of a pass, and reads an open file to its end even if it has no path any more, or is too old
   * meanwhile. What is unread of any other file is lost.
   */
  async #countLost(present: ReadonlySet<string>, old: ReadonlySet<string>, stored: ReadonlyMap<string, readonly number[]>): Promise<void> {
    const nowMs = this.#nowMs();
    const gone: [string, Behind][] = [];
    for (const [id, file] of this.#behind)
      if (!present.has(id) && (old.has(id) || !(await isAt(file.storedPath, id)))) gone.push([id, file]);
    if (gone.length === 0 && this.#held.size === 0) return;
    const pid = this.#options.collectorPid();
    const open = await openFileIds(pid);
    const lost: Behind[] = [];
    for (const [id, file] of this.#held) {
      if (open.has(id)) continue;
      this.#held.delete(id);
      // The collector that has closed it has read it.
      if (file.pid !== pid) lost.push(file);
    }
    for (const [id, file] of gone) {
      if (open.has(id)) this.#held.set(id, { ...file, pid });
      else if (file.passes === this.#passes || nowMs - file.sinceMs >= BEHIND_MS) lost.push(file);
    }
    for (const { path, storedPath, size, offsets } of lost) {
      const bytes = unreadBytes(size, stored.get(storedPath) ?? offsets.split(",").map(Number));
      if (bytes === 0) continue;
      this.#lost = { files: this.#lost.files + 1, bytes: this.#lost.bytes + bytes, lastMs: nowMs, path };
      this.#options.log.error({ event: "log_files.lost", file: path, bytes }, LOST);
    }
  }

  #unread(): Behind[] {
    const [nowMs, pauseMs] = [this.#nowMs(), this.#options.pauseMs?.() ?? 0];
    return [...this.#behind.values()].filter(
      ({ sinceMs, passes }) => nowMs - sinceMs >= UNREAD_AFTER_MS + pauseMs && this.#passes - passes >= UNREAD_PASSES,
    );
  }

  #report(): void {
    const unread = this.paths();
    if (unread.length === 0 || this.#nowMs() - this.#warnedMs < WARN_AGAIN_MS) return;
    this.#warnedMs = this.#nowMs();
    this.#options.log.warn(
      { event: "log_files.unread", files: unread.slice(0, SHOWN_FILES), count: unread.length },
      "log files grow, but the collector does not read them",
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }
}

/** Bytes after the furthest offset that is within the file: all, if the file was truncated. */
function unreadBytes(size: number, offsets: readonly number[]): number {
  return size - Math.max(0, ...offsets.filter((offset) => offset <= size));
}

/** Whether a file is still there: files are not listed while no logs are collected, or if a folder cannot be read. */
async function isAt(path: string, id: string): Promise<boolean> {
  const stats = await stat(path, { bigint: true }).catch(() => undefined);
  return stats !== undefined && fileId(stats) === id;
}

/** Ids of the files that a process has open; empty if it has ended. */
async function openFileIds(pid: number | null): Promise<Set<string>> {
  const ids = new Set<string>();
  if (pid === null) return ids;
  const folder = `/proc/${pid}/fd`;
  for (const name of await readdir(folder).catch(() => [])) {
    const stats = await stat(join(folder, name), { bigint: true }).catch(() => undefined);
    if (stats?.isFile()) ids.add(fileId(stats));
  }
  return ids;
}
