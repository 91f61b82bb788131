// Rows of many senders on their way into one table, one insert at a time: what comes while one runs is the next one's. Invariant: nobody is
// told before the commit, one refused row fails nobody else's, and where more waits than an insert may hold, whoever has least
// waiting is next. Rows that somebody waits for take the others with them; while nobody does, they gather. Rows that are stored are used up.
import { ApiError } from "../../errors.ts";
import { freeBuffer } from "../../../common/free-buffer.ts";
import type { NativeRows } from "./native-block.ts";

export interface LaneOptions {
  /** An insert holds no more than these, or one sender's rows alone. */
  readonly mostBytes: number;
  readonly mostRows: number;
  /** From so many bytes on, nothing waits for company. */
  readonly fullBytes: number;
  /** How long after an insert the next one waits for company: those who were answered come back. Once they all have, nothing waits. */
  readonly lingerMs: number;
  /** Below so many rows it waits longer, for as long as one comes within `goesOnMs` of the other; after `mostLingerMs` no more. */
  readonly fewRows: number;
  readonly goesOnMs: number;
  readonly mostLingerMs: number;
  /** How long rows that nobody waits for gather; and the least between two inserts that are for readers. */
  readonly gatherMs: number;
  readonly readersMs: number;
}

interface Waiting {
  readonly orgId: string;
  readonly rows: NativeRows;
  /** Its sender has its answer already. */
  readonly isAnswered: boolean;
  readonly done: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class InsertLane implements AsyncDisposable {
  readonly #options: LaneOptions;
  readonly #insert: (rows: readonly NativeRows[]) => Promise<void>;
  /** In order of arrival. */
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  #waitingRows = 0;
  /** Of `#waiting`. */
  #answered = 0;
  /** Since when answered rows gather. */
  #gathersSinceMs = Number.POSITIVE_INFINITY;
  /** Somebody wants to read what waits. */
  #isRead = false;
  #running: Promise<void> | undefined;
  #inserting: readonly Waiting[] = [];
  /** When organisations had their turn last, as far as it matters: those that wait, and those of the last insert. */
  #servedAt = new Map<string, number>();
  #inserts = 0;
  #endedMs = Number.NEGATIVE_INFINITY;
  /** Until when company is waited for where few rows wait. */
  #untilMs = Number.NEGATIVE_INFINITY;
  /** Those whom the last insert answered, less those who have come since. */
  #away = 0;
  #timer: NodeJS.Timeout | undefined;
  #wakesAtMs = 0;
  #closing = false;

  constructor(options: LaneOptions, insert: (rows: readonly NativeRows[]) => Promise<void>) {
    this.#options = options;
    this.#insert = insert;
  }

  /** Resolves when the rows are committed. Rejects with what the insert threw. `isAnswered`: nobody waits for that. */
  add(orgId: string, rows: NativeRows, isAnswered = false): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const one = { orgId, rows, isAnswered, done: promise, resolve, reject };
    this.#waiting.push(one);
    this.#count([one], 1);
    if (isAnswered) {
      this.#gathersSinceMs = Math.min(this.#gathersSinceMs, performance.now());
    } else {
      this.#away -= 1;
      this.#lingerOn();
    }
    this.#next();
    return promise;
  }

  /** Resolves when what an organisation (unset: all of them) had waiting or under way is committed, or has failed. Never rejects. */
  async flush(orgId?: string): Promise<void> {
    const isTheirs = (one: Waiting): boolean => one.isAnswered && (orgId === undefined || one.orgId === orgId);
    const waiting = this.#waiting.filter(isTheirs);
    const theirs = [...this.#inserting.filter(isTheirs), ...waiting];
    if (waiting.length > 0) {
      this.#isRead = true;
      this.#next();
    }
    if (theirs.length > 0) await Promise.allSettled(theirs.map(({ done }) => done));
  }

  /** Commits what was added. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing = true;
    for (this.#next(); this.#running; this.#next()) await this.#running;
  }

  #next(): void {
    if (this.#running || this.#waiting.length === 0) return;
    const waitMs = this.#waitMs();
    if (waitMs > 0) return this.#wakeIn(waitMs);
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const group = this.#take();
    this.#inserting = group;
    this.#running = this.#commit(group).finally(() => {
      this.#running = undefined;
      this.#inserting = [];
      this.#endedMs = performance.now();
      this.#untilMs = this.#endedMs + this.#options.lingerMs;
      this.#away = group.filter(({ isAnswered }) => !isAnswered).length;
      this.#next();
    });
  }

  #lingerOn(): void {
    const { goesOnMs, mostLingerMs } = this.#options;
    const nowMs = performance.now();
    if (nowMs < this.#untilMs) this.#untilMs = Math.max(this.#untilMs, Math.min(nowMs + goesOnMs, this.#endedMs + mostLingerMs));
  }

  /** An insert by itself costs as much as 2,000 rows in it do: while there are few, company is worth waiting for. */
  #waitMs(): number {
    const { fullBytes, lingerMs, fewRows, gatherMs, readersMs } = this.#options;
    if (this.#closing || this.#waitingBytes >= fullBytes) return 0;
    const nowMs = performance.now();
    if (this.#answered === this.#waiting.length) {
      const gatheredMs = this.#gathersSinceMs + gatherMs - nowMs;
      return this.#isRead ? Math.min(gatheredMs, this.#endedMs + readersMs - nowMs) : gatheredMs;
    }
    if (this.#away <= 0) return 0;
    return (this.#waitingRows < fewRows ? this.#untilMs : this.#endedMs + lingerMs) - nowMs;
  }

  /** A timer that is set for later than this is set anew: rows that gather may come to be waited for. */
  #wakeIn(ms: number): void {
    const atMs = performance.now() + ms;
    if (this.#timer && this.#wakesAtMs <= atMs) return;
    clearTimeout(this.#timer);
    this.#wakesAtMs = atMs;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#next();
    }, ms);
  }

  /** All that waits, or as much of it as an insert may hold. What does not fit is passed over. */
  #take(): Waiting[] {
    const { mostBytes, mostRows } = this.#options;
    const all = this.#waiting;
    this.#waiting = [];
    this.#gathersSinceMs = Number.POSITIVE_INFINITY;
    if (this.#waitingBytes <= mostBytes && this.#waitingRows <= mostRows) {
      this.#waitingBytes = 0;
      this.#waitingRows = 0;
      this.#answered = 0;
      this.#isRead = false;
      return all;
    }
    const taken = new Set<Waiting>();
    let bytes = 0;
    let count = 0;
    for (const one of this.#inTurns(all)) {
      const size = one.rows.bytes.byteLength;
      if (taken.size > 0 && (bytes + size > mostBytes || count + one.rows.count > mostRows)) continue;
      taken.add(one);
      bytes += size;
      count += one.rows.count;
    }
    this.#count(taken, -1);
    this.#waiting = all.filter((one) => !taken.has(one));
    // What is left has waited already.
    this.#gathersSinceMs = Number.NEGATIVE_INFINITY;
    this.#remember(taken);
    return [...taken];
  }

  /** Whoever has least of its organisation's ahead of it, then whose organisation's last turn is longest ago, then who came first. */
  #inTurns(all: readonly Waiting[]): readonly Waiting[] {
    const aheadOf = new Map<string, number>();
    const placed = all.map((one) => {
      const ahead = aheadOf.get(one.orgId) ?? 0;
      aheadOf.set(one.orgId, ahead + one.rows.bytes.byteLength);
      return { one, ahead, servedAt: this.#servedAt.get(one.orgId) ?? 0 };
    });
    return placed.toSorted((a, b) => a.ahead - b.ahead || a.servedAt - b.servedAt).map(({ one }) => one);
  }

  #remember(taken: Iterable<Waiting>): void {
    const served = new Map<string, number>();
    for (const { orgId } of this.#waiting) served.set(orgId, this.#servedAt.get(orgId) ?? 0);
    this.#inserts += 1;
    for (const { orgId } of taken) served.set(orgId, this.#inserts);
    this.#servedAt = served;
  }

  #count(some: Iterable<Waiting>, sign: 1 | -1): void {
    for (const { rows, isAnswered } of some) {
      if (isAnswered) this.#answered += sign;
      this.#waitingBytes += sign * rows.bytes.byteLength;
      this.#waitingRows += sign * rows.count;
    }
  }

  /** Never rejects. Rows that the engine refuses are found by halves, and refused alone. */
  async #commit(group: readonly Waiting[]): Promise<void> {
    try {
      await this.#insert(group.map(({ rows }) => rows));
    } catch (error) {
      if (group.length > 1 && error instanceof ApiError && error.code === "unstorable") {
        const half = group.length >> 1;
        await this.#commit(group.slice(0, half));
        await this.#commit(group.slice(half));
      } else {
        for (const { reject } of group) reject(error);
      }
      return;
    }
    for (const { rows, resolve } of group) {
      freeBuffer(rows.bytes);
      resolve();
    }
  }
}
