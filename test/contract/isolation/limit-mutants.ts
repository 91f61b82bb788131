// The conditions that limit a reader to values of labels, each of which a test can switch off.
import type { Change } from "./mutants.ts";

/** Condition → how it is removed. */
const REMOVED: Readonly<Record<string, Change>> = {
  "rows of logs": {
    file: "backend/engines/clickhouse/label-filter.ts",
    from: "if (!labels) return NO_ROW;",
    to: 'if (table === "logs" && isRemoved("rows of logs")) return sql`1`; if (!labels) return NO_ROW;',
  },
  "rows of spans and exemplars": {
    file: "backend/engines/clickhouse/label-filter.ts",
    from: "const valueOf = (label: LimitedLabel): Sql => {",
    to: 'if (table !== "logs" && isRemoved("rows of spans and exemplars")) return sql`1`; const valueOf = (label: LimitedLabel): Sql => {',
  },
  series: {
    file: "backend/storage/metrics/series-filters.ts",
    from: "if (!limits) return [];",
    to: 'if (!limits || isRemoved("series")) return [];',
  },
  alerts: {
    file: "backend/storage/metrics/series-filters.ts",
    from: "if (!limits) return true;",
    to: 'if (!limits || isRemoved("alerts")) return true;',
  },
  "refused routes": {
    file: "backend/http/route.ts",
    from: "if (labelLimitsOf(request))",
    to: 'if (!isRemoved("refused routes") && labelLimitsOf(request))',
  },
};

export const LIMIT_CHANGES: readonly Change[] = Object.values(REMOVED);
export const LIMIT_CONDITIONS: readonly string[] = Object.keys(REMOVED);
