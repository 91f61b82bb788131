// What was answered and is not in its table yet, of all tables of an engine: readers have it committed first. Invariant: a query that begins
// after an answer sees its rows, unless the engine refuses them; tables that a query does not name, and organisations that have nothing
// pending, cost it nothing.
import { join } from "node:path";
import type { Log } from "../../operations/log.ts";
import { keepColumns } from "./journal-columns.ts";
import type { NativeColumns } from "./native-block.ts";
import { RowJournal } from "./row-journal.ts";

/** Of one table. */
export interface TablePending {
  readonly table: string;
  /** Of rows. */
  readonly bytes: number;
  /** For how long the engine has not taken them; undefined: it does. */
  readonly failingMs: number | undefined;
  /** Bodies' days that the engine has refused for ever, since the start. */
  readonly setAside: number;
  /** Rows of these that could not be set aside either. */
  readonly dropped: number;
  /** Commits those of an organisation, or all. Never rejects. */
  flush(orgId?: string): Promise<void>;
}

export class PendingRows implements AsyncDisposable {
  readonly log: Log;
  readonly #folder: string;
  readonly #journals = new Map<string, RowJournal>();
  readonly #tables = new Set<TablePending>();

  /** `folder`: of the journals. */
  constructor(folder: string, log: Log) {
    this.#folder = folder;
    this.log = log;
  }

  /** The same one each time; beside it are the columns of its rows. */
  journalOf(table: string, columns: NativeColumns): RowJournal {
    const journal = this.#journals.get(table) ?? new RowJournal(join(this.#folder, table));
    this.#journals.set(table, journal);
    try {
      keepColumns(journal.folder, columns);
    } catch (err) {
      // Safe: such a version sets them aside.
      this.log.warn({ table, err }, "the columns of the journal's rows cannot be kept: a version with others could not store its rows");
    }
    return journal;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const journal of this.#journals.values()) await journal[Symbol.asyncDispose]();
  }

  add(table: TablePending): void {
    this.#tables.add(table);
  }

  delete(table: TablePending): void {
    this.#tables.delete(table);
  }

  get bytes(): number {
    return this.#all().reduce((sum, { bytes }) => sum + bytes, 0);
  }

  get setAside(): number {
    return this.#all().reduce((sum, { setAside }) => sum + setAside, 0);
  }

  get dropped(): number {
    return this.#all().reduce((sum, { dropped }) => sum + dropped, 0);
  }

  /** For how long the engine has not taken rows of some table; undefined: it takes them. */
  get failingSeconds(): number | undefined {
    const failing = this.#all().flatMap(({ failingMs }) => failingMs ?? []);
    return failing.length > 0 ? Math.max(...failing) / 1000 : undefined;
  }

  /** To be awaited before a statement that may read such rows. Never rejects. */
  async flushFor(statement: string, orgId?: string): Promise<void> {
    const named = this.#all().filter(({ table, bytes }) => bytes > 0 && new RegExp(`\\b${table}\\b`).test(statement));
    if (named.length > 0) await Promise.all(named.map((table) => table.flush(orgId)));
  }

  /** Never rejects. */
  async flush(): Promise<void> {
    await Promise.all(this.#all().map((table) => table.flush()));
  }

  #all(): TablePending[] {
    return [...this.#tables];
  }
}
