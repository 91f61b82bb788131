// Looks up single rows in batches. Invariant: a row that cannot be decoded fails only the calls that asked for it.
import { Batcher } from "../engines/batcher.ts";
import { MAX_IDS_PER_LOOKUP } from "./limits.ts";

/** A row; `state` changes whenever something in the row changes that matters. */
export interface LookupRow<T> {
  readonly id: string;
  readonly state: string;
  /** Throws for a row that is damaged. */
  read(): T;
}

/** What a cache remembers of a row. */
export interface CachedValue<T> {
  readonly state: string;
  readonly value: T;
}

/** Statements at the same time: one that hangs on a broken connection does not delay the others. */
const STATEMENTS = 4;

export class BatchedLookups<T> {
  readonly #batcher: Batcher<string, LookupRow<T> | undefined>;

  constructor(find: (ids: readonly string[]) => Promise<readonly LookupRow<T>[]>) {
    const write = async (ids: readonly string[]) => {
      const found = new Map((await find(ids)).map((row) => [row.id, row]));
      return ids.map((id) => found.get(id));
    };
    this.#batcher = new Batcher({ write, maxItems: MAX_IDS_PER_LOOKUP, concurrency: STATEMENTS });
  }

  /** Undefined if there is no such row. The result is never older than the call. */
  async find(id: string): Promise<CachedValue<T> | undefined> {
    const found = await this.#batcher.add(id, id);
    return found && { state: found.state, value: found.read() };
  }
}
