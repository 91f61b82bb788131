// Rows of several organisations in every table that the backend fills, and statements without any condition, for tests of the condition
// that the engine adds.
import type { Shard } from "./clickhouse-client.ts";
import { sql } from "./sql.ts";

export const ORGS = ["blue", "red", "it's"];

/** Each returns one column `org`; none has a condition. */
export const UNCONDITIONAL = [
  sql`SELECT org_id AS org FROM logs`,
  sql`SELECT l.org_id AS org FROM logs AS l`,
  sql`SELECT org_id AS org FROM span_operations FINAL`,
  sql`SELECT source AS org FROM logs WHERE message != ''`,
  sql`SELECT org FROM (SELECT org_id AS org FROM (SELECT * FROM spans))`,
  sql`SELECT service AS org FROM span_operations`,
  sql`SELECT org_id AS org FROM logs UNION ALL SELECT service AS org FROM spans UNION ALL SELECT service AS org FROM span_operations`,
  sql`WITH own AS (SELECT org_id AS org FROM logs) SELECT org FROM own UNION ALL SELECT org FROM own`,
  sql`WITH (SELECT max(org_id) FROM logs) AS org SELECT org`,
  sql`SELECT arrayJoin([logs.org_id, o.org_id]) AS org FROM logs JOIN span_operations AS o ON 1 = 1 LIMIT 100000`,
  sql`SELECT arrayJoin([logs.org_id, o.org_id]) AS org FROM logs CROSS JOIN span_operations AS o LIMIT 100000`,
  sql`SELECT arrayJoin([logs.org_id, o.org_id]) AS org FROM logs, span_operations AS o LIMIT 100000`,
  sql`SELECT o.org_id AS org FROM spans LEFT JOIN span_operations AS o ON spans.service = o.service`,
  sql`SELECT o.org_id AS org FROM spans RIGHT JOIN span_operations AS o ON spans.service = o.service`,
  sql`SELECT arrayJoin([spans.org_id, o.org_id]) AS org FROM spans FULL JOIN span_operations AS o ON spans.service = o.service`,
  sql`SELECT service AS org FROM span_operations WHERE service IN (SELECT source FROM logs)`,
  sql`SELECT arrayJoin((SELECT groupUniqArray(org_id) FROM spans)) AS org FROM numbers(1)`,
  sql`SELECT org_id AS org FROM logs ARRAY JOIN [1] AS one`,
  // Reads the projection of counts.
  sql`SELECT org FROM (SELECT source AS org, count() AS n FROM logs GROUP BY source)`,
  sql`SELECT org_id AS org FROM logs WHERE hasToken(lower(message), 'blue') OR 1`,
  sql`SELECT org_id AS org FROM logs ORDER BY time DESC, id DESC LIMIT 100`,
];

/** Inserts `rows` records and spans, and an operation, for each organisation. */
export async function fillTenants(clickhouse: Shard, rows: number): Promise<void> {
  const time = sql`toDateTime64('2026-01-01 00:00:00', 9, 'UTC') + number / 10 AS time, number AS id`;
  for (const org of ORGS) {
    const from = sql`FROM numbers(${rows})`;
    await clickhouse.command(sql`INSERT INTO logs (org_id, time, id, source, message) SELECT ${org}, ${time}, ${org}, ${org} ${from}`);
    await clickhouse.command(sql`INSERT INTO spans (org_id, time, id, service, trace_id) SELECT ${org}, ${time}, ${org}, '1' ${from}`);
    await clickhouse.command(
      sql`INSERT INTO span_operations (org_id, service, operation, kind, time) SELECT ${org}, ${org}, 'o', 'k', now()`,
    );
    for (const table of [sql`span_minutes`, sql`service_edges`, sql`exemplars`])
      await clickhouse.command(sql`INSERT INTO ${table} (org_id, time) SELECT ${org}, now()`);
  }
}
