// Rows that are answered from a journal and committed later, many in one insert. Invariants: who is answered has its rows on the disk, in
// the journal or in the table; what the journal holds reaches the table once, however often the engine fails and the process dies; rows that
// the engine refuses for ever are set aside in a file, and hold up nobody; what is pending is bounded, and no organisation takes all of it:
// above that, and where the journal cannot be written, the answer waits for the commit.
import { ApiError } from "../../errors.ts";
import { freeBuffer } from "../../../common/free-buffer.ts";
import { Loop } from "../../../common/loop.ts";
import { Outage } from "../../../common/outage.ts";
import type { Log } from "../../operations/log.ts";
import type { GroupCommit } from "./group-commit.ts";
import type { TablePending } from "./pending-rows.ts";
import type { JournalEntry, Kept, RecoveredSegment, RowJournal } from "./row-journal.ts";

const MIB = 1024 * 1024;
/** A larger one is worth an insert, and would be written twice. */
const JOURNALED_BYTES = MIB;
/** Three inserts: one that runs, one that waits, and room. */
const MOST_PENDING_BYTES = 24 * MIB;
/** An organisation may have so many times what it leaves free: alone three quarters of all, and there is always room for another. */
const TIMES_OF_FREE = 3;
const BACKOFF_MS = [500, 5000] as const;
const REMIND_MS = 300_000;

export interface JournaledCommitOptions {
  readonly table: string;
  /** Of its columns. */
  readonly form: number;
  readonly journal: RowJournal;
  readonly commit: GroupCommit;
  readonly log: Log;
  /** What a version with other columns wrote, with those of this one; undefined: nobody knows what it wrote. */
  readonly asOurs?: (entry: JournalEntry) => JournalEntry | undefined;
  /** Which of these, of our own columns, the table has already. */
  readonly stored: (entries: readonly JournalEntry[]) => Promise<Set<JournalEntry>>;
  /** Told of each commit. */
  readonly committed: (orgId: string) => void;
  readonly backoffMs?: readonly [firstMs: number, mostMs: number];
  readonly mostPendingBytes?: number;
}

interface Pending {
  readonly entry: JournalEntry;
  readonly kept: Kept;
  readonly bytes: number;
}

export class JournaledCommit implements TablePending, AsyncDisposable {
  readonly table: string;
  readonly #options: JournaledCommitOptions;
  readonly #outage: Outage;
  readonly #journalOutage: Outage;
  readonly #loop: Loop;
  readonly #adding = new Set<Promise<void>>();
  #bytes = 0;
  /** Those of each organisation that has any. */
  readonly #bytesOf = new Map<string, number>();
  #setAside = 0;
  #dropped = 0;
  /** What the engine did not take. Those that it fails with once more go behind the others. */
  #owed: Pending[] = [];
  #mostAtOnce = Number.POSITIVE_INFINITY;

  constructor(options: JournaledCommitOptions) {
    this.#options = options;
    this.table = options.table;
    this.#outage = engineOutage(options);
    this.#journalOutage = journalOutage(options);
    this.#loop = new Loop({
      step: () => this.#giveAgain(),
      failed: (error) => this.#outage.failed(error),
      backoffMs: options.backoffMs ?? BACKOFF_MS,
    });
  }

  get bytes(): number {
    return this.#bytes;
  }

  get setAside(): number {
    return this.#setAside;
  }

  get dropped(): number {
    return this.#dropped;
  }

  get failingMs(): number | undefined {
    return this.#outage.lastsMs;
  }

  /** Resolves when the rows outlive the machine's power. Throws ApiError storage_unavailable or unstorable. */
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

  /** Has what an earlier process left stored, as far as the engine takes it now; the rest is tried again. Answers all of it, without rows. */
  async recover(): Promise<Omit<JournalEntry, "form" | "rows">[]> {
    const { journal, log, table, form, asOurs } = this.#options;
    const recovered: Omit<JournalEntry, "form" | "rows">[] = [];
    for await (const segment of journal.recovered()) {
      reportDamage(this.#options, segment);
      const { entries } = segment;
      const pending = entries.map(({ entry, kept }) => this.#pending((entry.form === form ? entry : asOurs?.(entry)) ?? entry, kept));
      for (const { entry } of entries)
        recovered.push({ orgId: entry.orgId, hostId: entry.hostId, bodyHash: entry.bodyHash, day: entry.day });
      try {
        const given = await this.#give(pending);
        if (entries.length > 0) log.info({ table, bodies: entries.length, given }, "recovered: rows of the journal are stored");
      } catch (error) {
        this.#owe(pending, error);
      }
    }
    return recovered;
  }

  /** Commits what was answered. What the engine does not take stays in the journal for the next process. */
  async [Symbol.asyncDispose](): Promise<void> {
    const { commit, log, table } = this.#options;
    await Promise.allSettled(this.#adding);
    await commit[Symbol.asyncDispose]();
    await this.#loop[Symbol.asyncDispose]();
    if (this.#owed.length > 0) await this.#giveAgain().catch((error: unknown) => this.#outage.failed(error));
    if (this.#owed.length > 0) log.error({ table, bodies: this.#owed.length }, "the journal keeps rows that the engine did not take");
  }

  async #add(entry: JournalEntry): Promise<void> {
    const { commit, committed } = this.#options;
    const { orgId, rows } = entry;
    const size = rows.bytes.byteLength;
    if (size <= JOURNALED_BYTES && this.#hasRoom(orgId, size) && (await this.#isKept(entry))) return;
    await commit.add(orgId, rows);
    committed(orgId);
  }

  /** While the engine is away nothing leaves: whoever sends most would take what all others need. */
  #hasRoom(orgId: string, size: number): boolean {
    const { mostPendingBytes = MOST_PENDING_BYTES } = this.#options;
    const free = mostPendingBytes - this.#bytes - size;
    return (this.#bytesOf.get(orgId) ?? 0) + size <= TIMES_OF_FREE * free;
  }

  #count(orgId: string, bytes: number): void {
    const theirs = (this.#bytesOf.get(orgId) ?? 0) + bytes;
    this.#bytes += bytes;
    if (theirs > 0) this.#bytesOf.set(orgId, theirs);
    else this.#bytesOf.delete(orgId);
  }

  /** The commit, which follows, is asked for before this resolves: who reads from then on has it done first. */
  async #isKept(entry: JournalEntry): Promise<boolean> {
    const size = entry.rows.bytes.byteLength;
    this.#count(entry.orgId, size);
    try {
      const kept = await this.#options.journal.append(entry);
      this.#journalOutage.recovered();
      void this.#commitLater(this.#pending(entry, kept));
      return true;
    } catch (error) {
      // Safe: it is answered after its commit, and fails where that fails too.
      this.#journalOutage.failed(error);
      return false;
    } finally {
      this.#count(entry.orgId, -size);
    }
  }

  #pending(entry: JournalEntry, kept: Kept): Pending {
    const bytes = entry.rows.bytes.byteLength;
    this.#count(entry.orgId, bytes);
    return { entry, kept, bytes };
  }

  /** Never rejects. */
  async #commitLater(one: Pending): Promise<void> {
    const { commit, committed } = this.#options;
    const { orgId, rows } = one.entry;
    try {
      await commit.add(orgId, rows, true);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== "unstorable") return this.#owe([one], error);
      return this.#refused(one, error);
    }
    this.#settle(one);
    committed(orgId);
  }

  #settle({ entry, kept, bytes }: Pending): void {
    this.#count(entry.orgId, -bytes);
    kept.settle();
    freeBuffer(entry.rows.bytes);
  }

  /** Our own encoder makes no rows that the engine refuses; should it, they are not lost, and no others wait for them. */
  async #refused(one: Pending, cause: Error): Promise<void> {
    const { journal, log, table } = this.#options;
    const { orgId, rows } = one.entry;
    try {
      const file = await journal.keepDeadLetter(one.entry);
      const what =
        file === undefined ? "there is no room for more that is set aside, so they are dropped" : "they are set aside in this file";
      log.error({ table, orgId, rows: rows.count, file, err: cause }, `rows that were answered cannot be stored; ${what}`);
      if (file === undefined) this.#dropped += rows.count;
    } catch (error) {
      return this.#owe([one], error);
    }
    this.#setAside += 1;
    this.#settle(one);
  }

  #owe(pending: readonly Pending[], error: unknown): void {
    for (const one of pending) this.#owed.push(one);
    if (this.#outage.sinceMs !== undefined) return;
    this.#outage.failed(error);
    this.#loop.wake();
  }

  /**
   * Half as many after each failure, twice as many after each success: nobody's rows wait behind some that the engine fails with each time,
   * and what was gathered may be more than it takes at once.
   */
  async #giveAgain(): Promise<undefined> {
    while (this.#owed.length > 0) {
      const some = this.#owed.splice(0, this.#mostAtOnce);
      try {
        await this.#give(some);
      } catch (error) {
        this.#owed = some.concat(this.#owed);
        throw error;
      }
      const owed = new Set(this.#owed);
      const isTaken = !some.some((one) => owed.has(one));
      this.#mostAtOnce = Math.max(1, isTaken ? some.length * 2 : Math.floor(some.length / 2));
      if (!isTaken) throw this.#outage.cause;
    }
    this.#mostAtOnce = Number.POSITIVE_INFINITY;
    this.#outage.recovered();
  }

  /**
   * Commits those that the table does not have, now, and sets aside those that have other columns. Answers how many were committed. Throws
   * when the table cannot be asked, with all of them as they were.
   */
  async #give(pending: readonly Pending[]): Promise<number> {
    if (pending.length === 0) return 0;
    const { stored, commit, committed, form } = this.#options;
    const ours = pending.filter(({ entry }) => entry.form === form);
    const has = await stored(ours.map(({ entry }) => entry));
    for (const one of pending)
      if (one.entry.form !== form) await this.#refused(one, new Error("another version wrote them, with columns that nobody knows"));
    const missing = ours.filter(({ entry }) => !has.has(entry));
    for (const one of ours) {
      if (!has.has(one.entry)) continue;
      this.#settle(one);
      committed(one.entry.orgId);
    }
    const committing = missing.map((one) => this.#commitLater(one));
    await commit.flush();
    await Promise.all(committing);
    return missing.length;
  }
}

function reportDamage(
  { log, table }: JournaledCommitOptions,
  { path, tornBytes, damagedBytes, quarantined, unread }: RecoveredSegment,
): void {
  if (unread !== undefined)
    log.error({ event: "journal.unreadable", table, path, err: unread }, "journal file cannot be read; the next start tries again");
  if (damagedBytes > 0)
    log.error(
      { event: "journal.damaged", table, path, damagedBytes, quarantined },
      `journal file is damaged: acknowledged rows may be lost; ${quarantined ? "a copy is quarantined" : "no copy could be quarantined"}; check the disk`,
    );
  if (tornBytes > 0)
    log.warn({ event: "journal.torn_tail", table, path, tornBytes }, "journal has a torn tail (unacknowledged write), ignoring it");
}

function engineOutage({ log, table }: JournaledCommitOptions): Outage {
  const kept = "rows that were answered stay in the journal";
  return new Outage({
    began: (err) => log.error({ err, table }, `the log and trace store does not take rows; ${kept}; retrying`),
    reminded: (err, facts) => log.error({ err, table, ...facts }, `the log and trace store still does not take rows; ${kept}; retrying`),
    ended: ({ failures, seconds }) => log.info({ table, failures, seconds }, "recovered: the log and trace store takes rows again"),
    remindEveryMs: REMIND_MS,
  });
}

function journalOutage({ log, table }: JournaledCommitOptions): Outage {
  const waits = "answers wait for the commit";
  return new Outage({
    began: (err) => log.error({ err, table }, `the journal of rows cannot be written; ${waits}`),
    reminded: (err, facts) => log.error({ err, table, ...facts }, `the journal of rows still cannot be written; ${waits}`),
    ended: ({ failures, seconds }) => log.info({ table, failures, seconds }, "recovered: the journal of rows is written again"),
    remindEveryMs: REMIND_MS,
  });
}
