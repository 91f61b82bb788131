// The ingest limits of each organisation, set by an operator or by default as in the settings (override-cache.ts), and the tables of limits
// and usage. Numbers are integers in double columns, which SQLite and PostgreSQL add in the same way.
import type { Kysely } from "kysely";
import type { RateLimits } from "../../http/request-identity.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { OverrideCache } from "../override-cache.ts";

/** null: the default of the settings; 0: unlimited. */
interface LimitColumns {
  bytes_per_second: number | null;
  records_per_second: number | null;
  active_series: number | null;
}

interface OrgLimitsRow extends LimitColumns {
  org_id: string;
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
}

export class OrgLimits {
  readonly #options: OrgLimitsOptions;
  readonly #cache: OverrideCache<Limits>;

  constructor(options: OrgLimitsOptions) {
    this.#options = options;
    this.#cache = new OverrideCache({ defaults: options.defaults, readAll: () => this.#readAll() });
  }

  of(orgId: string): Limits {
    return this.#cache.of(orgId);
  }

  /** Reads the limits of all organisations. Never throws. */
  async refresh(): Promise<void> {
    await this.#cache.refresh();
  }

  /** Call once in a process that uses `of`. */
  refreshPeriodically(): AsyncDisposable {
    return this.#cache.refreshPeriodically();
  }

  /** The current limits, from the database. */
  async read(orgId: string): Promise<Limits> {
    const rows = tenantDatabase(this.#options.db, orgId).selectFrom("org_limits").selectAll().where("org_id", "=", orgId);
    const row = await rows.executeTakeFirst();
    return row ? this.#merge(row) : this.#options.defaults;
  }

  /** Stores the limits, which take effect in this replica immediately. */
  async set(orgId: string, columns: LimitColumns): Promise<Limits> {
    await tenantDatabase(this.#options.db, orgId)
      .insertInto("org_limits")
      .values({ org_id: orgId, ...columns })
      .onConflict((conflict) => conflict.column("org_id").doUpdateSet(columns))
      .execute();
    const limits = this.#merge(columns);
    this.#cache.put(orgId, limits);
    return limits;
  }

  async #readAll(): Promise<ReadonlyMap<string, Limits>> {
    const rows = await this.#options.db.selectFrom("org_limits").selectAll().execute();
    return new Map(rows.map((row) => [row.org_id, this.#merge(row)]));
  }

  #merge({ bytes_per_second, records_per_second, active_series }: LimitColumns): Limits {
    const { defaults } = this.#options;
    return {
      bytesPerSecond: bytes_per_second ?? defaults.bytesPerSecond,
      recordsPerSecond: records_per_second ?? defaults.recordsPerSecond,
      activeSeries: active_series ?? defaults.activeSeries,
    };
  }
}
