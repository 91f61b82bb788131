// An append-only log on disk: numbered segment files of checksummed records (README.md). One fsync serves every record that waits for one.
// Invariants: a record whose `append` has resolved survives a power failure until it is released; a segment is removed only when it is
// closed and all its records are released, or by `remove`; after a failed write nothing is appended to its segment, because reading ends
// there and the kernel reports a lost page only once.
import { randomBytes } from "node:crypto";
import { closeSync, fdatasync, openSync, readdirSync, readFileSync, statSync, writeFileSync, writev } from "node:fs";
import { link, readdir, readFile, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { folderSynced, syncFolder, makeFolder } from "../../../common/files.ts";
import { Batcher } from "../batcher.ts";
import { coalescePieces, sizeOf } from "../pieces.ts";
import { DeadLetters, type Deletions, type Erasure } from "./dead-letters.ts";
import { decodeRecords, encodeRecord, type LogRecord, MARKER_BYTES } from "./record.ts";

const MIB = 1024 * 1024;
const SEGMENT_NAME = /^\d{10}\.journal$/;
const MARKER_FILE = "marker";
const DEAD_LETTERS_FOLDER = "dead-letters";
/** Limit of one write; further records wait for the next one. */
const WRITE_BYTES = 8 * MIB;
/** Pause after a failure: on a full disk, each attempt would create a file. */
const PAUSE_AFTER_FAILURE_MS = 1000;
const SEGMENT_MS = 5000;

/** `node:fs` as promises, and a monotonic clock; tests replace them. */
export interface LogCalls {
  readonly write: (fd: number, pieces: readonly Uint8Array[], position: number) => Promise<{ bytesWritten: number }>;
  readonly sync: (fd: number) => Promise<void>;
  readonly nowMs: () => number;
}

const CALLS: LogCalls = { write: promisify(writev), sync: promisify(fdatasync), nowMs: () => performance.now() };

export interface AppendLogOptions {
  /** A segment of at least this size, or older than 5 s, is closed. */
  readonly segmentBytes: number;
  /** Limit of all segments together. Default: no limit. */
  readonly maxBytes?: number;
  /** False: records survive processes, not power failures. Default true. */
  readonly isSynced?: boolean;
  readonly calls?: Partial<LogCalls> | undefined;
}

export interface Segment {
  readonly path: string;
  readonly bytes: number;
  /** The time by the log's clock; undefined while records are still appended. */
  readonly closedAtMs: number | undefined;
}

interface SegmentState extends Segment {
  /** Undefined if the file was opened by an earlier process, or is closed. */
  fd: number | undefined;
  bytes: number;
  closedAtMs: number | undefined;
  readonly openedAtMs: number;
  unreleased: number;
  isWriting: boolean;
  /** Whether the file's name is on disk. */
  isNamed: boolean;
}

export interface SegmentContent {
  readonly records: readonly LogRecord[];
  readonly tornBytes: number;
  readonly damagedBytes: number;
  /** The dead letter with a copy of the damaged file; undefined if the file is intact or could not be copied. */
  readonly quarantined: string | undefined;
}

/** The log has reached `maxBytes`; the record is not stored. */
export class LogFullError extends Error {
  override readonly name = "LogFullError";
}

/** The segments of a log that no process has open, oldest first; none if there is no folder. Changes nothing. */
export async function* readSegments(folder: string): AsyncGenerator<{ readonly bytes: number; readonly records: readonly LogRecord[] }> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  for (const name of segmentNames(names)) {
    const content = await readFile(join(folder, name));
    yield { bytes: content.length, records: decodeRecords(content, readMarker(folder)).records };
  }
}

/** Oldest first. */
function segmentNames(names: readonly string[]): string[] {
  return names.filter((name) => SEGMENT_NAME.test(name)).sort();
}

/** The marker of the log in a folder; undefined if it has none. */
function readMarker(folder: string): Uint8Array | undefined {
  try {
    const marker = readFileSync(join(folder, MARKER_FILE));
    return marker.length === MARKER_BYTES ? marker : undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    // It must not be replaced. With another one, segments are read by their own.
    return randomBytes(MARKER_BYTES);
  }
}

export class AppendLog implements AsyncDisposable {
  readonly folder: string;
  readonly #options: AppendLogOptions;
  readonly #calls: LogCalls;
  readonly #deadLetters: DeadLetters;
  readonly #marker: Uint8Array;
  readonly #batcher: Batcher<readonly Uint8Array[], Segment>;
  /** Oldest first; the open segment is last. */
  readonly #segments: SegmentState[];
  #current: SegmentState | undefined;
  #number: number;
  #segmentBytes: number;
  #queuedBytes = 0;
  #pausedUntilMs = Number.NEGATIVE_INFINITY;
  #failure: unknown;
  #idleTimer: NodeJS.Timeout | undefined;
  readonly #removing = new Set<Promise<void>>();

  /** Creates the folder. Segments of earlier processes keep their records. */
  constructor(folder: string, options: AppendLogOptions) {
    makeFolder(folder, 0o700);
    this.folder = folder;
    this.#options = options;
    this.#calls = { ...CALLS, ...options.calls };
    const names = segmentNames(readdirSync(folder));
    this.#segments = names.map((name) => earlierSegment(join(folder, name), this.#calls.nowMs()));
    this.#segmentBytes = this.#segments.reduce((sum, { bytes }) => sum + bytes, 0);
    this.#number = Number.parseInt(names.at(-1) ?? "-1", 10) + 1;
    this.#marker = readMarker(folder) ?? createMarker(folder);
    this.#deadLetters = new DeadLetters(join(folder, DEAD_LETTERS_FOLDER), this.#calls.nowMs);
    const write = (batch: readonly (readonly Uint8Array[])[]) => this.#write(batch);
    this.#batcher = new Batcher({ write, maxSize: WRITE_BYTES, sizeOf });
  }

  /** The current segments, oldest first. */
  get segments(): readonly Segment[] {
    return [...this.#segments];
  }

  /** Resolves with the segment once the record is on disk; until then `body` must not change. Rejects with LogFullError or a file error. */
  async append(header: object, body: Uint8Array): Promise<Segment> {
    if (this.#calls.nowMs() < this.#pausedUntilMs) throw this.#failure;
    const pieces = encodeRecord(header, body, this.#marker);
    const bytes = sizeOf(pieces);
    const { maxBytes = Number.POSITIVE_INFINITY } = this.#options;
    const usedBytes = this.#segmentBytes + this.#queuedBytes;
    if (usedBytes + bytes > maxBytes) throw new LogFullError(`the log contains ${usedBytes} bytes that are still needed`);
    this.#queuedBytes += bytes;
    return await this.#batcher.add(pieces);
  }

  /** Call once for each record that is no longer needed. */
  release(segment: Segment): void {
    const state = segment as SegmentState;
    state.unreleased -= 1;
    this.#removeReleased(state);
    if (state === this.#current && state.unreleased === 0) this.#idleTimer ??= setTimeout(() => this.#closeIdle(), SEGMENT_MS).unref();
  }

  /**
   * Reads a segment back. From then on, the records of an earlier process count as unreleased. A damaged file is also copied to a dead
   * letter. Rejects if the file cannot be read; if there is no file, there are no records.
   */
  async read(segment: Segment): Promise<SegmentContent> {
    const content = await readFile(segment.path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return Buffer.alloc(0);
      throw error;
    });
    const { records, tornBytes, damagedBytes } = decodeRecords(content, this.#marker);
    const state = segment as SegmentState;
    if (state.unreleased === Number.POSITIVE_INFINITY) state.unreleased = records.length;
    // The caller reports the damage, and whether the file was copied.
    const quarantined = damagedBytes > 0 ? await this.#deadLetters.keepFile(segment.path).catch(() => undefined) : undefined;
    return { records, tornBytes, damagedBytes, quarantined };
  }

  /**
   * Writes a record to a separate file, which stays until an operator deletes it. Resolves with its path; undefined if the dead letters
   * have reached their limit. Rejects with the file system's error, with nothing written.
   */
  async keepDeadLetter(header: object, body: Uint8Array): Promise<string | undefined> {
    return await this.#deadLetters.keep(encodeRecord(header, body, this.#marker));
  }

  /** Deletes dead letters, and closes the open segment, which may contain records that were released. Returns how many were deleted. */
  async eraseDeadLetters(orgIdOf: Erasure["orgIdOf"], deletions: Deletions): Promise<number> {
    this.rotate();
    return await this.#deadLetters.erase({ orgIdOf, deletions, marker: this.#marker });
  }

  /** Closes the open segment: later records go to a new one. */
  rotate(): void {
    const current = this.#current;
    if (!current) return;
    this.#current = undefined;
    current.closedAtMs = this.#calls.nowMs();
    if (!current.isWriting) closeFile(current);
    this.#removeReleased(current);
  }

  /** Removes a closed segment whose records are no longer needed. If the file cannot be removed, the next process finds it. */
  remove(segment: Segment): void {
    const index = this.#segments.indexOf(segment as SegmentState);
    if (index < 0) return;
    this.#segments.splice(index, 1);
    this.#segmentBytes -= segment.bytes;
    const removing = rm(segment.path, { force: true })
      .catch(() => undefined)
      .finally(() => this.#removing.delete(removing));
    this.#removing.add(removing);
  }

  /** Resolves when all earlier calls of `append` have settled and all removals are done. Never rejects. */
  async flush(): Promise<void> {
    await this.#batcher.flush();
    await Promise.all(this.#removing);
  }

  /**
   * Hard-links every segment into `folder`, which has to be on the same file system. The folder then contains every record that was passed
   * to `append` before and is still needed. May be called again for later records. A segment that is still open grows in the folder, too.
   */
  async linkInto(folder: string): Promise<void> {
    await this.#batcher.flush();
    for (const path of [join(this.folder, MARKER_FILE), ...this.#segments.map((segment) => segment.path)])
      await link(path, join(folder, basename(path))).catch((error: NodeJS.ErrnoException) => {
        // The segment has been removed because it is no longer needed, or was linked before.
        if (error.code !== "ENOENT" && error.code !== "EEXIST") throw error;
      });
  }

  /** Finishes pending writes. Unreleased records remain for the next process. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#batcher.flush();
    clearTimeout(this.#idleTimer);
    this.rotate();
    await this.flush();
  }

  /** Writes one batch at a time, so that a batch after a failed one is never acknowledged. */
  async #write(batch: readonly (readonly Uint8Array[])[]): Promise<Segment[]> {
    const pieces = batch.flat();
    const bytes = sizeOf(pieces);
    this.#queuedBytes -= bytes;
    if (this.#calls.nowMs() < this.#pausedUntilMs) throw this.#failure;
    let segment: SegmentState | undefined;
    try {
      segment = this.#openSegment();
      await this.#writeTo(segment, [...coalescePieces(pieces)], bytes);
      segment.unreleased += batch.length;
      return Array.from(batch, () => segment as Segment);
    } catch (error) {
      this.rotate();
      if (segment) this.#removeReleased(segment);
      this.#failure = error;
      this.#pausedUntilMs = this.#calls.nowMs() + PAUSE_AFTER_FAILURE_MS;
      throw error;
    }
  }

  async #writeTo(segment: SegmentState, pieces: readonly Uint8Array[], bytes: number): Promise<void> {
    const fd = segment.fd as number;
    segment.isWriting = true;
    try {
      const { bytesWritten } = await this.#calls.write(fd, pieces, segment.bytes);
      if (bytesWritten !== bytes) throw new Error(`only ${bytesWritten} of ${bytes} bytes could be written to ${segment.path}`);
      segment.bytes += bytes;
      this.#segmentBytes += bytes;
      if (this.#options.isSynced === false) return;
      // The first sync includes the folder: if the name were lost, the whole file would be.
      await Promise.all([this.#calls.sync(fd), segment.isNamed || folderSynced(this.folder)]);
      segment.isNamed = true;
    } finally {
      segment.isWriting = false;
      if (segment.closedAtMs !== undefined) closeFile(segment);
    }
  }

  #openSegment(): SegmentState {
    const current = this.#current;
    const nowMs = this.#calls.nowMs();
    if (current && current.bytes < this.#options.segmentBytes && nowMs - current.openedAtMs < SEGMENT_MS) return current;
    this.rotate();
    const path = join(this.folder, `${String(this.#number++).padStart(10, "0")}.journal`);
    const fd = openSync(path, "wx", 0o600);
    this.#current = { path, fd, bytes: 0, openedAtMs: nowMs, closedAtMs: undefined, unreleased: 0, isWriting: false, isNamed: false };
    this.#segments.push(this.#current);
    return this.#current;
  }

  /** Released records must not stay on disk longer than their table may keep them, even if no new ones arrive. */
  #closeIdle(): void {
    this.#idleTimer = undefined;
    if (this.#current?.unreleased === 0 && !this.#current.isWriting) this.rotate();
  }

  #removeReleased(segment: SegmentState): void {
    if (segment.closedAtMs !== undefined && segment.unreleased === 0 && !segment.isWriting) this.remove(segment);
  }
}

function earlierSegment(path: string, nowMs: number): SegmentState {
  const bytes = statSync(path).size;
  // No record can be released before the segment is read.
  const unreleased = Number.POSITIVE_INFINITY;
  return { path, fd: undefined, bytes, openedAtMs: nowMs, closedAtMs: nowMs, unreleased, isWriting: false, isNamed: true };
}

/** Random, so that no sender of records can know it. It is never replaced, because old records begin with it. */
function createMarker(folder: string): Uint8Array {
  const marker = randomBytes(MARKER_BYTES);
  try {
    writeFileSync(join(folder, MARKER_FILE), marker, { mode: 0o600, flush: true });
    syncFolder(folder);
  } catch {
    // The next process creates another marker, and reads these segments by their own.
  }
  return marker;
}

function closeFile(segment: SegmentState): void {
  if (segment.fd === undefined) return;
  try {
    closeSync(segment.fd);
  } catch {
    // Acknowledged records were synced before.
  }
  segment.fd = undefined;
}
