// Whether the summaries that ClickHouse keeps with the spans are what a pass over the spans gives, for tests.
import { expect } from "vitest";
import type { ClickHouse } from "../../engines/clickhouse/client.ts";
import { Sql, sql } from "../../engines/clickhouse/sql.ts";
import { DURATION_ARRAY, DURATION_BUCKETS, DURATION_SUM } from "./histogram.ts";
import { ENTRY, MINUTE } from "./red.ts";

const SUMMARIES = {
  minutes: sql`SELECT org_id, ${MINUTE} AS minute, service, operation, kind, status_code, ${ENTRY} AS is_entry, count() AS n,
    ${DURATION_SUM} AS total_ns, ${DURATION_BUCKETS} AS buckets
    FROM spans GROUP BY org_id, minute, service, operation, kind, status_code, is_entry`,
  service_minutes: sql`SELECT org_id, ${MINUTE} AS minute, service, ${ENTRY} AS is_entry, count() AS n, sum(status_code IN ('ERROR')) AS errors,
    ${DURATION_ARRAY} AS buckets FROM spans GROUP BY org_id, minute, service, is_entry`,
};

/** Resolves to how many spans there are. Fails where a summary differs, or a part has none. */
export async function expectExactSpanSummaries(clickhouse: ClickHouse): Promise<number> {
  const [all] = await clickhouse.query<{ n: string }>(sql`SELECT sum(rows) AS n FROM system.parts
    WHERE active AND table = 'spans' AND database = currentDatabase()`);
  for (const [name, summary] of Object.entries(SUMMARIES)) {
    // Compared by a hash, because there may be very many groups.
    const read = async (settings: string) =>
      await clickhouse.query(sql`SELECT * FROM (SELECT count() AS groups, sum(n) AS spans, groupBitXor(sipHash64(toString(tuple(*)))) AS hash
        FROM (${summary}) SETTINGS ${new Sql(settings)})`);
    const summarised = await read(`force_optimize_projection_name = ${sql`${name}`.text}`);
    expect(summarised, name).toEqual(await read("optimize_use_projections = 0"));
    const [parts] = await clickhouse.query<{ n: string }>(sql`SELECT sum(parent_rows) AS n FROM system.projection_parts
      WHERE active AND table = 'spans' AND name = ${name} AND database = currentDatabase()`);
    expect(parts?.n, name).toBe(all?.n);
  }
  return Number(all?.n);
}
