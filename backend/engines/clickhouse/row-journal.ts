// Journals the rows of a table: rows are acknowledged once they are on disk here, and inserted into the table later, many at once.
// Invariant: rows that are read back may already be in the table, so the reader has to look them up in the table first.
import type { Deletions } from "../append-log/dead-letters.ts";
import { setTimeout as sleep } from "node:timers/promises";
import { crc32 } from "node:zlib";
import { AppendLog, type LogCalls, type Segment, type SegmentContent } from "../append-log/append-log.ts";
import type { LogRecord } from "../append-log/record.ts";
import type { NativeColumns, NativeRows } from "./native-block.ts";

const SEGMENT_BYTES = 16 * 1024 * 1024;
/** How often a start tries to write a record again. */
const WRITE_AGAIN_TRIES = 4;
/** The log accepts nothing for a second after a failure. */
const WRITE_AGAIN_MS = 1100;

/** The rows of one request body that belong to one day, in ClickHouse's insert format, and the fields that identify them in the table. */
export interface JournalEntry {
  readonly orgId: string;
  readonly hostId: string;
  /** Decimal digits; undefined if the request body is not deduplicated. */
  readonly bodyHash: string | undefined;
  /** Days since 1970-01-01. */
  readonly day: number;
  /** Identifies the columns of the rows (`columnsIdOf`), because another version may have other columns. */
  readonly columnsId: number;
  readonly rows: NativeRows;
}

/** A handle of an entry that is on disk. */
export interface JournaledEntry {
  /** Call once, when the rows are in the table or in a dead letter. */
  settle(): void;
}

/** An entry of an earlier process, with its handle. */
export interface RecoveredEntry {
  readonly entry: JournalEntry;
  readonly journaled: JournaledEntry;
  /** False if it may be only in the page cache, so that a power cut could lose it. */
  readonly isOnDisk: boolean;
}

/** The content of a segment of an earlier process. */
export interface RecoveredSegment extends Pick<SegmentContent, "tornBytes" | "damagedBytes" | "quarantined"> {
  readonly path: string;
  readonly entries: readonly RecoveredEntry[];
  /** Why the file could not be read; it remains for the next start. */
  readonly readError?: unknown;
}

export class RowJournal implements AsyncDisposable {
  readonly #log: AppendLog;
  /** Segments of earlier processes that were not read yet. */
  #earlierSegments: readonly Segment[];
  /** Records could not be written again in all tries; those of later segments are tried once, so that a full disk does not delay the start. */
  #isUnwritable = false;

  constructor(folder: string, calls?: Partial<LogCalls>) {
    this.#log = new AppendLog(folder, { segmentBytes: SEGMENT_BYTES, calls });
    this.#earlierSegments = this.#log.segments;
  }

  get folder(): string {
    return this.#log.folder;
  }

  /** Resolves when the entry is on disk; its rows must not change until then. Rejects with the file system's error. */
  async append(entry: JournalEntry): Promise<JournaledEntry> {
    return this.#journaled(await this.#log.append(headerOf(entry), entry.rows.bytes));
  }

  /** The segments of earlier processes, oldest first, each once. */
  async *recovered(): AsyncGenerator<RecoveredSegment> {
    for (let [segment] = this.#earlierSegments; segment !== undefined; [segment] = this.#earlierSegments) {
      this.#earlierSegments = this.#earlierSegments.slice(1);
      const { path } = segment;
      let content: SegmentContent;
      try {
        content = await this.#log.read(segment);
      } catch (readError) {
        yield { path, entries: [], tornBytes: 0, damagedBytes: 0, quarantined: undefined, readError };
        continue;
      }
      const { records, ...state } = content;
      yield { path, ...state, entries: await Promise.all(records.map((record) => this.#appendAgain(entryOf(record), segment))) };
      if (records.length === 0) this.#log.remove(segment);
    }
  }

  /** Stores an entry that the engine permanently refuses. See `AppendLog#keepDeadLetter`. */
  async keepDeadLetter(entry: JournalEntry): Promise<string | undefined> {
    return await this.#log.keepDeadLetter(headerOf(entry), entry.rows.bytes);
  }

  /**
   * Deletes the dead letters of deleted organisations. Also starts a new segment, so that the settled entries of all organisations in the current
   * one can be deleted. Returns the number of deleted dead letters.
   */
  async eraseDeadLetters(deletions: Deletions): Promise<number> {
    return await this.#log.eraseDeadLetters((header) => (header as Header).orgId, deletions);
  }

  /** Finishes pending writes. Entries that are not settled remain for the next process. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#log[Symbol.asyncDispose]();
  }

  /**
   * A record that was read may be only in the page cache: the process was killed before its fsync, or the fsync failed, which the kernel reports
   * once. If it cannot be written again, because the disk is full or read-only, it stays as it is.
   */
  async #appendAgain(entry: JournalEntry, segment: Segment): Promise<RecoveredEntry> {
    const earlier = this.#journaled(segment);
    for (let tries = 1; ; tries += 1) {
      try {
        const journaled = await this.append(entry);
        earlier.settle();
        return { entry, journaled, isOnDisk: true };
      } catch {
        this.#isUnwritable ||= tries === WRITE_AGAIN_TRIES;
        if (this.#isUnwritable) return { entry, journaled: earlier, isOnDisk: false };
        await sleep(WRITE_AGAIN_MS);
      }
    }
  }

  #journaled(segment: Segment): JournaledEntry {
    return { settle: () => this.#log.release(segment) };
  }
}

export function columnsIdOf(columns: NativeColumns): number {
  return crc32(JSON.stringify(columns));
}

type Header = Omit<JournalEntry, "rows"> & Omit<NativeRows, "bytes">;

function headerOf({ orgId, hostId, bodyHash, day, columnsId, rows: { count, streamLengths } }: JournalEntry): Header {
  return { orgId, hostId, bodyHash, day, columnsId, count, streamLengths };
}

export function entryOf({ header, body }: LogRecord): JournalEntry {
  const { orgId, hostId, bodyHash, day, columnsId, count, streamLengths } = header as Header;
  return { orgId, hostId, bodyHash, day, columnsId, rows: { count, streamLengths, bytes: body } };
}

/** ID and time of an entry's first row. Requires that each column before `id` and `received_at` has one stream (native-columns.ts). */
export function firstRow(columns: NativeColumns, { bytes, streamLengths }: NativeRows): { id: bigint; receivedS: number } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const startOf = (columnName: string): number => {
    const index = columns.findIndex(([name]) => name === columnName);
    return streamLengths.slice(0, index).reduce((sum, length) => sum + length, 0);
  };
  return { id: view.getBigUint64(startOf("id"), true), receivedS: view.getUint32(startOf("received_at"), true) };
}
