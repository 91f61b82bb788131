// Rows of a query, loaded page by page when the end of a list is near. Invariants: a response to an earlier query is discarded; until the first
// page of a new query arrives, the rows of the earlier one stay and are marked as stale; a failed refresh of the same query keeps its rows.
import { batch, signal } from "@preact/signals";
import { errorMessage, type Page, page, type Query } from "./api.ts";
import { whileLoading } from "./loaded.ts";

export class PagedRows<T> {
  readonly rows = signal<readonly T[]>([]);
  readonly busy = signal(false);
  /** True if the rows belong to an earlier query. */
  readonly isStale = signal(false);
  readonly error = signal<string | undefined>(undefined);
  /** After a failed refresh: when the rows, which are still shown, were loaded. */
  readonly shownSince = signal<number | undefined>(undefined);
  protected abort = new AbortController();
  protected key = "";
  readonly #path: string;
  readonly #maxRows: number;
  #next: string | undefined;
  #loadedAt: number | undefined;

  constructor(path: string, maxRows = Number.POSITIVE_INFINITY) {
    this.#path = path;
    this.#maxRows = maxRows;
  }

  /** Loads the first page. `key` identifies the query; a refresh has the same key. */
  async show(key: string, query: Query): Promise<void> {
    this.stop();
    this.isStale.value ||= key !== this.key;
    this.key = key;
    await this.#load(this.#path, query, []);
  }

  async more(): Promise<void> {
    const rows = this.rows.peek();
    if (this.#next && !this.busy.peek() && rows.length < this.#maxRows) await this.#load(this.#next, {}, rows);
  }

  stop(): void {
    this.abort.abort();
    this.abort = new AbortController();
    this.#next = undefined;
    this.busy.value = false;
  }

  async #load(path: string, query: Query, previousRows: readonly T[]): Promise<void> {
    const { signal: abort } = this.abort;
    this.busy.value = true;
    try {
      const { body, next }: Page<T[]> = await whileLoading(page<T[]>(path, { query, signal: abort }));
      if (abort.aborted) return;
      this.#next = next;
      batch(() => {
        this.rows.value = [...previousRows, ...body];
        this.isStale.value = false;
        this.error.value = undefined;
        this.shownSince.value = undefined;
        this.#loadedAt = Date.now();
      });
    } catch (failure) {
      if (abort.aborted) return;
      this.#next = undefined;
      // Rows of an earlier query would look like results of this one.
      if (this.isStale.peek()) this.#loadedAt = undefined;
      if (this.#loadedAt === undefined) this.rows.value = previousRows;
      this.shownSince.value = this.#loadedAt;
      this.isStale.value = false;
      this.error.value = errorMessage(failure);
    } finally {
      if (!abort.aborted) this.busy.value = false;
    }
  }
}
