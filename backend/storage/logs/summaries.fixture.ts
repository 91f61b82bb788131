// Checks in tests that the counts by minute that ClickHouse keeps with the log records equal a count over the records.
import { expect } from "vitest";
import type { ClickHouse } from "../../engines/clickhouse/client.ts";
import { Sql, sql } from "../../engines/clickhouse/sql.ts";
import { GROUP_NS } from "./minute-counts.ts";

/** Resolves to the number of records. Fails if a summary differs or a part has no summary. */
export async function expectExactSummaries(clickhouse: ClickHouse): Promise<number> {
  const counts = async (settings: string) =>
    await clickhouse.query<{ n: string }>(
      sql`SELECT * FROM (SELECT org_id, source, level, host_id, intDiv(${GROUP_NS}, 60000000000) AS minute, count() AS n
        FROM logs GROUP BY org_id, source, level, host_id, minute SETTINGS ${new Sql(settings)})
        ORDER BY org_id, source, level, host_id, minute`,
    );
  const rows = await counts("optimize_use_projections = 0");
  expect(await counts("optimize_use_projections = 1")).toEqual(rows);
  const [parts] = await clickhouse.query<{ rows: string; summarised: string }>(
    sql`SELECT (SELECT sum(rows) FROM system.parts WHERE active AND table = 'logs' AND database = currentDatabase()) AS rows,
      (SELECT sum(parent_rows) FROM system.projection_parts WHERE active AND table = 'logs' AND name = 'counts' AND database = currentDatabase())
        AS summarised`,
  );
  expect(parts?.summarised).toBe(parts?.rows);
  return rows.reduce((sum, { n }) => sum + Number(n), 0);
}
