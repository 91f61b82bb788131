// The ingest limits of each organisation, set by an operator or by default as in the settings; and the tables of limits and usage. Numbers are
// integers in double columns, which SQLite and PostgreSQL add in the same way.
import type { Kysely } from "kysely";
import type { RateLimits } from "../../auth/request-identity.ts";
import { OrgOverrides } from "../org-overrides.ts";

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

export class OrgLimits extends OrgOverrides<OrgLimitsRow, LimitColumns, Limits> {
  constructor({ db, defaults, now }: { readonly db: Kysely<UsageTables>; readonly defaults: Limits; readonly now?: () => number }) {
    super({
      table: "org_limits",
      defaults,
      now,
      merge: ({ bytes_per_second, records_per_second, active_series }) => ({
        bytesPerSecond: bytes_per_second ?? defaults.bytesPerSecond,
        recordsPerSecond: records_per_second ?? defaults.recordsPerSecond,
        activeSeries: active_series ?? defaults.activeSeries,
      }),
    });
    this.useDatabase(db);
  }
}
