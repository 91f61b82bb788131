// The condition for rows that a reader with LabelLimits may see, for each table of tenants. Invariant: a table whose rows lack the labels
// has no visible row, so an answer can have less than it may, but never more.
import type { LabelLimits, LimitedLabel } from "../../admission/limited-labels.ts";
import { and, type Sql, sql } from "./sql.ts";

/** The map that contains the labels of a row; `names`: its keys are those of series. */
const LABELS: Readonly<Record<string, { readonly map: Sql; readonly source: Sql; readonly isOfSeries?: true }>> = {
  logs: { map: sql`labels`, source: sql`source` },
  spans: { map: sql`attributes`, source: sql`service` },
  exemplars: { map: sql`series`, source: sql`series['service_name']`, isOfSeries: true },
};
/** Summaries of several namespaces and environments. */
const NO_ROW = sql`0`;

export function labelCondition(limits: LabelLimits, table: string): Sql {
  const labels = Object.hasOwn(LABELS, table) ? LABELS[table] : undefined;
  if (!labels) return NO_ROW;
  const valueOf = (label: LimitedLabel): Sql => {
    if (label === "source") return labels.source;
    const read = (name: string): Sql => sql`${labels.map}[${labels.isOfSeries ? name.replaceAll(".", "_") : name}]`;
    if (label !== "deployment.environment.name") return read(label);
    return sql`if(${read(label)} != '', ${read(label)}, ${read("deployment.environment")})`;
  };
  const conditions = Object.entries(limits).map(([label, values]) => sql`${valueOf(label as LimitedLabel)} IN ${values}`);
  return and([sql`1`, ...conditions]);
}
