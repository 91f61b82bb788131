// Keeps the last writes on disk until the engine surely has them there too, and gives them to it again after a crash. The engine holds
// what it has acknowledged in memory for up to about six seconds, whatever its flush interval (two to sort, two to keep, two to notice).
// Invariant: a write whose `append` has resolved is kept until the engine has run for KEEP_MS after it, or after it was given again; what
// an engine that died is owed is never removed, however long it takes to give it; giving a write twice is harmless, because its times are
// fixed and the engine removes duplicates. Above `maxBytes` new writes are refused. What `append` resolved for outlives the machine's
// power, unless `isSynced` says otherwise: then it outlives processes only.
import { closeSync, fdatasync, openSync, readdirSync, statSync, writev } from "node:fs";
import { link, readFile, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { folderSynced } from "../../../agent/common/durable-file.ts";
import { makeFolder } from "../../../agent/common/make-folder.ts";
import { GroupSync } from "./group-sync.ts";

/** Twice what the engine may need, and some. */
const KEEP_MS = 15_000;
const SEGMENT_MS = 5000;
const SEGMENT_BYTES = 64 * 1024 * 1024;
/** Some half a minute of the most that one machine takes in; more is kept only for an engine that cannot be given what it is owed. */
const MAX_BYTES = 2 * 1024 * 1024 * 1024;
/** One after the other, thousands of small writes would take as long as they took to come. */
const REPLAYED_AT_ONCE = 16;
const NAME = /^\d{10}\.journal$/;

interface Segment {
  readonly path: string;
  bytes: number;
  /** When it was closed, or last replayed; the engine needs KEEP_MS from then. */
  settledAtMs: number;
  /** The engine has died since and was not given it again yet. */
  owed: boolean;
}

interface OpenSegment extends Segment {
  readonly fd: number;
  readonly openedAtMs: number;
  /** Writes under way; the file is closed when it is closed to new ones and these are done. */
  writes: number;
  open: boolean;
  /** Everything written so far: reading back ends at a gap, so what comes after one that failed has failed as well. */
  whole: Promise<unknown>;
  readonly group: GroupSync;
}

const writeBuffers = promisify(writev);
const syncData = promisify(fdatasync);

/** As `fs.writev`; a full disk makes it fail, or write less than it was given. */
type WriteBuffers = (fd: number, buffers: readonly Uint8Array[], position: number) => Promise<{ bytesWritten: number }>;

/** As `fs.fdatasync`. */
type SyncData = (fd: number) => Promise<void>;

/** Sends one kept write to the engine again; rejects if it cannot. */
export type Resend = (path: string, body: NonSharedBuffer) => Promise<void>;

/** There is no room in the journal until the engine takes what it is owed; the write is not kept. */
export class JournalFullError extends Error {
  override readonly name = "JournalFullError";
}

export interface WriteJournalOptions {
  /** Of a clock that never jumps. */
  readonly now?: () => number;
  readonly write?: WriteBuffers;
  readonly sync?: SyncData;
  /** Default true. */
  readonly isSynced?: boolean;
  readonly maxBytes?: number;
}

export class WriteJournal implements AsyncDisposable {
  readonly #folder: string;
  readonly #now: () => number;
  readonly #writeBuffers: WriteBuffers;
  readonly #syncData: SyncData;
  readonly #isSynced: boolean;
  readonly #maxBytes: number;
  readonly #pending = new Set<Promise<unknown>>();
  #closed: Segment[] = [];
  #current: OpenSegment | undefined;
  #number = 0;
  #deaths = 0;

  /** What an earlier process left in the folder is owed to the engine. */
  constructor(folder: string, options: WriteJournalOptions = {}) {
    const { now = () => performance.now(), write = writeBuffers, sync = syncData, isSynced = true, maxBytes = MAX_BYTES } = options;
    this.#folder = folder;
    this.#now = now;
    this.#writeBuffers = write;
    this.#syncData = sync;
    this.#isSynced = isSynced;
    this.#maxBytes = maxBytes;
    makeFolder(folder, 0o700);
    for (const name of readdirSync(folder)
      .filter((entry) => NAME.test(entry))
      .sort()) {
      const path = join(folder, name);
      this.#closed.push({ path, bytes: statSync(path).size, settledAtMs: now(), owed: true });
      this.#number = Number.parseInt(name, 10) + 1;
    }
  }

  /** True while there is something that an engine that died was not given again. */
  get owes(): boolean {
    return this.#closed.some(({ owed }) => owed);
  }

  /** Resolves once the write is on the disk. `path` is the request target it is to be sent to again. Throws JournalFullError. */
  async append(path: string, body: Buffer): Promise<void> {
    const writing = this.#write(path, body);
    this.#pending.add(writing);
    try {
      await writing;
    } finally {
      this.#pending.delete(writing);
    }
  }

  /** The engine has died: it is owed everything that is kept. */
  engineDied(): void {
    this.#deaths += 1;
    this.#closeCurrent();
    for (const segment of this.#closed) segment.owed = true;
  }

  /** Sends everything owed to an engine that runs. Returns how many writes that were. What was given before a failure is not owed any more. */
  async replay(resend: Resend): Promise<number> {
    await Promise.allSettled(this.#pending);
    let count = 0;
    const unreadable: unknown[] = [];
    for (const segment of this.#closed.filter(({ owed }) => owed)) {
      const deaths = this.#deaths;
      const content = await readSegment(segment.path).catch((error: unknown) => void unreadable.push(error));
      if (!content) continue;
      const rest = records(content);
      const send = async (): Promise<void> => {
        for (const { path, body } of rest) {
          await resend(path, body);
          count += 1;
        }
      };
      const sent = await Promise.allSettled(Array.from({ length: REPLAYED_AT_ONCE }, send));
      for (const one of sent) if (one.status === "rejected") throw one.reason;
      // An engine that died meanwhile may have taken a part of it and lost that.
      if (this.#deaths !== deaths) throw new Error("the engine died while it was given its writes again");
      segment.settledAtMs = this.#now();
      segment.owed = false;
    }
    if (unreadable.length > 0) throw unreadable[0];
    return count;
  }

  /**
   * Gives what is kept a second name in `folder`, on the same file system: every write that `append` was called for before is there, or the
   * engine has it on the disk. May be called again for what came since. A file that is still written grows there too, and may end within
   * a write.
   */
  async linkInto(folder: string): Promise<void> {
    await Promise.allSettled(this.#pending);
    for (const { path } of [...this.#closed, ...(this.#current ? [this.#current] : [])])
      await link(path, join(folder, basename(path))).catch((error: NodeJS.ErrnoException) => {
        // Removed a moment ago, the engine has run for KEEP_MS after it; or linked before.
        if (error.code !== "ENOENT" && error.code !== "EEXIST") throw error;
      });
  }

  /** Forgets everything: the engine has stopped in order, and so has written everything itself. */
  async clear(): Promise<void> {
    this.#closeCurrent();
    for (const { path } of this.#closed.splice(0)) await rm(path, { force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#pending);
    this.#closeCurrent();
  }

  async #write(path: string, body: Buffer): Promise<void> {
    const header = Buffer.from(`${JSON.stringify({ path, bytes: body.length })}\n`);
    const bytes = header.length + body.length;
    const segment = this.#segmentFor(bytes);
    const kept = this.#closed.reduce((sum, closed) => sum + closed.bytes, segment.bytes);
    if (kept + bytes > this.#maxBytes)
      throw new JournalFullError(`the journal of writes holds ${kept} bytes that the engine has not taken`);
    const position = segment.bytes;
    segment.bytes += bytes;
    segment.writes += 1;
    const writing = this.#writeAt(segment, position, [header, body]);
    segment.whole = Promise.all([segment.whole, writing]);
    try {
      await segment.whole;
      if (this.#isSynced) await segment.group.synced();
    } catch (error) {
      // The next write begins a file without a gap.
      if (this.#current === segment) this.#closeCurrent();
      throw error;
    } finally {
      await writing.catch(() => undefined);
      segment.writes -= 1;
      closeIfDone(segment);
    }
  }

  async #writeAt(segment: OpenSegment, position: number, buffers: readonly Buffer[]): Promise<void> {
    const bytes = buffers.reduce((sum, buffer) => sum + buffer.length, 0);
    const { bytesWritten } = await this.#writeBuffers(segment.fd, buffers, position);
    if (bytesWritten !== bytes) throw new Error(`only ${bytesWritten} of ${bytes} bytes could be written to ${segment.path}`);
  }

  #segmentFor(bytes: number): OpenSegment {
    const current = this.#current;
    if (current && current.bytes + bytes <= SEGMENT_BYTES && this.#now() - current.openedAtMs < SEGMENT_MS) return current;
    this.#closeCurrent();
    this.#removeSettled();
    const path = join(this.#folder, `${String(this.#number++).padStart(10, "0")}.journal`);
    const now = this.#now();
    const fd = openSync(path, "wx", 0o600);
    const group = this.#groupFor(fd);
    const fresh = { bytes: 0, writes: 0, open: true, owed: false, whole: Promise.resolve() };
    this.#current = { path, fd, group, openedAtMs: now, settledAtMs: now, ...fresh };
    return this.#current;
  }

  /** Its first fsync is also of the folder: a file without its name would be lost whole. */
  #groupFor(fd: number): GroupSync {
    let isNamed = false;
    return new GroupSync(async () => {
      await Promise.all([this.#syncData(fd), isNamed || folderSynced(this.#folder)]);
      isNamed = true;
    });
  }

  #closeCurrent(): void {
    const current = this.#current;
    if (!current) return;
    this.#current = undefined;
    current.open = false;
    current.settledAtMs = this.#now();
    this.#closed.push(current);
    closeIfDone(current);
  }

  #removeSettled(): void {
    const settled = (segment: Segment): boolean => !segment.owed && this.#now() - segment.settledAtMs >= KEEP_MS;
    const removed = this.#closed.filter(settled);
    // A file that could not be removed is given to the engine again after the next start, and removed then.
    for (const { path } of removed) rm(path, { force: true }).catch(() => undefined);
    this.#closed = this.#closed.filter((segment) => !removed.includes(segment));
  }
}

/** One that somebody has removed is empty. */
async function readSegment(path: string): Promise<NonSharedBuffer> {
  return await readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return Buffer.alloc(0);
    throw error;
  });
}

function closeIfDone(segment: OpenSegment): void {
  if (!segment.open && segment.writes === 0) closeSync(segment.fd);
}

/** The whole records of a segment; one cut off by a crash ends it, and was never answered. */
function* records(content: NonSharedBuffer): Generator<{ path: string; body: NonSharedBuffer }> {
  let at = 0;
  while (at < content.length) {
    const headerEnd = content.indexOf(10, at);
    if (headerEnd < 0) return;
    const header = parseHeader(content.toString("utf8", at, headerEnd));
    if (!header || headerEnd + 1 + header.bytes > content.length) return;
    yield { path: header.path, body: content.subarray(headerEnd + 1, headerEnd + 1 + header.bytes) };
    at = headerEnd + 1 + header.bytes;
  }
}

function parseHeader(text: string): { path: string; bytes: number } | undefined {
  try {
    const { path, bytes } = JSON.parse(text) as { path?: unknown; bytes?: unknown };
    return typeof path === "string" && typeof bytes === "number" ? { path, bytes } : undefined;
  } catch {
    return undefined;
  }
}
