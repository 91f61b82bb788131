// The ingest limits of each organisation: set by an operator, or the defaults of the settings (override-cache.ts). Numbers of the tables are
// integers in double columns, which SQLite and PostgreSQL add in the same way.
import type { Kysely } from "kysely";
import type { RateLimits } from "../../auth/request-identity.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { OverrideCache } from "../override-cache.ts";

export interface OrgLimitsRow {
  org_id: string;
  /** null: the default of the settings; 0: unlimited. */
  bytes_per_second: number | null;
  records_per_second: number | null;
  active_series: number | null;
}

export interface UsageDayRow {
  org_id: string;
  /** UTC, `2026-11-22`. */
  day: string;
  signal: "metrics" | "logs" | "traces";
  bytes: number;
  records: number;
  /** The maximum of the day; null if they were not counted. */
  active_series: number | null;
}

export interface UsageTables {
  org_limits: OrgLimitsRow;
  usage_days: UsageDayRow;
}

export interface Limits extends RateLimits {
  /** 0: unlimited. */
  readonly activeSeries: number;
}

export interface OrgLimitsOptions {
  readonly db: Kysely<UsageTables>;
  readonly defaults: Limits;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
}

/** The values that an operator sets; undefined: the default. */
export type LimitOverrides = { readonly [name in keyof Limits]: number | undefined };

export class OrgLimits {
  readonly #options: OrgLimitsOptions;
  readonly #cache: OverrideCache<Limits>;

  constructor(options: OrgLimitsOptions) {
    const { defaults, now } = options;
    this.#options = options;
    this.#cache = new OverrideCache({ defaults, now, readAll: () => this.#readAll() });
  }

  of(orgId: string): Limits {
    return this.#cache.of(orgId);
  }

  /** Reads the limits of all organisations. Never throws. */
  async refresh(): Promise<void> {
    await this.#cache.refresh();
  }

  /** The current limits, from the database. */
  async read(orgId: string): Promise<Limits> {
    const row = await tenantDatabase(this.#options.db, orgId)
      .selectFrom("org_limits")
      .selectAll()
      .where("org_id", "=", orgId)
      .executeTakeFirst();
    return row ? this.#merge(row) : this.#options.defaults;
  }

  /** Stores the limits, which take effect in this replica immediately. */
  async set(orgId: string, { bytesPerSecond, recordsPerSecond, activeSeries }: LimitOverrides): Promise<Limits> {
    const overrides = {
      bytes_per_second: bytesPerSecond ?? null,
      records_per_second: recordsPerSecond ?? null,
      active_series: activeSeries ?? null,
    };
    const row = { org_id: orgId, ...overrides };
    await tenantDatabase(this.#options.db, orgId)
      .insertInto("org_limits")
      .values(row)
      .onConflict((conflict) => conflict.column("org_id").doUpdateSet(overrides))
      .execute();
    const merged = this.#merge(row);
    this.#cache.put(orgId, merged);
    return merged;
  }

  async #readAll(): Promise<ReadonlyMap<string, Limits>> {
    const rows = await this.#options.db.selectFrom("org_limits").selectAll().execute();
    return new Map(rows.map((row) => [row.org_id, this.#merge(row)]));
  }

  #merge({ bytes_per_second, records_per_second, active_series }: OrgLimitsRow): Limits {
    const { bytesPerSecond, recordsPerSecond, activeSeries } = this.#options.defaults;
    return {
      bytesPerSecond: bytes_per_second ?? bytesPerSecond,
      recordsPerSecond: records_per_second ?? recordsPerSecond,
      activeSeries: active_series ?? activeSeries,
    };
  }
}
