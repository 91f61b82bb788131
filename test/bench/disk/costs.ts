// Measures the cost of each index, projection and separate column: the same rows are inserted into copies of the table that lack one of
// them. Figures are CPU of the inserts without merges, CPU of one merge of all parts, and bytes on disk; in turns, medians.
import { LOG_COLUMNS, SPAN_COLUMNS } from "../../../backend/storage/table-columns.ts";
import { decodeWithHash } from "../../../backend/ingest/otlp/otlp-body.fixture.ts";
import type { ClickHouse } from "../../../backend/engines/clickhouse/clickhouse-client.ts";
import { Sql, sql } from "../../../backend/engines/clickhouse/sql.ts";
import { markdown, shown, summary } from "../../fixtures/measure.ts";
import { LoadBody } from "../../fixtures/otlp-load.ts";
import { batch } from "../questions/records.ts";

const BODY_RECORDS = 1000;
const COMMIT_BODIES = 20;
const TABLES = { logs: { signal: "logs", columns: LOG_COLUMNS }, spans: { signal: "traces", columns: SPAN_COLUMNS } } as const;
type Table = keyof typeof TABLES;

interface Cost {
  readonly insertUs: number;
  readonly mergeUs: number;
  readonly bytes: number;
}

/** A Markdown table for each of both tables. */
export async function costs(clickhouse: ClickHouse, records: number, rounds: number): Promise<string> {
  const tables: string[] = [];
  for (const table of Object.keys(TABLES) as Table[]) {
    const commits = Array.from({ length: records / (COMMIT_BODIES * BODY_RECORDS) }, (_, index) => commitOf(table, index));
    const variants = new Map<string, string>([["everything", ""], ...(await parts(clickhouse, table))]);
    const measured = new Map([...variants.keys()].map((name) => [name, [] as Cost[]]));
    for (let round = 0; round < rounds; round += 1) {
      const order = [...variants];
      for (const [name, drop] of round % 2 === 0 ? order : order.toReversed())
        measured.get(name)?.push(await costOf(clickhouse, table, drop, commits));
    }
    const rows = [...measured].map(([name, found]) => [name === "everything" ? name : `without ${name}`, rowOf(found)] as const);
    tables.push(`### ${table}\n${markdown(Object.fromEntries(rows))}`);
  }
  return tables.join("\n\n");
}

function rowOf(found: readonly Cost[]): Record<string, string> {
  return {
    "insert, µs a row": shown(
      found.map(({ insertUs }) => insertUs),
      2,
    ),
    "merge, µs a row": shown(
      found.map(({ mergeUs }) => mergeUs),
      2,
    ),
    "bytes a row": summary(found.map(({ bytes }) => bytes)).median.toFixed(2),
  };
}

/** What can be dropped of a table, each with its statement, and all columns that are computed from a map as one. */
async function parts(clickhouse: ClickHouse, table: Table): Promise<[string, string][]> {
  const names = async (statement: Sql) => (await clickhouse.query<{ name: string }>(statement)).map(({ name }) => name);
  const own = sql`database = currentDatabase() AND table = ${table}`;
  const indices = await names(sql`SELECT name FROM system.data_skipping_indices WHERE ${own}`);
  const projections = await names(sql`SELECT name FROM system.projections WHERE ${own}`);
  const columns = await names(sql`SELECT name FROM system.columns WHERE ${own} AND default_kind = 'MATERIALIZED'`);
  return [
    ...indices.map((name): [string, string] => [`index ${name}`, `DROP INDEX ${name}`]),
    ...projections.map((name): [string, string] => [`projection ${name}`, `DROP PROJECTION ${name}`]),
    ...(columns.length > 0
      ? [[`${columns.length} columns of attributes`, columns.map((name) => `DROP COLUMN ${name}`).join(", ")] as [string, string]]
      : []),
  ];
}

function commitOf(table: Table, index: number) {
  const { signal } = TABLES[table];
  const origin = { orgId: "organisation-of-usual-length", hostId: "host-of-usual-length", node: "node-1", receivedAtMs: Date.now() };
  return Array.from({ length: COMMIT_BODIES }, (_, number) => {
    const first = (index * COMMIT_BODIES + number) * BODY_RECORDS;
    const numbers = Array.from({ length: BODY_RECORDS }, (_record, record) => first + record);
    const timeOf = (record: number): bigint => BigInt(origin.receivedAtMs) * 1_000_000n + BigInt(record) * 100_000n;
    const body = table === "logs" ? batch("short", numbers, timeOf, -1).json() : new LoadBody("spans", BODY_RECORDS, `pod-${first}`).next();
    const context = { ...origin, firstId: String(first + 1), bodyHash: String(first + 1), retentionDays: 30 };
    return decodeWithHash({ signal, body: Buffer.from(body), context }).sections;
  }).flat();
}

async function costOf(clickhouse: ClickHouse, table: Table, drop: string, commits: readonly ReturnType<typeof commitOf>[]): Promise<Cost> {
  const copy = new Sql(`${table}_copy`);
  await clickhouse.command(sql`CREATE TABLE ${copy} AS ${new Sql(table)}`);
  if (drop !== "") await clickhouse.command(sql`ALTER TABLE ${copy} ${new Sql(drop)}`);
  await clickhouse.command(sql`SYSTEM STOP MERGES ${copy}`);
  const rows = commits.length * COMMIT_BODIES * BODY_RECORDS;
  const insertUs = await cpuUs(async () => {
    for (const commit of commits) await clickhouse.insert({ table: copy.text, columns: TABLES[table].columns, rows: commit });
  });
  await clickhouse.command(sql`SYSTEM START MERGES ${copy}`);
  const mergeUs = await cpuUs(() => clickhouse.command(sql`OPTIMIZE TABLE ${copy} FINAL`));
  const [found] = await clickhouse.query<{ bytes: string; rows: string }>(
    sql`SELECT sum(bytes_on_disk) AS bytes, sum(rows) AS rows FROM system.parts WHERE active AND table = ${copy.text}`,
  );
  if (Number(found?.rows) !== rows) throw new Error(`${found?.rows} of ${rows} rows are stored`);
  await clickhouse.command(sql`DROP TABLE ${copy} SYNC`);
  return { insertUs: insertUs / rows, mergeUs: mergeUs / rows, bytes: Number(found?.bytes) / rows };
}

/** User and system time of this process, in which the engine runs. */
async function cpuUs(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}
