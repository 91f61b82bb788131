// How long the telemetry of each organisation is kept: as an operator set it, or by default as in the settings.
import type { ColumnType, Selectable } from "kysely";
import type { LogRule } from "../../storage/removal/removal.ts";
import { OrgOverrides } from "../org-overrides.ts";

export interface OrgRetentionRow {
  org_id: string;
  /** null: as in the settings. */
  logs_days: number | null;
  traces_days: number | null;
  metrics_days: number | null;
  log_rules: ColumnType<LogRule[], string, string>;
}

export interface RetentionTables {
  org_retention: OrgRetentionRow;
}

export interface Retention {
  readonly logsDays: number;
  readonly tracesDays: number;
  /** A fraction if the setting is shorter than a day. */
  readonly metricsDays: number;
  readonly logRules: readonly LogRule[];
}

interface RetentionColumns extends Pick<OrgRetentionRow, "logs_days" | "traces_days" | "metrics_days"> {
  /** JSON of LogRule[]. */
  log_rules: string;
}

export class OrgRetention extends OrgOverrides<Selectable<OrgRetentionRow>, RetentionColumns, Retention> {
  constructor(days: Omit<Retention, "logRules">) {
    super({
      table: "org_retention",
      defaults: { ...days, logRules: [] },
      merge: ({ logs_days, traces_days, metrics_days, log_rules }) => ({
        logsDays: logs_days ?? days.logsDays,
        tracesDays: traces_days ?? days.tracesDays,
        metricsDays: Math.min(metrics_days ?? days.metricsDays, days.metricsDays),
        logRules: log_rules,
      }),
    });
  }
}
