// Checks in tests that the counts by minute that ClickHouse keeps with the spans equal a count over the spans.
import { expect } from "vitest";
import type { ClickHouse } from "../../engines/clickhouse/client.ts";
import { Sql, sql } from "../../engines/clickhouse/sql.ts";
import { DURATION_BUCKETS, DURATION_SUM } from "./histogram.ts";
import { ENTRY, MINUTE, SERVICE_FIGURES } from "./red.ts";

const MINUTES = sql`SELECT org_id, ${MINUTE} AS minute, service, operation, kind, status_code, ${ENTRY} AS is_entry, count() AS n,
  ${DURATION_SUM} AS total_ns, ${DURATION_BUCKETS} AS buckets
  FROM spans GROUP BY org_id, minute, service, operation, kind, status_code, is_entry`;

const SERVICES = sql`SELECT org_id, ${MINUTE} AS minute, service, calls AS n, ${SERVICE_FIGURES} FROM spans GROUP BY org_id, minute, service`;

/** Resolves to the number of spans. Fails if a summary differs or a part has no summary. */
export async function expectExactSpanSummaries(clickhouse: ClickHouse): Promise<number> {
  let rows = 0;
  for (const [name, groups] of [
    ["minutes", MINUTES],
    ["services", SERVICES],
  ] as const) {
    // Compares a hash, because there may be very many groups.
    const read = async (settings: string) =>
      await clickhouse.query(sql`SELECT * FROM (SELECT count() AS groups, sum(n) AS spans, groupBitXor(sipHash64(toString(tuple(*)))) AS hash
        FROM (${groups}) SETTINGS ${new Sql(settings)})`);
    expect(await read(`force_optimize_projection_name = '${name}'`)).toEqual(await read("optimize_use_projections = 0"));
    const [parts] = await clickhouse.query<{ rows: string; summarised: string }>(
      sql`SELECT (SELECT sum(rows) FROM system.parts WHERE active AND table = 'spans' AND database = currentDatabase()) AS rows,
        (SELECT sum(parent_rows) FROM system.projection_parts WHERE active AND table = 'spans' AND name = ${name} AND database = currentDatabase())
          AS summarised`,
    );
    expect(parts?.summarised).toBe(parts?.rows);
    rows = Number(parts?.rows);
  }
  return rows;
}
