// Keeps what an external VictoriaMetrics acknowledged until it has certainly written it to disk, and replays it after the engine, or
// vminsert in front of it, was lost: both acknowledge from memory. A connection that the engine breaks, or a request without a response,
// counts as a loss. Invariant: a write is kept until the engine has responded to a request that began KEEP_MS after it (journal.ts), so a
// write is not removed while the engine hangs. An unnecessary replay only costs the engine a second write of the same samples.
import { join } from "node:path";
import type { Log } from "../../log.ts";
import type { Deletions } from "../append-log/dead-letters.ts";
import { openWriteJournal, type WriteJournal } from "./journal.ts";
import { Replay } from "./replay.ts";

const FOLDER = "metrics-outside-journal";
/** The connections of a lost engine break one after the other, so the replay waits for the last. */
const REPLAY_AFTER_MS = 500;

export interface OutsideJournalOptions {
  readonly dataDir: string;
  /** Port of the API listener, because replicas on one machine may share `dataDir`. */
  readonly port: number;
  /** Base of the engine's paths for writes; may contain user:password. */
  readonly writeUrl: string;
  readonly isSynced: boolean;
  readonly log: Log;
}

export class OutsideJournal implements AsyncDisposable {
  readonly #journal: WriteJournal;
  readonly #replay: Replay;
  readonly #writeUrl: string;
  #timer: NodeJS.Timeout | undefined;

  constructor({ dataDir, port, writeUrl, isSynced, log }: OutsideJournalOptions) {
    this.#journal = openWriteJournal(join(dataDir, FOLDER, String(port)), { isSynced, log });
    this.#replay = new Replay(this.#journal, log);
    this.#writeUrl = writeUrl;
    // The engine may have been lost together with an earlier process.
    if (this.#journal.isReplayPending) this.#replaySoon();
  }

  /** Number of losses so far; read it before a write is sent. */
  get losses(): number {
    return this.#journal.crashes;
  }

  /** Resolves when a write that the engine has accepted is on disk here. Rejects with LogFullError or the file system's error. */
  async append(path: string, body: Buffer, losses: number): Promise<void> {
    await this.#journal.append(path, body, losses);
    if (losses !== this.losses) this.#replaySoon();
  }

  /** Removes entries that the engine certainly has on disk, including after the last write. Call after a response of the engine. */
  expire(): void {
    this.#journal.expire();
  }

  /** Deletes the dead letters of deleted organisations. Returns how many there were. */
  async eraseDeadLetters(deletions: Deletions): Promise<number> {
    return await this.#journal.eraseDeadLetters(deletions);
  }

  engineLost(): void {
    this.#journal.engineCrashed();
    this.#replaySoon();
  }

  /** Stops. The next process with this folder replays what the engine may not have on disk. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#timer);
    await this.#replay[Symbol.asyncDispose]();
    await this.#journal[Symbol.asyncDispose]();
  }

  #replaySoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.#replay.engineIsUp(this.#writeUrl);
    }, REPLAY_AFTER_MS).unref();
  }
}
