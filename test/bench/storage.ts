// `npm run bench -- storage [--rows 1000000,10000000] [--repetitions 45] [--layouts]`: how the tables of logs and spans answer as they
// grow. Each size has an engine in a process of its own with the shipped tables: one day of 50 organisations, inserted in the order of
// time by commits of 20,000 rows, and left until its merges have ended. The queries of the API then go through the stores in turns,
// each repetition for another organisation, to every size in turn. p50 with least and most; the ratio is to the first size. Reach: ≤
// 1.3. --layouts adds the sort keys and indexes that were not chosen. The same file is the process of a size.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type ClickHouse, openClickHouse } from "../../backend/engines/clickhouse/client.ts";
import { migrate } from "../../backend/engines/clickhouse/migrate.ts";
import { sql, Sql } from "../../backend/engines/clickhouse/sql.ts";
import { createLog } from "../../backend/operations/log.ts";
import { ClickHouseLogStore } from "../../backend/storage/logs/store.ts";
import type { Found } from "../../backend/storage/page.ts";
import { ClickHouseSpanStore } from "../../backend/storage/traces/store.ts";
import { report, shown, summary } from "../fixtures/measure.ts";
import { temporaryFolder } from "../fixtures/processes.ts";

const ORGS = 50;
/** A few of the commits of a busy backend, which have 2,000 to 8,000 rows (otlp-ingest), for the sake of the time that filling takes. */
const COMMIT_ROWS = 20_000;
const MERGE_POLL_MS = 500;
const DAY_S = 86_400;
const HOUR_MS = 3_600_000;

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rows: { type: "string", default: "1000000,10000000" },
    repetitions: { type: "string", default: "45" },
    layouts: { type: "boolean", default: false },
  },
});
const sizes = options.rows.split(",").map(Number);

interface Question {
  readonly query: string;
  readonly repetition: number;
}

interface Answer {
  readonly ms: number;
  readonly cpuMs: number;
  readonly rows: number;
}

/** What a filled size says of itself: the names of its queries, parts and bytes a row by table. */
interface Filled {
  readonly queries: readonly string[];
  readonly tables: readonly { table: string; parts: string; bytes_a_row: number }[];
}

interface Size {
  readonly child: ChildProcess;
  /** Rejects. */
  readonly ended: Promise<never>;
}

function start(folder: string, rows: number): Size {
  const child = fork(import.meta.filename, [`${folder}/${rows}`, "--rows", String(rows), ...(options.layouts ? ["--layouts"] : [])], {
    env: { ...process.env, UV_THREADPOOL_SIZE: "8" },
  });
  const ended = once(child, "exit").then(([code]) => Promise.reject(new Error(`the engine's process ended with ${String(code)}`)));
  // Told by whoever waits for an answer then.
  ended.catch(() => undefined);
  return { child, ended };
}

async function compare(): Promise<void> {
  using folder = temporaryFolder();
  const children: Size[] = [];
  try {
    const filled: Filled[] = [];
    for (const rows of sizes) {
      const size = start(folder.path, rows);
      children.push(size);
      const startedAt = performance.now();
      filled.push((await answerOf(size)) as Filled);
      process.stderr.write(`${rows} rows of each table, merges ended: ${Math.round((performance.now() - startedAt) / 1000)} s\n`);
    }
    const table: Record<string, Record<string, string>> = {};
    for (const query of filled[0]?.queries ?? []) table[query] = await askAll(children, query);
    for (const index of sizes.keys()) console.table(filled[index]?.tables);
    report("storage", { ...options, sizes }, table);
  } finally {
    for (const { child } of children) if (child.connected) child.disconnect();
    await Promise.allSettled(children.map(({ ended }) => ended));
  }
}

async function askAll(children: readonly Size[], query: string): Promise<Record<string, string>> {
  const answers: Answer[][] = children.map(() => []);
  const ask = async (index: number, repetition: number): Promise<Answer> => {
    const size = children[index] as Size;
    const answer = answerOf(size);
    size.child.send({ query, repetition } satisfies Question);
    return (await answer) as Answer;
  };
  for (const index of children.keys()) await ask(index, 0);
  for (let repetition = 0; repetition < Number(options.repetitions); repetition += 1) {
    const order = [...children.keys()];
    for (const index of repetition % 2 === 0 ? order : order.toReversed()) answers[index]?.push(await ask(index, repetition));
  }
  const row: Record<string, string> = {};
  const medians = (of: readonly Answer[]): number[] => [
    summary(of.map(({ ms }) => ms)).median,
    summary(of.map(({ cpuMs }) => cpuMs)).median,
  ];
  const [firstMs = 0, firstCpuMs = 0] = medians(answers[0] ?? []);
  for (const [index, rows] of sizes.entries()) {
    const own = answers[index] ?? [];
    const [ms = 0, cpuMs = 0] = medians(own);
    const times = own.map((answer) => answer.ms);
    row[`${rows / 1e6} M: p50 ms`] = `${shown(times, 1)}, CPU ${cpuMs.toFixed(1)}, ${own.at(-1)?.rows} rows`;
    if (index > 0) row[`÷ ${(sizes[0] ?? 0) / 1e6} M`] = `${(ms / firstMs).toFixed(2)}, CPU ${(cpuMs / firstCpuMs).toFixed(2)}`;
  }
  return row;
}

async function answerOf({ child, ended }: Size): Promise<unknown> {
  return ((await Promise.race([once(child, "message"), ended])) as [unknown])[0];
}

// ---- the process of a size

async function serve(dataDir: string, rows: number): Promise<void> {
  const log = createLog("silent");
  const clickhouse = await openClickHouse({ dataDir, log, threads: 8 });
  await migrate(clickhouse, log);
  await fill(clickhouse, rows);
  await mergesEnd(clickhouse);
  const logs = await ClickHouseLogStore.open(clickhouse);
  const spans = await ClickHouseSpanStore.open(clickhouse, 30);
  const queries = await queriesOf(clickhouse, logs, spans, rows);
  process.on("message", ({ query, repetition }: Question) => {
    void (async () => {
      const cpu = process.cpuUsage();
      const startedAt = performance.now();
      const org = (repetition * 7) % ORGS;
      const found = await queries[query]?.(`org-${org}`, org);
      const ms = performance.now() - startedAt;
      const { user, system } = process.cpuUsage(cpu);
      process.send?.({ ms, cpuMs: (user + system) / 1000, rows: found?.length ?? 0 } satisfies Answer);
    })();
  });
  process.on("disconnect", () => {
    void (async () => {
      await logs[Symbol.asyncDispose]();
      await spans[Symbol.asyncDispose]();
      await clickhouse[Symbol.asyncDispose]();
    })();
  });
  process.send?.({ queries: Object.keys(queries), tables: await tableSizes(clickhouse) } satisfies Filled);
}

/** Both tables and, with --layouts, the others. Row n is of organisation n % 50; traces have 8 spans. */
async function fill(clickhouse: ClickHouse, count: number): Promise<void> {
  if (options.layouts) await createLayouts(clickhouse);
  const start = Math.floor(Date.now() / 1000) - DAY_S;
  const stepNs = Math.floor((DAY_S * 1e9) / count);
  for (let at = 0; at < count; at += COMMIT_ROWS) {
    const time = sql`fromUnixTimestamp64Nano(toInt64(${start} * 1000000000 + number * ${stepNs}), 'UTC')`;
    const rows = sql`FROM numbers(${at}, ${Math.min(COMMIT_ROWS, count - at)})`;
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
      await clickhouse.command(sql`INSERT INTO ${new Sql(layout.name)} SELECT * FROM spans WHERE id >= ${at} AND id < ${at + COMMIT_ROWS}`);
    }
  }
}

/** Eight spans of one organisation, 50 rows apart. */
function traceId(row: Sql): Sql {
  return sql`lower(hex(sipHash128(intDiv(${row}, ${ORGS * 8}), ${row} % ${ORGS})))`;
}

/** Two readings without a merge, one after the other: the engine looks for the next merge in between. */
async function mergesEnd(clickhouse: ClickHouse): Promise<void> {
  for (let quiet = 0; quiet < 20;) {
    const [row] = await clickhouse.query<{ running: string }>(sql`SELECT count() AS running FROM system.merges`);
    quiet = row?.running === "0" ? quiet + 1 : 0;
    await sleep(MERGE_POLL_MS);
  }
}

async function queriesOf(clickhouse: ClickHouse, logs: ClickHouseLogStore, spans: ClickHouseSpanStore, count: number) {
  const page = { limit: 100, after: undefined, labels: [] };
  // The last hour of the rows, however long filling took.
  const [newest] = await clickhouse.query<{ ns: string }>(sql`SELECT toUnixTimestamp64Nano(max(time)) AS ns FROM spans`);
  const end = BigInt(newest?.ns ?? 0);
  const hour = { start: end - BigInt(HOUR_MS) * 1_000_000n, end };
  const whole = { start: undefined, end: undefined };
  // A trace of each organisation, from the middle of the day.
  const block = Math.floor((count * 0.3) / (ORGS * 8)) * ORGS * 8;
  const found = await clickhouse.query<{ id: string }>(sql`SELECT ${traceId(sql`number`)} AS id FROM numbers(${block}, ${ORGS})`);
  const ids = found.map(({ id }) => id);
  const queries: Record<string, (orgId: string, org: number) => Promise<unknown[]>> = {
    "newest 100 spans": (orgId) => rowsOf(spans.query(orgId, { ...page, range: hour })),
    "newest 100 spans of a service": (orgId) => rowsOf(spans.query(orgId, { ...page, range: hour, service: "service-3" })),
    "newest 100 errors, whole day": (orgId) => rowsOf(spans.query(orgId, { ...page, range: whole, error: true })),
    "one trace, whole retention": (orgId, org) => rowsOf(spans.query(orgId, { ...page, range: whole, traceId: ids[org] })),
    "no span of a service, whole day": (orgId) => rowsOf(spans.query(orgId, { ...page, range: whole, service: "service-x" })),
    "another's trace": (orgId, org) => rowsOf(spans.query(`${orgId}0x`, { ...page, range: whole, traceId: ids[org] })),
    "newest 100 logs": (orgId) => rowsOf(logs.query(orgId, { ...page, range: hour })),
    "newest 100 logs of a source": (orgId) => rowsOf(logs.query(orgId, { ...page, range: hour, source: "service-3" })),
    "no log of a source, whole day": (orgId) => rowsOf(logs.query(orgId, { ...page, range: whole, source: "service-x" })),
    "newest 100 logs with a text": (orgId) => rowsOf(logs.query(orgId, { ...page, range: hour, q: ["served"] })),
    "rare text in an hour's logs": (orgId) => rowsOf(logs.query(orgId, { ...page, range: hour, q: ["needle"] })),
    "rare text in a day's logs": (orgId) => rowsOf(logs.query(orgId, { ...page, range: whole, q: ["needle"] })),
  };
  for (const layout of options.layouts ? LAYOUTS : []) {
    for (const [name, statement] of Object.entries(layout.queries)) {
      queries[`${layout.name}: ${name}`] = (orgId, org) => clickhouse.query(statement(orgId, ids[org] ?? ""));
    }
  }
  return queries;
}

async function rowsOf(page: Promise<Found>): Promise<unknown[]> {
  return JSON.parse((await page).json.toString()) as unknown[];
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

async function tableSizes(clickhouse: ClickHouse): Promise<Filled["tables"]> {
  return clickhouse.query(
    sql`SELECT table, count() AS parts, round(sum(bytes_on_disk) / sum(rows), 1) AS bytes_a_row FROM system.parts
        WHERE active AND database = currentDatabase() AND rows > 1000 GROUP BY table ORDER BY table`,
  );
}

if (process.send === undefined) await compare();
else await serve(positionals[0] as string, sizes[0] as number);
