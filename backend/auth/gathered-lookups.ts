// Look-ups of single rows on their way to the database: those that come while some are under way go together with the next statement.
// Invariant: one that is alone goes at once; however many wait, few statements are under way; a row that cannot be read is the failure of
// whoever asked for it, and of nobody else.

/** A row; `state` is equal as long as nothing of it has changed that matters. */
export interface Found<T> {
  readonly id: string;
  readonly state: string;
  /** Throws for a row that is damaged. */
  read(): T;
}

/** What is looked up, and what a cache remembers of it. */
export interface Looked<T> {
  readonly state: string;
  readonly value: T;
}

/** Statements at once: one that hangs on a connection that is gone holds up no other. */
const AT_ONCE = 4;
const MAX_IDS = 500;

type Waiting<T> = PromiseWithResolvers<Looked<T> | undefined>;

export class GatheredLookUps<T> {
  readonly #find: (ids: readonly string[]) => Promise<readonly Found<T>[]>;
  readonly #waiting = new Map<string, Waiting<T>>();
  #running = 0;

  constructor(find: (ids: readonly string[]) => Promise<readonly Found<T>[]>) {
    this.#find = find;
  }

  /** Undefined where there is no such row. The answer is never older than this question. */
  async find(id: string): Promise<Looked<T> | undefined> {
    const waiting = this.#waiting.get(id) ?? Promise.withResolvers<Looked<T> | undefined>();
    this.#waiting.set(id, waiting);
    // Not before all that this turn of the event loop asks for have come.
    queueMicrotask(() => void this.#run());
    return await waiting.promise;
  }

  /** Never throws: each that waits is told. */
  async #run(): Promise<void> {
    if (this.#running === AT_ONCE || this.#waiting.size === 0) return;
    const batch = new Map([...this.#waiting].slice(0, MAX_IDS));
    for (const id of batch.keys()) this.#waiting.delete(id);
    this.#running += 1;
    try {
      for (const found of await this.#find([...batch.keys()])) {
        const waiting = batch.get(found.id);
        batch.delete(found.id);
        settle(waiting, found);
      }
      for (const { resolve } of batch.values()) resolve(undefined);
    } catch (error) {
      for (const { reject } of batch.values()) reject(error);
    }
    this.#running -= 1;
    void this.#run();
  }
}

function settle<T>(waiting: Waiting<T> | undefined, found: Found<T>): void {
  try {
    waiting?.resolve({ state: found.state, value: found.read() });
  } catch (error) {
    waiting?.reject(error);
  }
}
