// Values that operators set for single organisations (ingest limits, retention) instead of the defaults. Invariant: `of` needs no statement
// and no wait. One statement reads all values every 3 s while they are used, so a change takes effect everywhere within 5 s. While the
// database is unreachable, the last known values apply.
import type { Kysely } from "kysely";
import { tenantDatabase } from "../engines/relational/tenant-database.ts";

const REFRESH_MS = 3_000;

type AnyTables = Record<string, Record<string, unknown>>;

export interface OrgOverridesOptions<Row, Values> {
  /** Has the primary key `org_id`. */
  readonly table: string;
  readonly defaults: Values;
  /** The values of an organisation with this row; null columns are defaults. */
  readonly merge: (row: Row) => Values;
  /** Milliseconds of a monotonic clock. */
  readonly now?: (() => number) | undefined;
}

/** `Columns`: the columns that an operator sets. */
export class OrgOverrides<Row extends { readonly org_id: string }, Columns extends object, Values> {
  readonly defaults: Values;
  readonly #options: OrgOverridesOptions<Row, Values>;
  readonly #now: () => number;
  #database: Kysely<AnyTables> | undefined;
  #known = new Map<string, Values>();
  #readAtMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(options: OrgOverridesOptions<Row, Values>) {
    this.defaults = options.defaults;
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Call before any other method: the stores are opened at the same time, so the constructor cannot have the database. */
  useDatabase<Tables>(database: Kysely<Tables>): void {
    this.#database = database as unknown as Kysely<AnyTables>;
  }

  of(orgId: string): Values {
    if (this.#now() - this.#readAtMs >= REFRESH_MS) void this.refresh();
    return this.#known.get(orgId) ?? this.defaults;
  }

  /** Reads the values of all organisations. Never throws. */
  async refresh(): Promise<void> {
    this.#readAtMs = this.#now();
    this.#reading ??= this.#readKnown().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  /** The organisations for which an operator has set values, from the database. */
  async readAll(): Promise<Map<string, Values>> {
    const rows = (await this.#db.selectFrom(this.#options.table).selectAll().execute()) as unknown as Row[];
    return new Map(rows.map((row) => [row.org_id, this.#options.merge(row)]));
  }

  /** The current values, from the database. */
  async read(orgId: string): Promise<Values> {
    const rows = tenantDatabase(this.#db, orgId).selectFrom(this.#options.table).selectAll().where("org_id", "=", orgId);
    const row = await rows.executeTakeFirst();
    return row ? this.#options.merge(row as unknown as Row) : this.defaults;
  }

  /** Stores the values, which take effect in this replica immediately. */
  async set(orgId: string, columns: Columns): Promise<Values> {
    const row = await tenantDatabase(this.#db, orgId)
      .insertInto(this.#options.table)
      .values({ org_id: orgId, ...columns })
      .onConflict((conflict) => conflict.column("org_id").doUpdateSet({ ...columns }))
      .returningAll()
      .executeTakeFirstOrThrow();
    const values = this.#options.merge(row as unknown as Row);
    this.#known.set(orgId, values);
    return values;
  }

  get #db(): Kysely<AnyTables> {
    if (!this.#database) throw new Error("the account database is not open yet");
    return this.#database;
  }

  async #readKnown(): Promise<void> {
    try {
      this.#known = await this.readAll();
    } catch {
      // Safe to ignore: the last known values apply, and other users of the database report that it is unreachable.
    }
  }
}
