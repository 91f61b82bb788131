// One fsync for all who wait for one (group commit): those who come while it runs go with the next. Invariant: a call resolves after an
// fsync that began after the call. Once one has failed, all fail: the kernel tells of a lost page once, and takes it for written then.
export class GroupSync {
  readonly #sync: () => Promise<void>;
  #running: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;

  constructor(sync: () => Promise<void>) {
    this.#sync = sync;
  }

  /** Resolves when all that was written before this call is on the disk. */
  synced(): Promise<void> {
    this.#next ??= this.#after(this.#running);
    return this.#next;
  }

  async #after(running: Promise<void>): Promise<void> {
    try {
      await running;
    } finally {
      this.#running = this.#next ?? running;
      this.#next = undefined;
    }
    await this.#sync();
  }
}
