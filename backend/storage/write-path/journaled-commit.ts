// Acknowledges rows once they are in a journal on disk, and commits many of them later in one insert. Invariants: acknowledged rows are on
// disk, in the journal or in the table; journaled rows reach the table exactly once, even after a failure or a kill; rows that the engine
// permanently refuses become dead letters and do not block others; pending rows are limited in total and per organisation. Above the
// limits, or if the journal cannot be written, the acknowledgement waits for the commit.
import { ApiError } from "../../errors.ts";
import { freeBuffer } from "../../../common/http.ts";
import { Loop } from "../../../common/loop.ts";
import { Outage } from "../../../common/outage.ts";
import type { TablePending } from "../../engines/clickhouse/pending-rows.ts";
import type { JournalEntry, JournaledEntry, RecoveredSegment, RowJournal } from "../../engines/clickhouse/row-journal.ts";
import type { Log } from "../../log.ts";
import { MAX_JOURNALED_BYTES, MAX_PENDING_BYTES, MAX_SHARE_OF_FREE } from "../storage-limits.ts";
import type { GroupCommit } from "./group-commit.ts";

const BACKOFF_MS = [500, 5000] as const;
const REMIND_MS = 300_000;

export interface JournaledCommitOptions {
  readonly table: string;
  /** Identifies the table's columns (`columnsId`). */
  readonly columnsId: number;
  readonly journal: RowJournal;
  readonly commit: GroupCommit;
  readonly log: Log;
  /** Converts an entry that a version with other columns wrote; undefined if it cannot be converted. */
  readonly convert?: (entry: JournalEntry) => JournalEntry | undefined;
  /** Finds the entries that the table already has. */
  readonly findStored: (entries: readonly JournalEntry[]) => Promise<Set<JournalEntry>>;
  /** Called after each acknowledgement and each commit: from then on queries see the rows. */
  readonly onStored: (orgId: string) => void;
  readonly backoffMs?: readonly [firstMs: number, maxMs: number];
  readonly maxPendingBytes?: number;
}

interface PendingEntry {
  readonly entry: JournalEntry;
  readonly journaled: JournaledEntry;
  readonly bytes: number;
}

/** An entry of an earlier process, without rows. */
interface RecoveredDay extends Pick<JournalEntry, "orgId" | "hostId" | "bodyHash" | "day"> {
  /** Set if the journal's entry may not survive a power cut: resolves when the rows are in the table or in a dead letter. */
  readonly settled: Promise<void> | undefined;
}

export class JournaledCommit implements TablePending, AsyncDisposable {
  readonly table: string;
  readonly #options: JournaledCommitOptions;
  readonly #engineOutage: Outage;
  readonly #journalOutage: Outage;
  readonly #loop: Loop;
  readonly #adding = new Set<Promise<void>>();
  #recovering: Promise<unknown> = Promise.resolve();
  #bytes = 0;
  /** Pending bytes of each organisation that has any. */
  readonly #bytesByOrg = new Map<string, number>();
  #deadLetters = 0;
  #dropped = 0;
  /** Entries that the engine did not accept, in the order of the next attempts. */
  #replay: PendingEntry[] = [];
  #replayBatchSize = Number.POSITIVE_INFINITY;

  constructor(options: JournaledCommitOptions) {
    this.#options = options;
    this.table = options.table;
    this.#engineOutage = createEngineOutage(options);
    this.#journalOutage = createJournalOutage(options);
    this.#loop = new Loop({
      step: async () => {
        // A failure can leave an entry in two segments. Committed at the same time, neither would be found in the table.
        await this.#recovering;
        return await this.#replayPending();
      },
      failed: (error) => this.#engineOutage.failed(error),
      backoffMs: options.backoffMs ?? BACKOFF_MS,
    });
  }

  get bytes(): number {
    return this.#bytes;
  }

  get deadLetters(): number {
    return this.#deadLetters;
  }

  get dropped(): number {
    return this.#dropped;
  }

  get failingMs(): number | undefined {
    return this.#engineOutage.lastsMs;
  }

  /** Resolves when the rows would survive a power cut. Throws ApiError storage_unavailable or unstorable. */
  async add(entry: JournalEntry): Promise<void> {
    const adding = this.#add(entry);
    this.#adding.add(adding);
    try {
      await adding;
    } finally {
      this.#adding.delete(adding);
    }
  }

  async flush(orgId?: string): Promise<void> {
    await this.#options.commit.flush(orgId);
  }

  /** Commits the entries of an earlier process; those that the engine does not accept now are retried. Returns all, without rows. */
  async recover(): Promise<RecoveredDay[]> {
    const recovering = this.#recover();
    this.#recovering = recovering.catch(() => undefined);
    return await recovering;
  }

  /** Commits acknowledged rows. Rows that the engine does not accept stay in the journal for the next process. */
  async [Symbol.asyncDispose](): Promise<void> {
    const { commit, log, table } = this.#options;
    await Promise.allSettled(this.#adding);
    await commit[Symbol.asyncDispose]();
    await this.#loop[Symbol.asyncDispose]();
    if (this.#replay.length > 0) await this.#replayPending().catch((error: unknown) => this.#engineOutage.failed(error));
    if (this.#replay.length > 0)
      log.error({ event: "journal.rows_kept", table, bodies: this.#replay.length }, "journal keeps rows that the engine did not accept");
  }

  async #recover(): Promise<RecoveredDay[]> {
    const { journal, log, table, columnsId, convert } = this.#options;
    const recovered: RecoveredDay[] = [];
    for await (const segment of journal.recovered()) {
      reportDamage(this.#options, segment);
      const { entries } = segment;
      const pending = entries.map(({ entry, journaled, isOnDisk }) => {
        const { orgId, hostId, bodyHash, day } = entry;
        const { promise: settled, resolve } = Promise.withResolvers<void>();
        recovered.push({ orgId, hostId, bodyHash, day, settled: isOnDisk ? undefined : settled });
        const settle = (): void => {
          journaled.settle();
          resolve();
        };
        return this.#addPending((entry.columnsId === columnsId ? entry : convert?.(entry)) ?? entry, { settle });
      });
      try {
        const committed = await this.#commitMissing(pending);
        if (entries.length > 0)
          log.info({ event: "journal.replayed", table, bodies: entries.length, committed }, "journaled rows are stored");
      } catch (error) {
        this.#queueReplay(pending, error);
      }
    }
    return recovered;
  }

  async #add(entry: JournalEntry): Promise<void> {
    const { commit, onStored } = this.#options;
    const { orgId, rows } = entry;
    const size = rows.bytes.byteLength;
    if (size <= MAX_JOURNALED_BYTES && this.#isWithinLimits(orgId, size) && (await this.#tryJournal(entry))) return;
    await commit.add(orgId, { rows });
    onStored(orgId);
  }

  /** While the engine is unavailable, no memory is freed, so without a share per organisation the largest sender would take it all. */
  #isWithinLimits(orgId: string, size: number): boolean {
    const { maxPendingBytes = MAX_PENDING_BYTES } = this.#options;
    const free = maxPendingBytes - this.#bytes - size;
    return (this.#bytesByOrg.get(orgId) ?? 0) + size <= MAX_SHARE_OF_FREE * free;
  }

  #addBytes(orgId: string, bytes: number): void {
    const orgBytes = (this.#bytesByOrg.get(orgId) ?? 0) + bytes;
    this.#bytes += bytes;
    if (orgBytes > 0) this.#bytesByOrg.set(orgId, orgBytes);
    else this.#bytesByOrg.delete(orgId);
  }

  /** Returns whether the entry is journaled. Then its commit is already queued, so that a later query can flush it. */
  async #tryJournal(entry: JournalEntry): Promise<boolean> {
    const size = entry.rows.bytes.byteLength;
    this.#addBytes(entry.orgId, size);
    try {
      const journaled = await this.#options.journal.append(entry);
      this.#journalOutage.recovered();
      void this.#commitLater(this.#addPending(entry, journaled));
      this.#options.onStored(entry.orgId);
      return true;
    } catch (error) {
      // The acknowledgement waits for the commit instead, and fails if that fails too.
      this.#journalOutage.failed(error);
      return false;
    } finally {
      this.#addBytes(entry.orgId, -size);
    }
  }

  #addPending(entry: JournalEntry, journaled: JournaledEntry): PendingEntry {
    const bytes = entry.rows.bytes.byteLength;
    this.#addBytes(entry.orgId, bytes);
    return { entry, journaled, bytes };
  }

  /** Never rejects. */
  async #commitLater(pending: PendingEntry): Promise<void> {
    const { commit, onStored } = this.#options;
    const { orgId, rows } = pending.entry;
    try {
      await commit.add(orgId, { rows }, true);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== "unstorable") return this.#queueReplay([pending], error);
      return this.#keepDeadLetter(pending, error);
    }
    this.#settle(pending);
    onStored(orgId);
  }

  #settle({ entry, journaled, bytes }: PendingEntry): void {
    this.#addBytes(entry.orgId, -bytes);
    journaled.settle();
    freeBuffer(entry.rows.bytes);
  }

  /** Our encoder produces no rows that the engine refuses. If it ever does, a file gets them, so that they block no others. */
  async #keepDeadLetter(pending: PendingEntry, cause: Error): Promise<void> {
    const { journal, log, table } = this.#options;
    const { orgId, rows } = pending.entry;
    const fields = { table, orgId, rows: rows.count, err: cause };
    try {
      const file = await journal.keepDeadLetter(pending.entry);
      if (file === undefined) {
        log.error({ event: "journal.rows_dropped", ...fields }, "engine refuses acknowledged rows; dead letters are full, dropping them");
        this.#dropped += rows.count;
      } else {
        log.error({ event: "journal.dead_letter", ...fields, file }, "engine refuses acknowledged rows; kept as a dead letter");
      }
    } catch (error) {
      return this.#queueReplay([pending], error);
    }
    this.#deadLetters += 1;
    this.#settle(pending);
  }

  #queueReplay(pending: readonly PendingEntry[], error: unknown): void {
    for (const entry of pending) this.#replay.push(entry);
    if (this.#engineOutage.sinceMs !== undefined) return;
    this.#engineOutage.failed(error);
    this.#loop.wake();
  }

  /**
   * Halves the batch after each failure and doubles it after each success: rows do not wait behind others that always fail, and the backlog
   * of an outage may be more than the engine accepts at once.
   */
  async #replayPending(): Promise<undefined> {
    while (this.#replay.length > 0) {
      const batch = this.#replay.splice(0, this.#replayBatchSize);
      try {
        await this.#commitMissing(batch);
      } catch (error) {
        this.#replay = batch.concat(this.#replay);
        throw error;
      }
      const failed = new Set(this.#replay);
      const isAccepted = !batch.some((pending) => failed.has(pending));
      this.#replayBatchSize = Math.max(1, isAccepted ? batch.length * 2 : Math.floor(batch.length / 2));
      if (!isAccepted) throw this.#engineOutage.cause;
    }
    this.#replayBatchSize = Number.POSITIVE_INFINITY;
    this.#engineOutage.recovered();
  }

  /**
   * Commits the entries that the table does not have, and stores those with unknown columns as dead letters. Returns how many were
   * committed. Throws if the table cannot be read; then no entry has changed.
   */
  async #commitMissing(pending: readonly PendingEntry[]): Promise<number> {
    if (pending.length === 0) return 0;
    const { findStored, commit, onStored, columnsId } = this.#options;
    const readable = pending.filter(({ entry }) => entry.columnsId === columnsId);
    const stored = await findStored(readable.map(({ entry }) => entry));
    for (const unreadable of pending)
      if (unreadable.entry.columnsId !== columnsId)
        await this.#keepDeadLetter(unreadable, new Error("another version wrote the rows, with unknown columns"));
    const missing = readable.filter(({ entry }) => !stored.has(entry));
    const committing = missing.map((entry) => this.#commitLater(entry));
    await commit.flush();
    await Promise.all(committing);
    const found = readable.filter(({ entry }) => stored.has(entry));
    const failed = new Set(this.#replay);
    // The second entry of a body counts as stored, but only the second may be on disk: it stays until the first is in the table.
    if (missing.some((entry) => failed.has(entry))) this.#replay = this.#replay.concat(found);
    else
      for (const pendingEntry of found) {
        this.#settle(pendingEntry);
        onStored(pendingEntry.entry.orgId);
      }
    return missing.length;
  }
}

function reportDamage(
  { log, table }: JournaledCommitOptions,
  { path, tornBytes, damagedBytes, quarantined, readError }: RecoveredSegment,
): void {
  if (readError !== undefined)
    log.error({ event: "journal.unreadable", table, path, err: readError }, "journal file cannot be read; the next start tries again");
  if (damagedBytes > 0)
    log.error(
      { event: "journal.damaged", table, path, damagedBytes, quarantined },
      `journal file is damaged: acknowledged rows may be lost; ${quarantined ? "a copy is quarantined" : "no copy could be quarantined"}; check the disk`,
    );
  if (tornBytes > 0)
    log.warn({ event: "journal.torn_tail", table, path, tornBytes }, "journal has a torn tail (unacknowledged write), ignoring it");
}

function createEngineOutage({ log, table }: JournaledCommitOptions): Outage {
  return new Outage({
    began: (err) =>
      log.error({ event: "journal.engine_unavailable", err, table }, "engine does not accept rows; they stay in the journal, retrying"),
    reminded: (err, facts) =>
      log.error({ event: "journal.engine_still_unavailable", err, table, ...facts }, "engine still does not accept rows; retrying"),
    ended: ({ failures, seconds }) =>
      log.info({ event: "journal.engine_recovered", table, failures, seconds }, "recovered: engine accepts rows again"),
    remindEveryMs: REMIND_MS,
  });
}

function createJournalOutage({ log, table }: JournaledCommitOptions): Outage {
  return new Outage({
    began: (err) => log.error({ event: "journal.write_failed", err, table }, "journal cannot be written; acknowledging after each commit"),
    reminded: (err, facts) => log.error({ event: "journal.write_still_failing", err, table, ...facts }, "journal still cannot be written"),
    ended: ({ failures, seconds }) =>
      log.info({ event: "journal.write_recovered", table, failures, seconds }, "recovered: journal can be written again"),
    remindEveryMs: REMIND_MS,
  });
}
