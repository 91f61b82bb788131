// What a journal's table cannot have, as files beside the journal for somebody to look at: rows that the engine refuses for ever, and files
// of the journal in which something is damaged. Invariant: they take no more than MOST_BYTES and MOST_FILES; files with damage leave half
// of that to rows. What somebody removes makes room again.
import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, statSync } from "node:fs";
import { link, readdir, rm, stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { folderSynced } from "../../../agent/common/durable-file.ts";
import { makeFolder } from "../../../agent/common/make-folder.ts";

const MOST_BYTES = 128 * 1024 * 1024;
/** Small ones cost the file system more than their bytes. */
const MOST_FILES = 10_000;
/** Between two looks at a full folder. */
const LOOK_MS = 60_000;

export class SetAside {
  readonly folder: string;
  readonly #nowMs: () => number;
  #files = 0;
  #bytes = 0;
  #last: Promise<unknown> = Promise.resolve();
  #lookAtMs = Number.NEGATIVE_INFINITY;

  /** Makes the folder. */
  constructor(folder: string, nowMs: () => number) {
    makeFolder(folder, 0o700);
    this.folder = folder;
    this.#nowMs = nowMs;
    for (const name of readdirSync(folder)) this.#count(statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0);
  }

  /** Answers the file; undefined: there is no room. Rejects with what the file system says, with nothing left of it. */
  async keep(pieces: readonly Uint8Array[]): Promise<string | undefined> {
    return await this.#inTurn(async () => {
      const content = Buffer.concat(pieces);
      if (!(await this.#hasRoom(content.length, MOST_BYTES))) return undefined;
      const path = join(this.folder, `${Date.now()}-${randomUUID()}.entry`);
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

  /** Gives a file of the journal another name, which it keeps. The same one each time. Otherwise as `keep`. */
  async keepFile(file: string): Promise<string | undefined> {
    return await this.#inTurn(async () => {
      const { mtimeMs, size } = await stat(file);
      const path = join(this.folder, `${Math.floor(mtimeMs)}-${basename(file, ".journal")}.damaged`);
      if (existsSync(path)) return path;
      if (!(await this.#hasRoom(size, MOST_BYTES / 2))) return undefined;
      await link(file, path);
      this.#count(size);
      await folderSynced(this.folder);
      return path;
    });
  }

  /** One after the other: what is counted is what is there. */
  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return await done;
  }

  async #hasRoom(bytes: number, mostBytes: number): Promise<boolean> {
    const fits = (): boolean => this.#files < MOST_FILES && this.#bytes + bytes <= mostBytes;
    if (fits() || this.#nowMs() < this.#lookAtMs) return fits();
    this.#lookAtMs = this.#nowMs() + LOOK_MS;
    // One that is removed meanwhile takes no room.
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
