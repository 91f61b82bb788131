// The collector's configuration on the disk: the one in force and the one that last ran. Invariants: a file is replaced whole or left as it
// is; what is on the disk already is not written again, so that an agent on a full disk can be restarted and can go back.
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stateDirError } from "../state/state-dir-error.ts";

/** What cannot be written throws StateDirError. */
export class ConfigFiles {
  /** In force. */
  readonly path: string;
  /** Which process is the collector (orphan.ts). */
  readonly noteFile: string;
  readonly #stateDir: string;
  readonly #candidate: string;
  readonly #lastGood: string;

  constructor(stateDir: string) {
    const folder = join(stateDir, "collector");
    this.#stateDir = stateDir;
    this.path = join(folder, "config.yaml");
    this.noteFile = join(folder, "child.json");
    this.#candidate = join(folder, "candidate.yaml");
    this.#lastGood = join(folder, "last-good.yaml");
    this.onDisk(() => mkdirSync(folder, { recursive: true, mode: 0o700 }));
  }

  /** The one that last ran; undefined when there is none, or an empty one, as a power failure leaves it. */
  lastGood(): string | undefined {
    return read(this.#lastGood) || undefined;
  }

  /** Puts it in force if `judge` of the file that holds it resolves. */
  async adopt(config: string, judge: (file: string) => Promise<void>): Promise<void> {
    const isThere = read(this.path) === config;
    if (!isThere) this.#write(this.#candidate, config);
    await judge(isThere ? this.path : this.#candidate);
    if (!isThere) renameSync(this.#candidate, this.path);
  }

  /** Puts it in force unjudged. What last ran is on the disk already: a second name for it needs no room, and all writes replace. */
  putBack(config: string): void {
    if (read(this.#lastGood) !== config) return this.#write(this.path, config);
    this.onDisk(() => {
      const next = `${this.path}.new`;
      rmSync(next, { force: true });
      linkSync(this.#lastGood, next);
      renameSync(next, this.path);
    });
  }

  noteGood(config: string): void {
    if (read(this.#lastGood) !== config) this.#write(this.#lastGood, config);
  }

  onDisk(write: () => void): void {
    try {
      write();
    } catch (error) {
      throw stateDirError(this.#stateDir, error as Error);
    }
  }

  #write(file: string, text: string): void {
    this.onDisk(() => {
      // What a killed agent left may be a second name of a file in use.
      rmSync(`${file}.new`, { force: true });
      writeFileSync(`${file}.new`, text, { mode: 0o600 });
      renameSync(`${file}.new`, file);
    });
  }
}

/** Undefined when there is none. */
function read(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}
