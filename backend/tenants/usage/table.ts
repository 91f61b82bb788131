// Tables of limits and usage. Invariant: numbers are integers in double columns, which both databases add alike.

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
