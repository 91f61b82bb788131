// How the tables of logs and spans answer as they grow: node test/bench/storage.ts [--rows 1000000,10000000] [--layouts]
// Fills the shipped tables (50 organisations, one day, rows in the order of their time) on an embedded engine in a temporary folder and
// times the queries of the API through the stores: p50 and p90 of 15, each of another organisation. --layouts
// adds the sort keys and indexes that were not chosen. Figures of a run stand in the comments of backend/engines/clickhouse/migrations/.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { pino } from "pino";
import { type ClickHouse, openClickHouse } from "../../backend/engines/clickhouse/client.ts";
import { migrate } from "../../backend/engines/clickhouse/migrate.ts";
import { sql, Sql } from "../../backend/engines/clickhouse/sql.ts";
import { ClickHouseLogStore } from "../../backend/logs/store.ts";
import { ClickHouseSpanStore } from "../../backend/traces/store.ts";

const ORGS = 50;
const REPETITIONS = 15;
const CHUNK = 250_000;
const { values: options } = parseArgs({
  options: { rows: { type: "string", default: "1000000,10000000" }, layouts: { type: "boolean", default: false } },
});

const dir = await mkdtemp(join(tmpdir(), "atherops-bench-storage-"));
const log = pino({ level: "silent" });
const clickhouse = await openClickHouse({ dataDir: dir, log });

/** Rows `from`..`to` of both tables and, with --layouts, of the others. Row n is of organisation n % 50; traces have 8 spans. */
async function fill(from: number, to: number): Promise<void> {
  if (options.layouts && from === 0) await createLayouts(clickhouse);
  const start = Math.floor(Date.now() / 1000) - 86_400;
  const stepNs = Math.floor(86_400e9 / (to - from));
  for (let at = from; at < to; at += CHUNK) {
    const time = sql`fromUnixTimestamp64Nano(toInt64(${start} * 1000000000 + (number - ${from}) * ${stepNs}), 'UTC')`;
    const rows = sql`FROM numbers(${at}, ${Math.min(CHUNK, to - at)})`;
    const common = sql`concat('org-', toString(number % ${ORGS})) AS org_id, 'host' AS host_id, concat('node-', toString(number % 7)) AS node, now() AS received_at,
      cityHash64(intDiv(number, 1000)) AS body_hash, ${time} AS time, number AS id`;
    const service = sql`concat('service-', toString(cityHash64(number, 1) % 20))`;
    const labels = sql`map('k8s.pod.name', concat('pod-', toString(number % 100)), 'k8s.namespace.name', 'shop', 'http.method', 'GET', 'request.id', hex(cityHash64(number, 2)))`;
    await clickhouse.command(sql`INSERT INTO logs (org_id, host_id, node, received_at, body_hash, time, id, level, severity_number, source, message, labels)
      SELECT ${common}, if(cityHash64(number, 3) % 50 = 0, 'error', 'info'), 9, ${service},
        concat('GET /api/items/', toString(cityHash64(number, 4) % 100000), if(number % 20011 = 17, ' Needle ', ' served '), hex(cityHash64(number, 5)), ' in ', toString(number % 900), ' ms'), ${labels} ${rows}`);
    await clickhouse.command(sql`INSERT INTO spans (org_id, host_id, node, received_at, body_hash, time, id, trace_id, span_id, parent_span_id, service, operation, kind, duration_ns, status_code, attributes)
      SELECT ${common}, ${traceId(sql`number`)}, lower(hex(cityHash64(number, 6))), '', ${service}, concat('GET /', toString(number % 50)), 'SERVER', number % 1000000,
        if(cityHash64(number, 3) % 50 = 0, 'ERROR', 'UNSET'), ${labels} ${rows}`);
    for (const layout of options.layouts ? LAYOUTS : []) {
      await clickhouse.command(sql`INSERT INTO ${new Sql(layout.name)} SELECT * FROM spans WHERE id >= ${at} AND id < ${at + CHUNK}`);
    }
  }
}

/** Eight spans of one organisation, 50 rows apart. */
function traceId(row: Sql): Sql {
  return sql`lower(hex(sipHash128(intDiv(${row}, ${ORGS * 8}), ${row} % ${ORGS})))`;
}

async function measureAll(results: Record<string, Record<string, string>>, column: string): Promise<void> {
  await using logs = await ClickHouseLogStore.open(clickhouse);
  await using spans = await ClickHouseSpanStore.open(clickhouse);
  const page = { limit: 100, after: undefined, labels: [] };
  const hour = () => ({ start: BigInt(Date.now() - 3_600_000) * 1_000_000n, end: BigInt(Date.now()) * 1_000_000n });
  const whole = { start: undefined, end: undefined };
  const [last] = await clickhouse.query<{ top: string }>(sql`SELECT max(id) AS top FROM spans`);
  const idOf = async (org: number) => {
    const row = Math.floor((Number(last?.top) * 0.3) / (ORGS * 8)) * ORGS * 8 + org;
    const [found] = await clickhouse.query<{ id: string }>(sql`SELECT ${traceId(sql`toUInt64(${row})`)} AS id`);
    return found?.id ?? "";
  };
  const ids = await Promise.all(Array.from({ length: REPETITIONS }, (_, index) => idOf((index * 7) % ORGS)));
  const queries: Record<string, (orgId: string, index: number) => Promise<{ rows: unknown[] }>> = {
    "newest 100 spans, last hour": (orgId) => spans.query(orgId, { ...page, range: hour() }),
    "newest 100 spans of a service": (orgId) => spans.query(orgId, { ...page, range: hour(), service: "service-3" }),
    "newest 100 errors, whole day": (orgId) => spans.query(orgId, { ...page, range: whole, error: true }),
    "one trace, whole retention": (orgId, index) => spans.query(orgId, { ...page, range: whole, traceId: ids[index] }),
    "another's trace": (orgId, index) => spans.query(`${orgId}0x`, { ...page, range: whole, traceId: ids[index] }),
    "newest 100 logs, last hour": (orgId) => logs.query(orgId, { ...page, range: hour() }),
    "newest 100 logs of a source": (orgId) => logs.query(orgId, { ...page, range: hour(), source: "service-3" }),
    "text in logs, last hour": (orgId) => logs.query(orgId, { ...page, range: hour(), q: "needle" }),
    "text in logs, whole day": (orgId) => logs.query(orgId, { ...page, range: whole, q: "needle" }),
  };
  for (const layout of options.layouts ? LAYOUTS : []) {
    for (const [name, statement] of Object.entries(layout.queries)) {
      queries[`${layout.name}: ${name}`] = async (orgId, index) => ({ rows: await clickhouse.query(statement(orgId, ids[index] ?? "")) });
    }
  }
  for (const [name, query] of Object.entries(queries)) {
    const times: number[] = [];
    let found = 0;
    for (let index = 0; index < REPETITIONS; index += 1) {
      const started = performance.now();
      found = (await query(`org-${(index * 7) % ORGS}`, index)).rows.length;
      times.push(performance.now() - started);
    }
    times.sort((a, b) => a - b);
    const at = (share: number) => (times[Math.floor(times.length * share)] ?? 0).toFixed(1);
    (results[name] ??= {})[`${column}: p50, p90 ms (rows)`] = `${at(0.5)}, ${at(0.9)} (${found})`;
  }
}

interface Layout {
  name: string;
  table: string;
  queries: Record<string, (orgId: string, traceId: string) => Sql>;
}

const newest = (table: string, order: string) => (orgId: string) =>
  sql`SELECT time, id, trace_id, span_id, service, operation, attributes FROM ${new Sql(table)} WHERE org_id = ${orgId} AND time >= now() - 3600
      ORDER BY ${new Sql(order)} LIMIT 101`;
const ofService = (table: string, order: string) => (orgId: string) =>
  sql`SELECT time, id, trace_id, span_id, service, operation, attributes FROM ${new Sql(table)} WHERE org_id = ${orgId} AND time >= now() - 3600
      AND service = 'service-3' ORDER BY ${new Sql(order)} LIMIT 101`;
const byTrace = (table: string) => (orgId: string, traceId: string) =>
  sql`SELECT time, id, trace_id, span_id, service, operation, attributes FROM ${new Sql(table)} WHERE org_id = ${orgId} AND trace_id = ${traceId}
      ORDER BY time DESC, id DESC LIMIT 101`;

/** What was weighed against the shipped `spans`; {columns} are its own. */
const LAYOUTS: Layout[] = [
  {
    name: "service_in_key",
    table: `{columns}, INDEX f trace_id TYPE bloom_filter(0.001) GRANULARITY 1) ENGINE = MergeTree PARTITION BY toDate(time)
            ORDER BY (org_id, toStartOfFiveMinutes(time), service, time)`,
    queries: {
      newest: newest("service_in_key", "toStartOfFiveMinutes(time) DESC, time DESC, id DESC"),
      "of a service": ofService("service_in_key", "toStartOfFiveMinutes(time) DESC, time DESC, id DESC"),
    },
  },
  {
    name: "no_trace_index",
    table: `{columns}) ENGINE = MergeTree PARTITION BY toDate(time) ORDER BY (org_id, time, id)`,
    queries: { "one trace": byTrace("no_trace_index") },
  },
  {
    name: "trace_projection",
    table: `{columns}, PROJECTION by_trace (SELECT org_id, trace_id, _part_offset ORDER BY org_id, trace_id)) ENGINE = MergeTree
            PARTITION BY toDate(time) ORDER BY (org_id, time, id)`,
    queries: { "one trace": byTrace("trace_projection") },
  },
];

async function createLayouts(clickhouse: ClickHouse): Promise<void> {
  const columns = await clickhouse.query<{ definition: string }>(
    sql`SELECT concat(name, ' ', type, ' ', compression_codec != '' ? concat(compression_codec) : '') AS definition FROM system.columns
        WHERE database = currentDatabase() AND table = 'spans' ORDER BY position`,
  );
  for (const { name, table } of LAYOUTS) {
    await clickhouse.command(
      new Sql(`CREATE TABLE ${name} (${table.replace("{columns}", columns.map(({ definition }) => definition).join(", "))}`),
    );
  }
}

async function sizes(): Promise<unknown[]> {
  return clickhouse.query(
    sql`SELECT table, count() AS parts, sum(rows) AS total, round(sum(bytes_on_disk) / total, 1) AS bytes_a_row FROM system.parts
        WHERE active AND database = currentDatabase() AND rows > 0 GROUP BY table ORDER BY table`,
  );
}

try {
  await migrate(clickhouse, log);
  let filled = 0;
  const results: Record<string, Record<string, string>> = {};
  for (const rows of options.rows.split(",").map(Number)) {
    const started = performance.now();
    await fill(filled, rows);
    filled = rows;
    process.stderr.write(`${rows} rows of each table after ${Math.round((performance.now() - started) / 1000)} s\n`);
    await measureAll(results, `${rows / 1e6} M`);
  }
  console.table(results);
  console.table(await sizes());
} finally {
  await clickhouse[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
}
