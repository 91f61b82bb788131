// Finds log files that grow although the collector does not read them, whatever the reason. It compares the size of each file with the offsets
// that the collector stores. Invariants: a file is reported if its offset has not moved for 20 s and three passes of the collector, although
// it has more bytes; a collector that has not finished its passes, because it reads a backlog or waits for the backend, is the business of
// the watchdog (watchdog.ts).
import { stat } from "node:fs/promises";
import type logEvents from "../../../common/log-events.json";
import { Loop } from "../../../common/loop.ts";
import type { Log } from "../../log.ts";
import type { WatchedFile } from "../files/log-files.ts";
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
  readonly log: Log;
  readonly nowMs?: () => number;
  readonly everyMs?: number;
}

interface Behind {
  readonly path: string;
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

export class UnreadFiles implements AsyncDisposable {
  readonly #options: UnreadFilesOptions;
  readonly #nowMs: () => number;
  readonly #loop: Loop;
  #behind = new Map<string, Behind>();
  #passes = 0;
  #storedMs = 0;
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

  failing(): FailingSignal[] {
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
    if (storedMs !== this.#storedMs) {
      this.#passes += 1;
      this.#lastCollectorPassMs = nowMs;
    }
    this.#storedMs = storedMs;
    // Sizes are read first: what the collector has read meanwhile does not count as unread.
    const grown: WatchedFile[] = [];
    for await (const file of files()) if (file.size > 0 && nowMs - file.changedMs < maxAgeMs) grown.push(file);
    const stored = await readOffsets(offsetsFile);
    // With the next check.
    if (!stored) return;
    const behind = new Map<string, Behind>();
    for (const { id, path, storedPath, size } of grown) {
      const offsets = stored.get(storedPath) ?? [];
      if (offsets.includes(size)) continue;
      const before = this.#behind.get(id);
      const state = offsets.join();
      behind.set(id, before?.offsets === state ? before : { path, offsets: state, sinceMs: nowMs, passes: this.#passes });
    }
    this.#behind = behind;
    this.#report();
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
    const event: keyof typeof logEvents = "log_files.unread";
    this.#options.log.warn(
      { event, files: unread.slice(0, SHOWN_FILES), count: unread.length },
      "log files grow, but the collector does not read them",
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }
}
