// Remembers which batches of log file lines the backend has stored, so that lines which the collector reads or sends again are not stored
// twice. The collector saves file offsets only after it has polled all files (pkg/stanza v0.149, fileconsumer/file.go, poll), and removes a
// batch from its queue only after the response. If it exits earlier, the next collector reads the lines again, or sends the batch again in
// another request.
//
// Invariant: a batch counts as stored only after the backend accepted it. A second batch with the same key is dropped only if it has the
// same read time, or if both were read in a period of doubt: from the last save of offsets before a collector exited to the first save
// after the next one started. So new content of an overwritten file is not mistaken for the old content. Periods of doubt are written with
// fsync, because lines would be lost without them. Batches are written without, like the collector's own stores: they survive kill -9, and
// a power failure may duplicate lines.
import { randomBytes } from "node:crypto";
import { closeSync, openSync, readdirSync, readFileSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";
import { writeDurably } from "../../../common/files.ts";
import type { Log } from "../../log.ts";
import { MAX_DOUBT_PERIODS, MAX_RESENT_BATCHES, MAX_STORED_BATCHES } from "../../agent-limits.ts";
import { type BatchId, UnansweredRequests } from "./unanswered-requests.ts";

export interface StoredBatchesOptions {
  /** State folder, which contains the collector's `checkpoints`. */
  readonly folder: string;
  readonly log: Log;
  readonly nowMs?: () => number;
  readonly watchEveryMs?: number;
  readonly maxBatches?: number;
}

/** A period whose lines may be read twice, in Unix milliseconds; `to` is infinite until offsets are saved again. */
interface Doubt {
  readonly from: number;
  to: number;
}

const FILE = "stored-batches";
/**
 * A commit of offsets writes several pages; a collector that is killed during it may have changed the file's time without saving the
 * offsets.
 */
const COMMIT_MS = 1000;
const FORGET_EVERY_MS = 5000;
/** The queue is first in, first out except for retries: after this time, everything that was read in a period of doubt has arrived. */
const SETTLED_AFTER_MS = 600_000;
const WATCH_EVERY_MS = 500;
/** A collector that has not opened an offset store within this time does not read files. */
const OPENS_WITHIN_MS = 300_000;
/** How long opening a store may write to it; the first poll of files comes 200 ms later. */
const OPENED_WITHIN_MS = 100;
/** The file is rewritten when this many of its lines are obsolete. */
const SPARE_LINES = 10_000;

export class StoredBatches implements Disposable {
  /** Proves that a request comes from this agent's collector. It stays the same after a restart. */
  token = randomBytes(24).toString("base64url");
  readonly unanswered: UnansweredRequests;
  readonly #options: StoredBatchesOptions;
  readonly #nowMs: () => number;
  readonly #checkpoints: string;
  readonly #path: string;
  /** Key → when its lines were last read, in the order of storing. */
  readonly #stored = new Map<string, number>();
  #doubts: Doubt[] = [];
  /** When the current collector started. */
  #startedMs = 0;
  /** When the first batch arrived that was read after the last period of doubt. */
  #settlingMs: number | undefined;
  #file: number | undefined;
  #lines = 0;
  #forgottenMs = 0;
  #isUnwritable = false;
  /** The file does not have the latest periods of doubt. */
  #isBehind = false;
  #watch: NodeJS.Timeout | undefined;

  constructor(options: StoredBatchesOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    this.#checkpoints = join(options.folder, "checkpoints");
    this.#path = join(options.folder, FILE);
    this.unanswered = new UnansweredRequests(options.folder, options.nowMs);
    this.#read();
    this.#rewrite();
  }

  /** Call before each start of a collector, while none runs. */
  collectorStarts(): void {
    const lastDoubt = this.#doubts.at(-1);
    // If the last collector never saved offsets, the open period of doubt already covers what it read.
    if (lastDoubt?.to !== Number.POSITIVE_INFINITY) this.#beginDoubt(this.#offsetsSavedMs() ?? this.#startedMs);
    // The previous collector may still have written within this millisecond.
    this.#startedMs = this.#nowMs() + 1;
    this.#rewrite();
    this.#watchOffsets();
  }

  /** True if the backend already has these lines. */
  has(batch: BatchId): boolean {
    return batch.key !== undefined && this.isRepeated(batch, this.#stored.get(batch.key));
  }

  /**
   * Returns whether a batch repeats the one with the same key that was read at `otherMs`: it was sent again, or read again by a later
   * collector. One collector reads no offset twice, so lines that it reads again are new.
   */
  isRepeated({ readAtMs }: BatchId, otherMs: number | undefined): boolean {
    if (otherMs === undefined || otherMs === readAtMs) return otherMs !== undefined;
    return (
      Math.min(otherMs, readAtMs) <= this.#startedMs && this.#doubts.some((doubt) => isWithin(doubt, otherMs) && isWithin(doubt, readAtMs))
    );
  }

  /** Records that the backend has the lines of these batches. */
  add(batches: readonly BatchId[]): void {
    const nowMs = this.#nowMs();
    const settledFromMs = this.#doubts.at(-1)?.to ?? Number.POSITIVE_INFINITY;
    const lines: string[] = [];
    for (const { key, readAtMs } of batches) {
      if (readAtMs >= settledFromMs) this.#settlingMs ??= nowMs;
      if (key === undefined) continue;
      const lastReadMs = Math.max(readAtMs, this.#stored.get(key) ?? 0);
      this.#stored.delete(key);
      this.#stored.set(key, lastReadMs);
      const [oldest] = this.#stored.keys();
      if (this.#stored.size > (this.#options.maxBatches ?? MAX_STORED_BATCHES) && oldest !== undefined) this.#stored.delete(oldest);
      lines.push(`batch ${lastReadMs} ${key}`);
    }
    this.#append(lines);
    if (nowMs - this.#forgottenMs >= FORGET_EVERY_MS) this.#forget(nowMs);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#watch);
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  // ---- periods of doubt

  #beginDoubt(sinceMs: number): void {
    this.#doubts.push({ from: sinceMs - COMMIT_MS, to: Number.POSITIVE_INFINITY });
    this.#doubts = this.#doubts.slice(-MAX_DOUBT_PERIODS);
    this.#settlingMs = undefined;
  }

  /** Also considers that the collector may exit now. `savedMs`: when it last saved offsets. */
  #mayBeReadAgain(readAtMs: number, savedMs = 0): boolean {
    return this.#doubts.some((doubt) => isWithin(doubt, readAtMs)) || (readAtMs >= this.#startedMs && readAtMs >= savedMs - COMMIT_MS);
  }

  /** Ends the period of doubt when every file receiver has saved offsets. The first write, when a store is opened, does not count. */
  #watchOffsets(): void {
    clearInterval(this.#watch);
    const opened = new Map<string, number>();
    this.#watch = setInterval(() => {
      const stores = this.#stores();
      if (stores.length === 0 && this.#nowMs() - this.#startedMs > OPENS_WITHIN_MS) clearInterval(this.#watch);
      for (const [name, atMs] of stores) if (!opened.has(name)) opened.set(name, atMs);
      if (stores.length === 0 || !stores.every(([name, atMs]) => atMs > (opened.get(name) ?? 0) + OPENED_WITHIN_MS)) return;
      clearInterval(this.#watch);
      const doubt = this.#doubts.at(-1);
      if (doubt) doubt.to = this.#nowMs();
      this.#rewrite();
    }, this.#options.watchEveryMs ?? WATCH_EVERY_MS);
    this.#watch.unref();
  }

  /** Offsets of all lines that were read before this time are saved; undefined if no file receiver has run. */
  #offsetsSavedMs(): number | undefined {
    const stores = this.#stores();
    return stores.length === 0 ? undefined : Math.min(...stores.map(([, atMs]) => Math.floor(atMs)));
  }

  /** Name and last write of the offset stores that the current or last collector uses. Unused stores are older. */
  #stores(): [string, number][] {
    try {
      return readdirSync(this.#checkpoints)
        .filter((name) => /^receiver_filelog_(?!.*\.(damaged|backup)$)/.test(name))
        .map((name): [string, number] => [name, statSync(join(this.#checkpoints, name)).mtimeMs])
        .filter(([, atMs]) => atMs >= this.#startedMs);
    } catch {
      // Without the list, the agent remembers more batches than necessary.
      return [];
    }
  }

  // ---- on disk

  #read(): void {
    for (const line of this.#text().split("\n").slice(0, -1)) {
      const [word, value = "", key] = line.split(" ");
      if (word === "token" && value.length === this.token.length) this.token = value;
      const atMs = Number(value);
      if (!Number.isFinite(atMs)) continue;
      const doubt = this.#doubts.at(-1);
      if (word === "start") this.#startedMs = atMs;
      if (word === "doubt") this.#doubts.push({ from: atMs, to: Number.POSITIVE_INFINITY });
      if (word === "end" && doubt) doubt.to = atMs;
      if (word === "batch" && key !== undefined) this.#stored.set(key, atMs);
    }
  }

  #text(): string {
    try {
      return readFileSync(this.#path, "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") this.#warnUnwritable(error);
      return "";
    }
  }

  #append(lines: readonly string[]): void {
    if (this.#file === undefined || lines.length === 0) return;
    try {
      writeSync(this.#file, `${lines.join("\n")}\n`);
      this.#lines += lines.length;
      this.#isUnwritable = false;
    } catch (error) {
      this.#warnUnwritable(error);
    }
  }

  #forget(nowMs: number): void {
    this.#forgottenMs = nowMs;
    const isSettled = this.#settlingMs !== undefined && nowMs - this.#settlingMs > SETTLED_AFTER_MS;
    if (isSettled) {
      this.#doubts = [];
      this.#settlingMs = undefined;
    }
    const savedMs = this.#offsetsSavedMs();
    const old = [...this.#stored].slice(0, -MAX_RESENT_BATCHES);
    for (const [key, readAtMs] of old) if (!this.#mayBeReadAgain(readAtMs, savedMs)) this.#stored.delete(key);
    if (isSettled || this.#isBehind || this.#lines > this.#stored.size + SPARE_LINES) this.#rewrite();
  }

  #rewrite(): void {
    this.#isBehind = true;
    const lines = [
      `token ${this.token}`,
      `start ${this.#startedMs}`,
      ...this.#doubts.flatMap(({ from, to }) => [`doubt ${from}`, ...(Number.isFinite(to) ? [`end ${to}`] : [])]),
      ...[...this.#stored].map(([key, readAtMs]) => `batch ${readAtMs} ${key}`),
    ];
    try {
      writeDurably(this.#path, lines.map((line) => `${line}\n`).join(""));
      if (this.#file !== undefined) closeSync(this.#file);
      this.#file = openSync(this.#path, "a", 0o600);
      this.#lines = lines.length;
      this.#isBehind = false;
    } catch (error) {
      this.#warnUnwritable(error);
    }
  }

  /** Only logs the failure: its worst consequence is duplicated lines. */
  #warnUnwritable(error: unknown): void {
    if (!this.#isUnwritable)
      this.#options.log.warn(
        { event: "collector.checkpoint_failed", err: (error as Error).message },
        `cannot record sent lines in ${FILE}; if the agent or the collector is killed, some lines may arrive twice`,
      );
    this.#isUnwritable = true;
  }
}

function isWithin({ from, to }: Doubt, readAtMs: number): boolean {
  return from <= readAtMs && readAtMs < to;
}
