// What each organisation may send: what an operator set for it, else the defaults of the settings. Invariant: asking costs no statement and no
// wait; one statement reads all that was set, every few seconds while somebody asks, so that a change is in force everywhere within 5 s. While
// the database is away the last known limits hold.
import type { Kysely } from "kysely";
import type { QuotaLimits } from "../ingest/quota.ts";
import type { OrgLimitsRow, UsageTables } from "./table.ts";
import { tenantDatabase } from "../engines/relational/tenant-database.ts";

const REFRESH_MS = 3_000;

export interface Limits extends QuotaLimits {
  /** 0: unlimited. */
  readonly activeSeries: number;
}

export interface OrgLimitsOptions {
  readonly db: Kysely<UsageTables>;
  readonly defaults: Limits;
  /** Milliseconds; a clock that only goes forward. */
  readonly now?: () => number;
}

/** What an operator sets; undefined: the default. */
export type SetLimits = { readonly [name in keyof Limits]: number | undefined };

export class OrgLimits {
  readonly #options: OrgLimitsOptions;
  readonly #now: () => number;
  #known = new Map<string, Limits>();
  #readAtMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(options: OrgLimitsOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  of(orgId: string): Limits {
    if (this.#now() - this.#readAtMs >= REFRESH_MS) void this.refresh();
    return this.#known.get(orgId) ?? this.#options.defaults;
  }

  /** Reads all that was set. Never throws. */
  async refresh(): Promise<void> {
    this.#readAtMs = this.#now();
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  /** Of now, from the database. */
  async read(orgId: string): Promise<Limits> {
    const row = await tenantDatabase(this.#options.db, orgId)
      .selectFrom("org_limits")
      .selectAll()
      .where("org_id", "=", orgId)
      .executeTakeFirst();
    return row ? this.#merged(row) : this.#options.defaults;
  }

  /** In force here at once. */
  async set(orgId: string, { bytesPerSecond, recordsPerSecond, activeSeries }: SetLimits): Promise<Limits> {
    const set = {
      bytes_per_second: bytesPerSecond ?? null,
      records_per_second: recordsPerSecond ?? null,
      active_series: activeSeries ?? null,
    };
    const row = { org_id: orgId, ...set };
    await tenantDatabase(this.#options.db, orgId)
      .insertInto("org_limits")
      .values(row)
      .onConflict((conflict) => conflict.column("org_id").doUpdateSet(set))
      .execute();
    const merged = this.#merged(row);
    this.#known.set(orgId, merged);
    return merged;
  }

  async #read(): Promise<void> {
    try {
      const rows = await this.#options.db.selectFrom("org_limits").selectAll().execute();
      this.#known = new Map(rows.map((row) => [row.org_id, this.#merged(row)]));
    } catch {
      // Safe to go on: the last known limits hold, and whatever else needs the database says that it is away.
    }
  }

  #merged({ bytes_per_second, records_per_second, active_series }: OrgLimitsRow): Limits {
    const { bytesPerSecond, recordsPerSecond, activeSeries } = this.#options.defaults;
    return {
      bytesPerSecond: bytes_per_second ?? bytesPerSecond,
      recordsPerSecond: records_per_second ?? recordsPerSecond,
      activeSeries: active_series ?? activeSeries,
    };
  }
}
