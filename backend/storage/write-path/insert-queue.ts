// Batches rows of many senders into one insert at a time; rows that arrive during an insert belong to the next one. A flush that a client
// waits for also commits all other queued rows. Invariants: `add` resolves after the commit; a row that the engine refuses fails only its
// own sender. If one insert cannot hold all queued rows, an entry goes first if fewer bytes of its own organisation are ahead of it. The
// memory of stored rows is freed.
import { ApiError } from "../../errors.ts";
import { freeBuffer } from "../../../common/http.ts";
import type { NativeRows } from "../../engines/clickhouse/native-block.ts";

export interface InsertQueueOptions {
  /** Maximum size of an insert, unless a single sender's rows are larger. */
  readonly maxBytes: number;
  readonly maxRows: number;
  /** Once this many bytes are queued, the insert starts without a batching window. */
  readonly fullBytes: number;
  /** After an insert, the next one waits this long for the senders that just got their response, or until all of them have sent again. */
  readonly batchWindowMs: number;
  /** With fewer rows, each new sender extends the window by `extendByMs`, up to `maxBatchWindowMs`. */
  readonly smallBatchRows: number;
  readonly extendByMs: number;
  readonly maxBatchWindowMs: number;
  /** With fewer than `smallBatchRows`, minimum time from the start of one insert to the next. */
  readonly insertIntervalMs: number;
  /** No client waits for acknowledged rows, so they accumulate for this long, or until `acknowledgedFullBytes` are queued. */
  readonly acknowledgedWindowMs: number;
  readonly acknowledgedFullBytes: number;
  /** Minimum interval between inserts that queries request. */
  readonly flushIntervalMs: number;
}

/** The rows of a body and day. */
export interface QueuedBody {
  readonly rows: NativeRows;
  /** If set, the rows are stored only if no other insert has claimed this body. */
  readonly claim?: string | undefined;
}

/** Resolves with whether each body is stored; false: another insert has claimed it. */
export type InsertBodies = (bodies: readonly QueuedBody[]) => Promise<readonly boolean[]>;

interface QueuedRows extends QueuedBody {
  readonly orgId: string;
  /** The sender already has its response, because the rows are in the journal. */
  readonly isAcknowledged: boolean;
  readonly done: Promise<boolean>;
  readonly resolve: (isStored: boolean) => void;
  readonly reject: (error: unknown) => void;
}

export class InsertQueue implements AsyncDisposable {
  readonly #options: InsertQueueOptions;
  readonly #insert: InsertBodies;
  /** In order of arrival. */
  #queued: QueuedRows[] = [];
  #queuedBytes = 0;
  #queuedRows = 0;
  /** How many entries of `#queued` are acknowledged, and since when they wait. */
  #acknowledged = 0;
  #acknowledgedSinceMs = Number.POSITIVE_INFINITY;
  #isFlushRequested = false;
  #running: Promise<void> | undefined;
  #inserting: readonly QueuedRows[] = [];
  /** The number of the insert that last served an organisation; only for organisations that are queued or in the last insert. */
  #servedAt = new Map<string, number>();
  #inserts = 0;
  #startedMs = Number.NEGATIVE_INFINITY;
  #endedMs = Number.NEGATIVE_INFINITY;
  /** End of the batching window of a small batch. */
  #windowEndMs = Number.NEGATIVE_INFINITY;
  /** Senders of the last insert that have not sent again yet. */
  #expectedSenders = 0;
  #timer: NodeJS.Timeout | undefined;
  #wakesAtMs = 0;
  #closing = false;

  constructor(options: InsertQueueOptions, insert: InsertBodies) {
    this.#options = options;
    this.#insert = insert;
  }

  /** Resolves with true when the rows are committed, or with false if another insert has claimed them. Rejects with the error of the insert. */
  add(orgId: string, { rows, claim }: QueuedBody, isAcknowledged = false): Promise<boolean> {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const entry = { orgId, rows, claim, isAcknowledged, done: promise, resolve, reject };
    this.#queued.push(entry);
    this.#addToTotals([entry], 1);
    if (isAcknowledged) {
      this.#acknowledgedSinceMs = Math.min(this.#acknowledgedSinceMs, performance.now());
    } else {
      this.#expectedSenders -= 1;
      this.#extendWindow();
    }
    this.#startNext();
    return promise;
  }

  /** Resolves when the acknowledged rows of an organisation (of all, if unset) are committed or have failed. Never rejects. */
  async flush(orgId?: string): Promise<void> {
    const isSelected = (entry: QueuedRows): boolean => entry.isAcknowledged && (orgId === undefined || entry.orgId === orgId);
    const queued = this.#queued.filter(isSelected);
    const selected = [...this.#inserting.filter(isSelected), ...queued];
    if (queued.length > 0) {
      this.#isFlushRequested = true;
      this.#startNext();
    }
    if (selected.length > 0) await Promise.allSettled(selected.map(({ done }) => done));
  }

  /** Commits queued rows. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing = true;
    for (this.#startNext(); this.#running; this.#startNext()) await this.#running;
  }

  #startNext(): void {
    if (this.#running || this.#queued.length === 0) return;
    const waitMs = this.#waitMs();
    if (waitMs > 0) return this.#wakeIn(waitMs);
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const batch = this.#takeBatch();
    this.#startedMs = performance.now();
    this.#inserting = batch;
    this.#running = this.#commit(batch).finally(() => {
      this.#running = undefined;
      this.#inserting = [];
      this.#endedMs = performance.now();
      this.#windowEndMs = this.#endedMs + this.#options.batchWindowMs;
      this.#expectedSenders = batch.filter(({ isAcknowledged }) => !isAcknowledged).length;
      this.#startNext();
    });
  }

  #extendWindow(): void {
    const { extendByMs, maxBatchWindowMs } = this.#options;
    const nowMs = performance.now();
    if (nowMs >= this.#windowEndMs) return;
    this.#windowEndMs = Math.max(this.#windowEndMs, Math.min(nowMs + extendByMs, this.#endedMs + maxBatchWindowMs));
  }

  /** An insert costs as much as 2,000 rows of it, so waiting pays while few rows are queued. */
  #waitMs(): number {
    const { fullBytes, batchWindowMs, smallBatchRows, insertIntervalMs, acknowledgedWindowMs, acknowledgedFullBytes, flushIntervalMs } =
      this.#options;
    const isAcknowledged = this.#acknowledged === this.#queued.length;
    if (this.#closing || this.#queuedBytes >= (isAcknowledged ? acknowledgedFullBytes : fullBytes)) return 0;
    const nowMs = performance.now();
    if (isAcknowledged) {
      const leftMs = this.#acknowledgedSinceMs + acknowledgedWindowMs - nowMs;
      return this.#isFlushRequested ? Math.min(leftMs, this.#endedMs + flushIntervalMs - nowMs) : leftMs;
    }
    const isSmall = this.#queuedRows < smallBatchRows;
    const intervalLeftMs = isSmall ? this.#startedMs + insertIntervalMs - nowMs : 0;
    if (this.#expectedSenders <= 0) return intervalLeftMs;
    return Math.max(intervalLeftMs, (isSmall ? this.#windowEndMs : this.#endedMs + batchWindowMs) - nowMs);
  }

  /** Replaces a timer that fires later, because a client may have begun to wait for accumulating rows. */
  #wakeIn(ms: number): void {
    const atMs = performance.now() + ms;
    if (this.#timer && this.#wakesAtMs <= atMs) return;
    clearTimeout(this.#timer);
    this.#wakesAtMs = atMs;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#startNext();
    }, ms);
  }

  /** Removes all rows from the queue, or as many as one insert may hold. An entry that does not fit is skipped. */
  #takeBatch(): QueuedRows[] {
    const { maxBytes, maxRows } = this.#options;
    const all = this.#queued;
    this.#queued = [];
    this.#acknowledgedSinceMs = Number.POSITIVE_INFINITY;
    if (this.#queuedBytes <= maxBytes && this.#queuedRows <= maxRows) {
      this.#addToTotals(all, -1);
      this.#isFlushRequested = false;
      return all;
    }
    const batch = new Set<QueuedRows>();
    let bytes = 0;
    let count = 0;
    for (const entry of this.#inFairOrder(all)) {
      const size = entry.rows.bytes.byteLength;
      if (batch.size > 0 && (bytes + size > maxBytes || count + entry.rows.count > maxRows)) continue;
      batch.add(entry);
      bytes += size;
      count += entry.rows.count;
    }
    this.#addToTotals(batch, -1);
    this.#queued = all.filter((entry) => !batch.has(entry));
    // The remaining rows have waited for a whole window already.
    this.#acknowledgedSinceMs = Number.NEGATIVE_INFINITY;
    this.#recordServed(batch);
    return [...batch];
  }

  /** Orders by bytes of the same organisation ahead of the entry, then by how long ago the organisation was served, then by arrival. */
  #inFairOrder(all: readonly QueuedRows[]): readonly QueuedRows[] {
    const bytesByOrg = new Map<string, number>();
    const ranked = all.map((entry) => {
      const bytesAhead = bytesByOrg.get(entry.orgId) ?? 0;
      bytesByOrg.set(entry.orgId, bytesAhead + entry.rows.bytes.byteLength);
      return { entry, bytesAhead, servedAt: this.#servedAt.get(entry.orgId) ?? 0 };
    });
    return ranked.toSorted((a, b) => a.bytesAhead - b.bytesAhead || a.servedAt - b.servedAt).map(({ entry }) => entry);
  }

  #recordServed(batch: Iterable<QueuedRows>): void {
    const served = new Map<string, number>();
    for (const { orgId } of this.#queued) served.set(orgId, this.#servedAt.get(orgId) ?? 0);
    this.#inserts += 1;
    for (const { orgId } of batch) served.set(orgId, this.#inserts);
    this.#servedAt = served;
  }

  #addToTotals(entries: Iterable<QueuedRows>, sign: 1 | -1): void {
    for (const { rows, isAcknowledged } of entries) {
      if (isAcknowledged) this.#acknowledged += sign;
      this.#queuedBytes += sign * rows.bytes.byteLength;
      this.#queuedRows += sign * rows.count;
    }
  }

  /** Never rejects. If the engine refuses a batch, it is halved until the refused entries are found. */
  async #commit(batch: readonly QueuedRows[]): Promise<void> {
    let areStored: readonly boolean[];
    try {
      areStored = await this.#insert(batch);
    } catch (error) {
      if (batch.length > 1 && error instanceof ApiError && error.code === "unstorable") {
        const half = batch.length >> 1;
        await this.#commit(batch.slice(0, half));
        await this.#commit(batch.slice(half));
      } else {
        for (const { reject } of batch) reject(error);
      }
      return;
    }
    for (const [index, { rows, resolve }] of batch.entries()) {
      const isStored = areStored[index] ?? false;
      if (isStored) freeBuffer(rows.bytes);
      resolve(isStored);
    }
  }
}
