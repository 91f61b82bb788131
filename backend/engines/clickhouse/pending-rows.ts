// Tracks rows of all tables that are acknowledged but not committed yet; a query commits them first. Invariant: a query that starts after
// an acknowledgement sees its rows, unless the engine refuses them. Other tables, and organisations without pending rows, cost nothing.
import { join } from "node:path";
import type { Log } from "../../log.ts";
import type { Deletions } from "../append-log/dead-letters.ts";
import { keepColumns } from "./journal-columns.ts";
import type { NativeColumns } from "./native-block.ts";
import { RowJournal } from "./row-journal.ts";

export interface TablePending {
  readonly table: string;
  readonly bytes: number;
  /** How long the engine has not accepted rows; undefined while it accepts them. */
  readonly failingMs: number | undefined;
  /** Journal entries that the engine permanently refused since the start. */
  readonly deadLetters: number;
  /** Rows of these entries that are lost, because the dead letters had reached their limit. */
  readonly dropped: number;
  /** Commits the rows of an organisation, or all. Never rejects. */
  flush(orgId?: string): Promise<void>;
}

export class PendingRows implements AsyncDisposable {
  readonly log: Log;
  readonly #folder: string;
  readonly #journals = new Map<string, RowJournal>();
  readonly #tables = new Set<TablePending>();

  /** `folder` contains one journal per table. */
  constructor(folder: string, log: Log) {
    this.#folder = folder;
    this.log = log;
  }

  /** Opens the journal of a table once, and stores the columns of its rows next to it. */
  openJournal(table: string, columns: NativeColumns): RowJournal {
    const journal = this.#journals.get(table) ?? new RowJournal(join(this.#folder, table));
    this.#journals.set(table, journal);
    try {
      keepColumns(journal.folder, columns);
    } catch (err) {
      // A version with other columns stores these rows as dead letters.
      this.log.warn(
        { event: "journal.columns_not_kept", table, err },
        "journal columns cannot be written; other versions cannot read its rows",
      );
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

  /** The sum of a figure over all tables. */
  sum(figure: "bytes" | "deadLetters" | "dropped"): number {
    return [...this.#tables].reduce((sum, table) => sum + table[figure], 0);
  }

  /** How long the engine has not accepted rows of some table; undefined while it accepts them. */
  get failingSeconds(): number | undefined {
    const failing = [...this.#tables].flatMap(({ failingMs }) => failingMs ?? []);
    return failing.length > 0 ? Math.max(...failing) / 1000 : undefined;
  }

  /**
   * Call before a statement that may read pending rows. `committed`: the tables of earlier statements of the same query, whose rows are not
   * committed again: rows that arrived since may be missing. Never rejects.
   */
  async flushFor(statement: string, orgId?: string, committed = new Set<string>()): Promise<void> {
    const named = [...this.#tables].filter(({ table }) => !committed.has(table) && new RegExp(`\\b${table}\\b`).test(statement));
    const pending = named.filter(({ bytes }) => bytes > 0);
    if (pending.length > 0) await Promise.all(pending.map((table) => table.flush(orgId)));
    for (const { table } of named) committed.add(table);
  }

  /** Deletes the dead letters of deleted organisations. Returns how many there were. */
  async eraseDeadLetters(deletions: Deletions): Promise<number> {
    let erased = 0;
    for (const journal of this.#journals.values()) erased += await journal.eraseDeadLetters(deletions);
    return erased;
  }

  /** Never rejects. */
  async flush(): Promise<void> {
    await Promise.all([...this.#tables].map((table) => table.flush()));
  }
}
