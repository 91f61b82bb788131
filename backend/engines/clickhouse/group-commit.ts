// Turns many small inserts into few large ones: rows wait while an insert runs, and each waits until its own insert has committed.
// Invariant: nobody is answered before the commit, and one refused row fails nobody else's. Rows that are stored are used up. Used by
// once-writer.ts.
import { ApiError } from "../../errors.ts";
import { giveBack } from "../../give-back.ts";
import type { ClickHouse } from "./client.ts";
import type { NativeColumns, NativeRows } from "./native-block.ts";

interface Waiting {
  readonly rows: NativeRows;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** An insert is cut here, well below the settings that would cut it into blocks (statement-settings.ts). */
const MAX_INSERT_BYTES = 64 * 1024 * 1024;
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
      this.#lastStartMs = performance.now();
      const insert = this.#insert(this.#take()).finally(() => {
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

  #take(): Waiting[] {
    let bytes = 0;
    let count = 0;
    for (const { rows } of this.#waiting) {
      if (count > 0 && bytes + rows.bytes.byteLength > MAX_INSERT_BYTES) break;
      bytes += rows.bytes.byteLength;
      count += 1;
    }
    const taken = this.#waiting.slice(0, count);
    this.#waiting = this.#waiting.slice(count);
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
      giveBack(rows.bytes);
      resolve();
    }
  }
}
