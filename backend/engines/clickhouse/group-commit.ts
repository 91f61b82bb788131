// Turns many small inserts into few large ones: rows wait while an insert runs, and each waits until its own insert has committed.
// Invariant: nobody is answered before the commit, one refused row fails nobody else's, and large rows of one sender never hold both
// inserts, so that small ones are never behind two of them. Rows that are stored are used up.
import { ApiError } from "../../errors.ts";
import { freeBuffer } from "../free-buffer.ts";
import type { ClickHouse } from "./client.ts";
import type { NativeColumns, NativeRows } from "./native-block.ts";

interface Waiting {
  readonly rows: NativeRows;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** An insert is cut here, well below the settings that would cut it into blocks (statement-settings.ts). */
const MAX_INSERT_BYTES = 64 * 1024 * 1024;
/** Above this an insert is large: it takes a second or more, and only one such runs at once. */
const LARGE_BYTES = 8 * 1024 * 1024;
/** Inserts that run at once: one is parsed while the other is written. */
const CONCURRENT_INSERTS = 2;
/** A small insert costs as much as a large one, and makes a part to merge: below this size it waits for company. */
const FULL_BYTES = 1024 * 1024;
const LINGER_MS = 40;

export class GroupCommit implements AsyncDisposable {
  readonly #clickhouse: ClickHouse;
  readonly #table: string;
  readonly #columns: NativeColumns;
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  #lastStartMs = 0;
  #timer: NodeJS.Timeout | undefined;
  readonly #running = new Set<Promise<void>>();
  #largeRuns = false;
  #closing = false;

  constructor(clickhouse: ClickHouse, table: string, columns: NativeColumns) {
    this.#clickhouse = clickhouse;
    this.#table = table;
    this.#columns = columns;
  }

  /** Resolves when the rows are committed. Throws ApiError storage_unavailable or unstorable. */
  async add(rows: NativeRows): Promise<void> {
    const committed = new Promise<void>((resolve, reject) => this.#waiting.push({ rows, resolve, reject }));
    this.#waitingBytes += rows.bytes.byteLength;
    this.#flush();
    return committed;
  }

  /** Commits what was added. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing = true;
    clearTimeout(this.#timer);
    while (this.#waiting.length > 0 || this.#running.size > 0) {
      this.#flush();
      await Promise.race(this.#running);
    }
  }

  #flush(): void {
    while (this.#waiting.length > 0 && this.#running.size < CONCURRENT_INSERTS) {
      const waitMs = this.#waitingBytes >= FULL_BYTES || this.#closing ? 0 : this.#lastStartMs + LINGER_MS - performance.now();
      if (waitMs > 0) return this.#flushIn(waitMs);
      const group = this.#take(this.#largeRuns ? LARGE_BYTES : MAX_INSERT_BYTES);
      if (group.length === 0) return;
      const isLarge = bytesOf(group) > LARGE_BYTES;
      this.#largeRuns ||= isLarge;
      this.#lastStartMs = performance.now();
      const insert = this.#insert(group).finally(() => {
        if (isLarge) this.#largeRuns = false;
        this.#running.delete(insert);
        this.#flush();
      });
      this.#running.add(insert);
    }
  }

  #flushIn(waitMs: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#flush();
    }, waitMs);
  }

  /** In order of arrival as many as fit; rows above `maxBytes` are passed over, unless they are what an insert may hold alone. */
  #take(maxBytes: number): Waiting[] {
    const taken: Waiting[] = [];
    const left: Waiting[] = [];
    let bytes = 0;
    for (const one of this.#waiting) {
      const size = one.rows.bytes.byteLength;
      const fits = bytes + size <= maxBytes || (maxBytes === MAX_INSERT_BYTES && taken.length === 0);
      (fits ? taken : left).push(one);
      if (fits) bytes += size;
    }
    this.#waiting = left;
    this.#waitingBytes -= bytes;
    return taken;
  }

  async #insert(group: readonly Waiting[]): Promise<void> {
    try {
      await this.#clickhouse.insert({ table: this.#table, columns: this.#columns, rows: group.map(({ rows }) => rows) });
    } catch (error) {
      if (group.length > 1 && error instanceof ApiError && error.code === "unstorable") {
        for (const alone of group) await this.#insert([alone]);
      } else {
        for (const { reject } of group) reject(error);
      }
      return;
    }
    for (const { rows, resolve } of group) {
      freeBuffer(rows.bytes);
      resolve();
    }
  }
}

function bytesOf(group: readonly Waiting[]): number {
  return group.reduce((sum, { rows }) => sum + rows.bytes.byteLength, 0);
}
