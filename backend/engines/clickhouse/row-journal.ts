// The journal of a table's rows: they are answered once they are on the disk here, and reach the table later, many in one insert. Files of
// entries, one after the other in time (segments), each removed once the table has all of its entries and nothing is added to it any more,
// seconds later at most. Invariants: what `append` resolved for outlives the machine's power until it is settled; whatever is read back may
// be in the table already, so who reads asks the table; after a write that failed nothing is added to its file, because reading back may
// end at a gap.
import { randomBytes } from "node:crypto";
import { closeSync, fdatasync, openSync, readdirSync, readFileSync, writev } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { promisify } from "node:util";
import { folderSynced, writeDurably } from "../../../agent/common/durable-file.ts";
import { makeFolder } from "../../../agent/common/make-folder.ts";
import { decodedEntries, encodedEntry, type JournalEntry } from "./journal-entry.ts";
import { gathered } from "./native-block.ts";
import { SetAside } from "./set-aside.ts";

const MIB = 1024 * 1024;
const SEGMENT_MS = 5000;
const SEGMENT_BYTES = 16 * MIB;
/** Of one write; the rest goes with the next. */
const WRITE_BYTES = 8 * MIB;
/** After a failure nothing is tried for so long: where the disk is full, each attempt would make a file. */
const REST_MS = 1000;
const NAME = /^\d{10}\.journal$/;
const MARK_FILE = "mark";
const MARK = /^[0-9a-f]{32}$/;

interface Segment {
  readonly path: string;
  /** Entries that are answered and not settled. */
  unsettled: number;
  /** Nothing is added to it any more. */
  isClosed: boolean;
}

interface OpenSegment extends Segment {
  readonly fd: number;
  readonly openedAtMs: number;
  bytes: number;
  isNamed: boolean;
}

interface Waiting {
  readonly pieces: readonly Uint8Array[];
  readonly resolve: (kept: Kept) => void;
  readonly reject: (error: unknown) => void;
}

/** An entry that is on the disk. */
export interface Kept {
  /** The table has it, or it is wanted no more. To be called once. */
  settle(): void;
}

export interface Recovered {
  readonly entry: JournalEntry;
  readonly kept: Kept;
}

/** What a file of an earlier process holds. */
export interface RecoveredSegment {
  readonly path: string;
  readonly entries: readonly Recovered[];
  /** Behind the last whole entry; nobody was answered for it. */
  readonly tornBytes: number;
  /** Before it: what cannot be read any more. */
  readonly damagedBytes: number;
  /** Where the file is kept if something of it is damaged; undefined: nowhere, once all that is whole is settled. */
  readonly aside?: string | undefined;
  /** Why the file could not be read; it is kept for the next start. */
  readonly unread?: unknown;
}

/** As of `node:fs`, promised; for tests that make them fail. */
export interface JournalCalls {
  readonly write: (fd: number, pieces: readonly Uint8Array[], position: number) => Promise<{ bytesWritten: number }>;
  readonly sync: (fd: number) => Promise<void>;
  readonly nowMs: () => number;
}

const CALLS: JournalCalls = { write: promisify(writev), sync: promisify(fdatasync), nowMs: () => performance.now() };

/** Those of a table's folder that are files of its journal, oldest first. */
export function segmentNames(names: readonly string[]): string[] {
  return names.filter((name) => NAME.test(name)).sort();
}

export class RowJournal implements AsyncDisposable {
  readonly folder: string;
  readonly #calls: JournalCalls;
  /** Left by an earlier process and not read back yet. */
  readonly #old: string[];
  /** Of each entry here. */
  readonly #mark: string | undefined;
  readonly #aside: SetAside;
  #number: number;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | undefined;
  #current: OpenSegment | undefined;
  #restsUntilMs = Number.NEGATIVE_INFINITY;
  #failure: unknown;
  /** Runs since all of the present segment was settled. */
  #idle: NodeJS.Timeout | undefined;
  readonly #removing = new Set<Promise<void>>();

  constructor(folder: string, calls: Partial<JournalCalls> = {}) {
    makeFolder(folder, 0o700);
    this.folder = folder;
    this.#calls = { ...CALLS, ...calls };
    this.#old = segmentNames(readdirSync(folder));
    this.#number = Number.parseInt(this.#old.at(-1) ?? "-1", 10) + 1;
    this.#mark = ownMark(folder);
    this.#aside = new SetAside(join(folder, "refused"), this.#calls.nowMs);
  }

  /** Resolves when the entry is on the disk; its rows are read until then. Rejects with what the file system says. */
  append(entry: JournalEntry): Promise<Kept> {
    if (this.#calls.nowMs() < this.#restsUntilMs) return Promise.reject(this.#failure);
    const { promise, resolve, reject } = Promise.withResolvers<Kept>();
    this.#waiting.push({ pieces: encodedEntry(entry, this.#mark), resolve, reject });
    this.#writing ??= this.#writeAll();
    return promise;
  }

  /** What earlier processes left, oldest first; each file once. */
  async *recovered(): AsyncGenerator<RecoveredSegment> {
    for (let name = this.#old.shift(); name !== undefined; name = this.#old.shift()) {
      const path = join(this.folder, name);
      let content: Buffer;
      try {
        content = await readFile(path);
      } catch (unread) {
        yield { path, entries: [], tornBytes: 0, damagedBytes: 0, unread };
        continue;
      }
      const { entries, wholeBytes, damagedBytes } = decodedEntries(content, this.#mark);
      const segment = { path, unsettled: entries.length, isClosed: true };
      const tornBytes = content.length - wholeBytes;
      // Safe: where it cannot be kept, whoever is told of the damage is told that, too.
      const aside = damagedBytes > 0 ? await this.#aside.keepFile(path).catch(() => undefined) : undefined;
      yield { path, entries: entries.map((entry) => ({ entry, kept: this.#keptIn(segment) })), tornBytes, damagedBytes, aside };
      if (entries.length === 0) this.#removeSettled(segment);
    }
  }

  /**
   * Keeps what the engine refuses beside the journal. Answers the file; undefined: there are too many, and it is dropped. Rejects with what
   * the file system says, with nothing left of it.
   */
  async setAside(entry: JournalEntry): Promise<string | undefined> {
    return await this.#aside.keep(encodedEntry(entry));
  }

  /** Ends what is under way. What is not settled stays for the next process. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writing;
    clearTimeout(this.#idle);
    this.#closeCurrent();
    await Promise.all(this.#removing);
  }

  /** Never rejects. */
  async #writeAll(): Promise<void> {
    // Those that come in the same turn of the event loop go together.
    await setImmediate();
    while (this.#waiting.length > 0) {
      const group = this.#take();
      try {
        const segment = this.#segment();
        await this.#write(segment, [...gathered(group.flatMap(({ pieces }) => pieces))]);
        segment.unsettled += group.length;
        for (const { resolve } of group) resolve(this.#keptIn(segment));
      } catch (error) {
        this.#closeCurrent();
        this.#failure = error;
        this.#restsUntilMs = this.#calls.nowMs() + REST_MS;
        for (const { reject } of [...group, ...this.#waiting.splice(0)]) reject(error);
      }
    }
    this.#writing = undefined;
  }

  #take(): Waiting[] {
    let bytes = 0;
    const beyond = this.#waiting.findIndex(({ pieces }) => (bytes += sizeOf(pieces)) > WRITE_BYTES);
    return this.#waiting.splice(0, beyond < 0 ? this.#waiting.length : Math.max(1, beyond));
  }

  /** One at a time: what is behind a write that failed was never answered. */
  async #write(segment: OpenSegment, pieces: readonly Uint8Array[]): Promise<void> {
    const bytes = sizeOf(pieces);
    const { bytesWritten } = await this.#calls.write(segment.fd, pieces, segment.bytes);
    if (bytesWritten !== bytes) throw new Error(`only ${bytesWritten} of ${bytes} bytes could be written to ${segment.path}`);
    segment.bytes += bytes;
    // The first time also its name: a file without one would be lost whole.
    await Promise.all([this.#calls.sync(segment.fd), segment.isNamed || folderSynced(this.folder)]);
    segment.isNamed = true;
  }

  #segment(): OpenSegment {
    const current = this.#current;
    if (current && current.bytes < SEGMENT_BYTES && this.#calls.nowMs() - current.openedAtMs < SEGMENT_MS) return current;
    this.#closeCurrent();
    const path = join(this.folder, `${String(this.#number++).padStart(10, "0")}.journal`);
    const fd = openSync(path, "wx", 0o600);
    this.#current = { path, fd, openedAtMs: this.#calls.nowMs(), bytes: 0, unsettled: 0, isNamed: false, isClosed: false };
    return this.#current;
  }

  #closeCurrent(): void {
    const current = this.#current;
    if (!current) return;
    this.#current = undefined;
    current.isClosed = true;
    try {
      closeSync(current.fd);
    } catch {
      // Safe: what counts was synced before, and what was not is refused.
    }
    this.#removeSettled(current);
  }

  #keptIn(segment: Segment): Kept {
    const settle = (): void => {
      segment.unsettled -= 1;
      this.#removeSettled(segment);
      if (segment === this.#current && segment.unsettled === 0) this.#idle ??= setTimeout(() => this.#endIdle(), SEGMENT_MS).unref();
    };
    return { settle };
  }

  /** Where nothing comes, what was stored long ago is not kept beside its table, which may delete it. */
  #endIdle(): void {
    this.#idle = undefined;
    if (this.#current?.unsettled === 0 && !this.#writing) this.#closeCurrent();
  }

  /** One that cannot be removed is read back after the next start: the table has all of it. */
  #removeSettled({ path, unsettled, isClosed }: Segment): void {
    if (!isClosed || unsettled > 0) return;
    const removing = rm(path, { force: true })
      .catch(() => undefined)
      .finally(() => this.#removing.delete(removing));
    this.#removing.add(removing);
  }
}

/** By which entries are found behind a damage. Random, since nobody who sends rows may know it; the same for ever. */
function ownMark(folder: string): string | undefined {
  const known = readMark(folder);
  if (known !== undefined) return known;
  const mark = randomBytes(16).toString("hex");
  try {
    writeDurably(join(folder, MARK_FILE), `${mark}\n`);
    return mark;
  } catch {
    // Safe: a damage then costs what is behind it, too.
    return undefined;
  }
}

/** Of the journal in a folder; undefined: it has none. */
export function readMark(folder: string): string | undefined {
  try {
    const mark = readFileSync(join(folder, MARK_FILE), "utf8").trim();
    return MARK.test(mark) ? mark : undefined;
  } catch {
    // Safe: as with a file that is damaged, a new one is made.
    return undefined;
  }
}

function sizeOf(pieces: readonly Uint8Array[]): number {
  return pieces.reduce((sum, piece) => sum + piece.length, 0);
}
