// The ingest limits of each organisation: set by an operator, or the defaults of the settings. Invariant: reading a limit needs no
// statement and no wait. One statement reads all limits every few seconds while they are used, so a change is in force everywhere within 5
// s. While the database is unreachable, the last known limits apply. Numbers of the tables are integers in double columns, which SQLite and
// PostgreSQL add in the same way.
import type { Kysely } from "kysely";
import type { RateLimits } from "../../auth/request-identity.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

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

const REFRESH_MS = 3_000;

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

  /** Reads the limits of all organisations. Never throws. */
  async refresh(): Promise<void> {
    this.#readAtMs = this.#now();
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    await this.#reading;
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

  /** Sets limits, which are in force here at once. */
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
    this.#known.set(orgId, merged);
    return merged;
  }

  async #read(): Promise<void> {
    try {
      const rows = await this.#options.db.selectFrom("org_limits").selectAll().execute();
      this.#known = new Map(rows.map((row) => [row.org_id, this.#merge(row)]));
    } catch {
      // Safe to ignore: the last known limits apply, and other users of the database report that it is unreachable.
    }
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
