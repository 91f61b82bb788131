// Collects items while a write is under way and writes them together with the next one (group commit). A single item is written without
// delay. Invariant: `add` settles with the outcome of a write that began after the call.
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { NO_OWNER, runFor } from "../admission/request-owner.ts";

export interface BatcherOptions<Item, Result> {
  /** Writes a batch and returns one result per item, in order; nothing if `Result` is void. A rejection rejects each `add` of the batch. */
  write(batch: readonly Item[]): Promise<[Result] extends [void] ? void : readonly Result[]>;
  /** Items of one write. Default: no limit. */
  readonly maxItems?: number;
  /** Total `sizeOf` of one write; a larger item is written alone. Default: no limit. */
  readonly maxSize?: number;
  readonly sizeOf?: (item: Item) => number;
  /** Combines two waiting items with the same key. Default: the newer replaces the older. */
  readonly merge?: (waiting: Item, added: Item) => Item;
  /** Maximum number of concurrent writes. Default 1: items are written in the order in which they were added. */
  readonly concurrency?: number;
  /** The pause after a write that took `tookMs`. Default: none. */
  readonly pauseMs?: (tookMs: number) => number;
  /** Called when nothing is waiting, being written, or pausing any more. */
  readonly onIdle?: () => void;
}

interface Entry<Item, Result> {
  item: Item;
  readonly outcome: PromiseWithResolvers<Result>;
}

export class Batcher<Item, Result = void> {
  readonly #options: BatcherOptions<Item, Result>;
  /** By key, oldest first. An entry without a key is its own key. */
  readonly #waiting = new Map<unknown, Entry<Item, Result>>();
  readonly #writing = new Set<Entry<Item, Result>>();
  #running = 0;
  #isStarting = false;

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = options;
  }

  /** Number of items that no write has taken yet. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Resolves with the item's result when it is written. Items with the same key that wait at the same time become one item. */
  add(item: Item, key?: unknown): Promise<Result> {
    const known = key === undefined ? undefined : this.#waiting.get(key);
    if (known) {
      known.item = this.#options.merge ? this.#options.merge(known.item, item) : item;
      return known.outcome.promise;
    }
    const entry: Entry<Item, Result> = { item, outcome: Promise.withResolvers<Result>() };
    this.#waiting.set(key ?? entry, entry);
    this.#start();
    return entry.outcome.promise;
  }

  /** Resolves when all items that were added before are written or have failed. Never rejects. */
  async flush(): Promise<void> {
    const entries = [...this.#writing, ...this.#waiting.values()];
    await Promise.allSettled(entries.map(({ outcome }) => outcome.promise));
  }

  #start(): void {
    if (this.#isStarting || this.#running >= (this.#options.concurrency ?? 1)) return;
    this.#isStarting = true;
    this.#running += 1;
    // The first item of a batch must not decide for whom the others wait.
    void runFor(NO_OWNER, () => this.#run());
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    // Items that arrive in the same turn of the event loop share the first write.
    await setImmediate();
    this.#isStarting = false;
    while (this.#waiting.size > 0) {
      const startedMs = performance.now();
      await this.#writeBatch(this.#take());
      const pauseMs = this.#options.pauseMs?.(performance.now() - startedMs) ?? 0;
      if (pauseMs > 0) await sleep(pauseMs);
    }
    this.#running -= 1;
    if (this.#running === 0) this.#options.onIdle?.();
  }

  #take(): Entry<Item, Result>[] {
    const { maxItems = Number.POSITIVE_INFINITY, maxSize = Number.POSITIVE_INFINITY, sizeOf = () => 0 } = this.#options;
    const batch: Entry<Item, Result>[] = [];
    let size = 0;
    for (const [key, entry] of this.#waiting) {
      size += sizeOf(entry.item);
      if (batch.length > 0 && (batch.length >= maxItems || size > maxSize)) break;
      batch.push(entry);
      this.#waiting.delete(key);
      this.#writing.add(entry);
    }
    return batch;
  }

  async #writeBatch(batch: readonly Entry<Item, Result>[]): Promise<void> {
    try {
      const results = (await this.#options.write(batch.map(({ item }) => item))) as readonly Result[] | undefined;
      for (const [index, { outcome }] of batch.entries()) outcome.resolve(results?.[index] as Result);
    } catch (error) {
      for (const { outcome } of batch) outcome.reject(error);
    }
    for (const entry of batch) this.#writing.delete(entry);
  }
}
