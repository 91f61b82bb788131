// First uses of keys on their way into the database: those that come while some are written, or soon after, go with the next statement, so
// that a fleet that enrols writes a few statements a second. Invariant: a use is answered when it is written, or with the failure of its
// own statement; one that comes alone goes at once.
import { setTimeout as sleep } from "node:timers/promises";

/** Some 10 ms of the database. */
const MAX_KEYS = 1000;
/** After each statement: the longest that the first request in a key's life waits while others come too. */
const PAUSE_MS = 250;

export interface FirstUsesOptions {
  /** Writes that these keys were used, all or none. */
  write(keyIds: readonly string[]): Promise<void>;
  pauseMs?: number;
}

export class FirstUses {
  readonly #options: FirstUsesOptions;
  readonly #waiting = new Map<string, PromiseWithResolvers<void>>();
  #isWriting = false;

  constructor(options: FirstUsesOptions) {
    this.#options = options;
  }

  /** Resolves when it is written. */
  async add(keyId: string): Promise<void> {
    const waiting = this.#waiting.get(keyId) ?? Promise.withResolvers<void>();
    this.#waiting.set(keyId, waiting);
    // Not before all that this turn of the event loop brings have come.
    if (!this.#isWriting) queueMicrotask(() => void this.#writeAll());
    await waiting.promise;
  }

  /** Never throws: each that waits is told. */
  async #writeAll(): Promise<void> {
    if (this.#isWriting) return;
    this.#isWriting = true;
    while (this.#waiting.size > 0) {
      await this.#writeSome();
      await sleep(this.#options.pauseMs ?? PAUSE_MS);
    }
    this.#isWriting = false;
  }

  async #writeSome(): Promise<void> {
    const some = [...this.#waiting].slice(0, MAX_KEYS);
    for (const [keyId] of some) this.#waiting.delete(keyId);
    try {
      await this.#options.write(some.map(([keyId]) => keyId));
      for (const [, { resolve }] of some) resolve();
    } catch (error) {
      for (const [, { reject }] of some) reject(error);
    }
  }
}
