// Remembers which lines of log files the backend has stored, so that lines which the collector reads or sends again are not stored twice. The
// collector saves file offsets only after it has polled all files (pkg/stanza v0.149, fileconsumer/file.go, poll), and removes a batch from
// its queue only after the response. If it exits earlier, the next collector reads the lines again, cut into other batches, or sends the
// batch again in another request.
//
// Each batch has the number of the collector's start in which it was read. Invariant: lines count as stored only after the backend accepted
// them, and are dropped only if StoredLines finds that they were read or sent again, both in a period of doubt: from the last save of offsets
// before a collector exited to the first save after the next one started. Times are compared only within one start, because the clock can be
// set. Periods of doubt are written with fsync, because lines would be lost without them; lines are not, so a power failure may duplicate
// them.
import { randomBytes } from "node:crypto";
import { closeSync, openSync, readdirSync, readFileSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";
import { writeDurably } from "../../../common/files.ts";
import type { Log } from "../../log.ts";
import { MAX_DOUBT_PERIODS } from "../../agent-limits.ts";
import type { BatchId, FileBatch } from "./file-batch.ts";
import { readFormerBatches } from "./former-batches.ts";
import { type Doubt, type Span, StoredLines } from "./stored-lines.ts";
import { UnansweredRequests } from "./unanswered-requests.ts";

export interface StoredBatchesOptions {
  /** State folder, which contains the collector's `checkpoints`. */
  readonly folder: string;
  readonly log: Log;
  readonly nowMs?: () => number;
  readonly watchEveryMs?: number;
  readonly maxLines?: number;
}

const FILE = "stored-batches";
/** An entry of the file: all lines before the previous entry of this kind are saved. */
const SAVED = "saved";
/**
 * A commit of offsets writes several pages; a collector that is killed during it may have changed the file's time without saving the
 * offsets.
 */
const COMMIT_MS = 1000;
/** The queue is first in, first out except for retries: after this time, everything that was read in a period of doubt has arrived. */
const SETTLED_AFTER_MS = 600_000;
const WATCH_EVERY_MS = 500;
const WRITE_AGAIN_MS = 1000;
/** How long opening a store may write to it; the first poll of files comes 200 ms later. */
const OPENED_WITHIN_MS = 100;
/** Entries at which the file is rewritten; later at twice as many as it had then. */
const MIN_ENTRIES = 4000;

/** The first line of the file; the others are batches and notes that offsets were saved. */
interface State {
  readonly token: string;
  readonly start: number;
  readonly stores: readonly (readonly [name: string, atMs: number])[];
  readonly doubts: readonly Doubt[];
  /** To which the clock was set back since offsets were saved. */
  readonly setBackToMs?: number | undefined;
  readonly former?: readonly (readonly [key: string, readAtMs: number])[];
}

export class StoredBatches implements Disposable {
  /** Proves that a request comes from this agent's collector. It stays the same after a restart. */
  token = randomBytes(24).toString("base64url");
  readonly unanswered: UnansweredRequests;
  readonly lines: StoredLines;
  readonly #options: StoredBatchesOptions;
  readonly #nowMs: () => number;
  readonly #checkpoints: string;
  readonly #path: string;
  /** The last collector wrote no numbers; its batches have the number 0. */
  #isUpgrade = false;
  /** Batches that an agent of the former release delivered, and when they were read. */
  #former: ReadonlyMap<string, number> = new Map();
  /** Times of the offset stores when the collector started, when it had opened them, and when they were last seen to be saved. */
  #storesAtStart = new Map<string, number>();
  readonly #opened = new Map<string, number>();
  #saved = new Map<string, number>();
  /**
   * When the collector started, the highest time of the clock since offsets were saved or else since then, and the lowest one to which it was
   * set back. An agent that has just started does not know the clock of the last collector.
   */
  #startedMs = 0;
  #highestMs = Number.NEGATIVE_INFINITY;
  #setBackToMs: number | undefined;
  /** First and last time of the clock in each period between steps back, from the start of the collector to its first save of offsets. */
  #periods: [fromMs: number, toMs: number][] = [];
  /** When the clock was last read. */
  #lookedMs = Number.NEGATIVE_INFINITY;
  /** When the first batch arrived that was read after the last period of doubt; of `performance`. */
  #settlingMs: number | undefined;
  #file: number | undefined;
  #entries = 0;
  #maxEntries = MIN_ENTRIES;
  #isUnwritable = false;
  /** The file does not have the latest changes, and when it was last rewritten. */
  #isBehind = false;
  #rewrittenMs = Number.NEGATIVE_INFINITY;
  #watch: NodeJS.Timeout | undefined;

  constructor(options: StoredBatchesOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    this.#checkpoints = join(options.folder, "checkpoints");
    this.#path = join(options.folder, FILE);
    this.lines = new StoredLines(options.maxLines);
    this.unanswered = new UnansweredRequests(options.folder, options.nowMs);
    this.#read();
    this.#rewrite();
  }

  /** Call when a collector has ended: where the clock is set from then on does not matter for what it read. */
  collectorEnded(): void {
    const nowMs = this.#nowMs();
    this.#noteClock(nowMs);
    const stores = this.#stores();
    // Without a record of the last collector, lines are rather duplicated than lost. If it never saved offsets, the open period of doubt
    // already covers what it read.
    const { start, doubts } = this.lines;
    if ((start > 0 || this.#isUpgrade) && (doubts.length === 0 || doubts.at(-1)?.to)) this.#beginDoubt(this.#unsaved(stores, nowMs));
    this.#storesAtStart = stores;
    this.#opened.clear();
    this.#saved = new Map();
    this.#rewrite();
  }

  /** Call before each start of a collector, while none runs. Returns the number of the start. */
  collectorStarts(): number {
    // The agent may have been killed before it.
    this.collectorEnded();
    const nowMs = this.#nowMs();
    // The time makes the number unique even if the last one could not be written.
    this.lines.start = Math.max(this.lines.start + 1, Math.floor(nowMs / 1000));
    this.#isUpgrade = false;
    this.#startedMs = this.#highestMs = nowMs;
    this.#setBackToMs = undefined;
    this.#periods = [[nowMs, nowMs]];
    this.#rewrite();
    clearInterval(this.#watch);
    this.#watch = setInterval(() => this.#watchOffsets(), this.#options.watchEveryMs ?? WATCH_EVERY_MS);
    this.#watch.unref();
    return this.lines.start;
  }

  /** Records that the backend has the lines of these batches. */
  add(batches: readonly BatchId[]): void {
    const isDoubtOver = this.lines.doubts.at(-1)?.to !== undefined;
    for (const batch of batches) {
      this.lines.add(batch);
      if (isDoubtOver && !this.lines.mayRepeat(batch)) this.#settlingMs ??= performance.now();
    }
    this.#append(batches);
  }

  /** The first lines of a batch that an agent of the former release delivered. */
  formerLines({ identity, formerKeys }: FileBatch): readonly number[] {
    if (this.#former.size === 0 || !identity || !this.lines.mayRepeat(identity)) return [];
    const { lines, start } = identity;
    const keys = formerKeys();
    // A batch of the queue was delivered as a whole.
    for (let count = lines.length; count > (start === 0 ? lines.length - 1 : 0); count -= 1) {
      const reads = keys.of(count).flatMap((key) => this.#former.get(key) ?? []);
      if (reads.some((readAtMs) => this.lines.areSame(identity, { start: 0, readAtMs }))) return lines.slice(0, count);
    }
    return [];
  }

  [Symbol.dispose](): void {
    clearInterval(this.#watch);
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  // ---- periods of doubt

  #noteClock(nowMs: number): void {
    const wasSetBack = nowMs < this.#highestMs;
    const period = this.#periods.at(-1);
    // Lines may have been read between the step and this look at the clock.
    if (period && nowMs < this.#lookedMs) this.#periods.push([nowMs - COMMIT_MS, nowMs]);
    else if (period) period[1] = nowMs;
    this.#lookedMs = nowMs;
    this.#highestMs = Math.max(this.#highestMs, nowMs);
    if (!wasSetBack || (this.#setBackToMs ?? Number.POSITIVE_INFINITY) <= nowMs) return;
    this.#setBackToMs = nowMs;
    this.#rewrite();
  }

  #beginDoubt(from: Span): void {
    this.lines.doubts = [...this.lines.doubts, { from }].slice(-MAX_DOUBT_PERIODS);
    this.#settlingMs = undefined;
  }

  /** What the last collector read and may not have saved. */
  #unsaved(stores: ReadonlyMap<string, number>, nowMs: number): Span {
    const { start } = this.lines;
    const used = this.#usedStores(stores).map(([, atMs]) => Math.floor(atMs));
    // While no agent ran, the collector may have run on, and the clock may have been set.
    const isJustStarted = this.#startedMs === 0;
    const toMs = isJustStarted ? Number.MAX_SAFE_INTEGER : this.#highestMs + COMMIT_MS;
    if (used.length === 0 || (isJustStarted && Math.max(...used) > nowMs)) return { start, fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };
    return { start, fromMs: Math.min(...used, this.#setBackToMs ?? Number.POSITIVE_INFINITY) - COMMIT_MS, toMs };
  }

  /** Ends the period of doubt when every file receiver has saved offsets. The first write, when a store is opened, does not count. */
  #watchOffsets(): void {
    const nowMs = this.#nowMs();
    const wasJustSetBack = nowMs < this.#lookedMs;
    this.#noteClock(nowMs);
    if (this.#settlingMs !== undefined && performance.now() - this.#settlingMs > SETTLED_AFTER_MS) this.#settle();
    const used = this.#usedStores(this.#stores());
    for (const [name, atMs] of used) if (!this.#opened.has(name)) this.#opened.set(name, atMs);
    const isSaved = ([name, atMs]: [string, number]): boolean =>
      Math.abs(atMs - (this.#opened.get(name) ?? 0)) > OPENED_WITHIN_MS && atMs !== this.#saved.get(name);
    if (used.length > 0 && used.every(isSaved)) this.#noteSave(new Map(used), nowMs, wasJustSetBack);
    if (this.#isBehind && Math.abs(nowMs - this.#rewrittenMs) >= WRITE_AGAIN_MS) this.#rewrite();
  }

  #noteSave(stores: Map<string, number>, nowMs: number, wasJustSetBack: boolean): void {
    this.#saved = stores;
    const { start, doubts } = this.lines;
    const doubt = doubts.at(-1);
    if (doubt && !doubt.to && this.#periods.length > 0) {
      // Lines may have been read between the last look at the clock and a step.
      const spans = this.#periods.map(([fromMs, toMs], i, { length }) => ({
        start,
        fromMs,
        toMs: i < length - 1 ? toMs + COMMIT_MS : toMs,
      }));
      this.lines.doubts = [...doubts.slice(0, -1), ...spans.map((to) => ({ ...doubt, to }))].slice(-MAX_DOUBT_PERIODS);
      this.#isBehind = true;
    }
    this.#periods = [];
    // If the clock was set back since the last look, lines may have been read after the save by the clock of before.
    if (!wasJustSetBack) {
      this.#highestMs = nowMs;
      if (this.#setBackToMs !== undefined) this.#isBehind = true;
      this.#setBackToMs = undefined;
    }
    if (this.#isBehind) this.#rewrite();
    if (this.lines.offsetsSaved()) this.#append([SAVED]);
  }

  #settle(): void {
    this.lines.settle();
    this.#former = new Map();
    this.#settlingMs = undefined;
    this.#rewrite();
  }

  /** Name and last write of the collector's offset stores. */
  #stores(): Map<string, number> {
    try {
      const names = readdirSync(this.#checkpoints).filter((name) => /^receiver_filelog_(?!.*\.(damaged|backup)$)/.test(name));
      return new Map(names.map((name): [string, number] => [name, statSync(join(this.#checkpoints, name)).mtimeMs]));
    } catch {
      // Without the list, more lines are remembered than necessary.
      return new Map();
    }
  }

  /** Those that were written since the collector started. */
  #usedStores(stores: ReadonlyMap<string, number>): [string, number][] {
    return [...stores].filter(([name, atMs]) => atMs !== this.#storesAtStart.get(name));
  }

  // ---- on disk

  #read(): void {
    const text = this.#text();
    const [state, ...entries] = text.split("\n").slice(0, -1).map(parse);
    const { token, start, stores, doubts, setBackToMs, former } = (state ?? {}) as Partial<State>;
    // A file of another version, or one that a power failure damaged.
    if (token?.length !== this.token.length || start === undefined || !stores || !doubts) {
      this.#isUpgrade = state !== undefined || entries.length > 0;
      this.#former = new Map(readFormerBatches(text));
      return;
    }
    Object.assign(this, { token });
    Object.assign(this.lines, { start, doubts });
    this.#storesAtStart = new Map(stores);
    this.#setBackToMs = setBackToMs;
    this.#former = new Map(former);
    for (const entry of entries) {
      if (entry === SAVED) this.lines.offsetsSaved();
      else if (entry && Array.isArray((entry as BatchId).lines)) this.lines.add(entry as BatchId);
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

  #append(entries: readonly (BatchId | typeof SAVED)[]): void {
    if (this.#file === undefined || entries.length === 0) return;
    try {
      writeSync(this.#file, entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
      this.#entries += entries.length;
      this.#isUnwritable = false;
    } catch (error) {
      this.#isBehind = true;
      this.#warnUnwritable(error);
    }
    if (this.#entries > this.#maxEntries) this.#rewrite();
  }

  #rewrite(): void {
    this.#isBehind = true;
    this.#rewrittenMs = this.#nowMs();
    const { start, doubts } = this.lines;
    const stores = [...this.#storesAtStart];
    const state: State = { token: this.token, start, stores, doubts, setBackToMs: this.#setBackToMs, former: [...this.#former] };
    const { sent, earlier, latest } = this.lines.remembered();
    const entries = [state, ...sent.map((id): BatchId => ({ id, start: 0, readAtMs: 0, lines: [] })), ...earlier, SAVED, ...latest];
    try {
      writeDurably(this.#path, entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
      if (this.#file !== undefined) closeSync(this.#file);
      this.#file = openSync(this.#path, "a", 0o600);
      this.#entries = entries.length;
      this.#maxEntries = Math.max(MIN_ENTRIES, 2 * entries.length);
      this.#isBehind = false;
    } catch (error) {
      this.#warnUnwritable(error);
    }
  }

  #warnUnwritable(error: unknown): void {
    if (!this.#isUnwritable)
      this.#options.log.warn(
        { event: "collector.checkpoint_failed", err: (error as Error).message },
        `cannot record sent lines in ${FILE}; if the agent is killed, some lines may arrive twice`,
      );
    this.#isUnwritable = true;
  }
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
