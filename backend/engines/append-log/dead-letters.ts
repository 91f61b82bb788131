// Stores files next to a log for an operator to inspect: records that the engine permanently refused, and damaged segments. Invariant: they
// take at most MAX_DEAD_LETTER_BYTES and MAX_DEAD_LETTER_FILES, damaged segments at most half of the bytes. Deleted files free space.
import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, statSync } from "node:fs";
import { link, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { folderSynced, makeFolder } from "../../../common/files.ts";
import { MAX_DEAD_LETTER_BYTES, MAX_DEAD_LETTER_FILES } from "../engine-limits.ts";
import { decodeRecords } from "./record.ts";

/** Deleted organisations → when their deletion was requested, in Unix milliseconds. */
export type Deletions = ReadonlyMap<string, number>;

export interface Erasure {
  readonly orgIdOf: (header: unknown) => string | undefined;
  readonly deletions: Deletions;
  /** The marker of the log, because the beginning of a damaged file may be lost. */
  readonly marker: Uint8Array;
}

/** For some time after a deletion, data of the organisation is still accepted. */
const ACCEPTED_AFTER_DELETION_MS = 20 * 60_000;

/** While the folder is full, it is listed again at most this often. */
const RECOUNT_MS = 60_000;

export class DeadLetters {
  readonly folder: string;
  readonly #nowMs: () => number;
  #files = 0;
  #bytes = 0;
  #last: Promise<unknown> = Promise.resolve();
  #recountAtMs = Number.NEGATIVE_INFINITY;

  /** Creates the folder. */
  constructor(folder: string, nowMs: () => number) {
    makeFolder(folder, 0o700);
    this.folder = folder;
    this.#nowMs = nowMs;
    for (const name of readdirSync(folder)) this.#count(statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0);
  }

  /** Resolves with the path; undefined if the limit is reached. Rejects with the file system's error, with nothing written. */
  async keep(pieces: readonly Uint8Array[]): Promise<string | undefined> {
    return await this.#oneAtATime(async () => {
      const content = Buffer.concat(pieces);
      if (!(await this.#hasSpace(content.length, MAX_DEAD_LETTER_BYTES))) return undefined;
      const path = join(this.folder, `${Date.now()}-${randomUUID()}.record`);
      try {
        await writeFile(path, content, { mode: 0o600, flush: true });
        await folderSynced(this.folder);
      } catch (error) {
        await rm(path, { force: true }).catch(() => undefined);
        throw error;
      }
      this.#count(content.length);
      return path;
    });
  }

  /** Hard-links a segment; the name is the same each time. Otherwise like `keep`. */
  async keepFile(file: string): Promise<string | undefined> {
    return await this.#oneAtATime(async () => {
      const { mtimeMs, size } = await stat(file);
      const path = join(this.folder, `${Math.floor(mtimeMs)}-${basename(file, ".journal")}.damaged`);
      if (existsSync(path)) return path;
      if (!(await this.#hasSpace(size, MAX_DEAD_LETTER_BYTES / 2))) return undefined;
      await link(file, path);
      this.#count(size);
      await folderSynced(this.folder);
      return path;
    });
  }

  /**
   * Deletes the files that contain a record of a deleted organisation, or that were written before a deletion and contain bytes that belong
   * to no intact record: they may be the organisation's. Returns how many there were.
   */
  async erase({ orgIdOf, deletions, marker }: Erasure): Promise<number> {
    return await this.#oneAtATime(async () => {
      let erased = 0;
      const damagedUntilMs = Math.max(...deletions.values()) + ACCEPTED_AFTER_DELETION_MS;
      for (const name of await readdir(this.folder)) {
        const path = join(this.folder, name);
        const [content, { mtimeMs }] = await Promise.all([readFile(path), stat(path)]);
        const { records, tornBytes, damagedBytes } = decodeRecords(content, marker);
        const isUnclear = tornBytes + damagedBytes > 0 && mtimeMs <= damagedUntilMs;
        if (!isUnclear && !records.some(({ header }) => deletions.has(orgIdOf(header) ?? ""))) continue;
        await rm(path, { force: true });
        erased += 1;
      }
      return erased;
    });
  }

  /** Runs one operation at a time, so that the counts match the folder. */
  async #oneAtATime<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return await done;
  }

  async #hasSpace(bytes: number, maxBytes: number): Promise<boolean> {
    const fits = (): boolean => this.#files < MAX_DEAD_LETTER_FILES && this.#bytes + bytes <= maxBytes;
    if (fits() || this.#nowMs() < this.#recountAtMs) return fits();
    this.#recountAtMs = this.#nowMs() + RECOUNT_MS;
    // A file that has been deleted in the meantime takes no space.
    const sizeOf = (name: string): Promise<number> =>
      stat(join(this.folder, name)).then(
        ({ size }) => size,
        () => 0,
      );
    const sizes = await Promise.all((await readdir(this.folder)).map(sizeOf));
    [this.#files, this.#bytes] = [0, 0];
    for (const size of sizes) this.#count(size);
    return fits();
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    this.#files += 1;
  }
}
