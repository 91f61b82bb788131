// A deleted organisation is erased from every table of accounts and from the tables and files of the engines, which are read afterwards,
// including compressed blocks. Another organisation keeps all of its rows.
import { randomUUID } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { sql } from "kysely";
import { expect, test } from "vitest";
import { openStores } from "../../../test/conformance/telemetry-stores.ts";
import { filesWith } from "../../../test/fixtures/engine-files.ts";
import { startTestEngine } from "../../../test/fixtures/metrics-engine.ts";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { type ClickHouse, openClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { migrate as migrateClickHouse } from "../../engines/clickhouse/migrate.ts";
import { Sql, sql as statement } from "../../engines/clickhouse/sql.ts";
import { TENANT_TABLES } from "../../engines/clickhouse/tenant-filter.ts";
import { openDatabase } from "../../engines/relational/database.ts";
import { migrate } from "../../engines/relational/migrate.ts";
import { logRecord, logsBody, nanosecondsOf, signingKey, span, stringAttribute, tracesBody } from "../../ingest/otlp/otlp-body.fixture.ts";
import { createLog } from "../../log.ts";
import { VictoriaMetricsStore } from "../../storage/metrics/metric-store.ts";
import { keepMinutes } from "../../storage/traces/keep-minutes.ts";
import { beginDeletion } from "./deletion.ts";
import { DataRemoval, type RemovalTables } from "./removal-loop.ts";
import { OrgRetention } from "./retention.ts";

/** The segments of a journal as they are kept after damage, which begins with their marker. */
async function addDeadLetters(journal: string): Promise<void> {
  const segments = (await readdir(journal)).filter((name) => name.endsWith(".journal"));
  expect(segments).not.toEqual([]);
  for (const name of segments) {
    const content = await readFile(join(journal, name));
    await writeFile(join(journal, "dead-letters", `1-${name}.damaged`), content.fill(0, 0, 20));
  }
}

/** Keeps rows as dead letters, as if the engine had permanently refused them. */
async function refuseRows({ pending }: ClickHouse, orgId: string, text: string): Promise<void> {
  const rows = { count: 1, streamLengths: [], bytes: Buffer.from(text) };
  for (const table of ["logs", "spans"])
    await pending?.openJournal(table, []).keepDeadLetter({ orgId, hostId: "host", bodyHash: undefined, day: 0, columnsId: 0, rows });
}

const log = createLog("silent");
const DAY_MS = 86_400_000;
const DAYS = { logsDays: 30, tracesDays: 30, metricsDays: 30 };

test("neither a table nor a file of the engines contains anything of a deleted organisation", { timeout: 240_000 }, async () => {
  using folder = temporaryFolder();
  const secret = `secret${randomUUID().replaceAll("-", "")}`;
  const [gone, stays] = [randomUUID(), randomUUID()];
  const files = { clickhouse: join(folder.path, "clickhouse"), accounts: join(folder.path, "accounts") };

  await using database = await openDatabase({ dataDir: files.accounts, log });
  await migrate(database);
  const db = database.tables<RemovalTables>();
  for (const id of [gone, stays])
    await db
      .insertInto("orgs")
      .values({ id, name: `of ${id}`, created_at: new Date() })
      .execute();
  const user = { id: randomUUID(), org_id: gone, password_hash: "!", session_epoch: 0, created_at: new Date(), sso_issuer: null };
  await db
    .insertInto("users")
    .values({ ...user, email: `${secret}@x.example`, role: "admin", sso_subject: null })
    .execute();

  await using clickhouse = await openClickHouse({ dataDir: files.clickhouse, threads: 4, log });
  await migrateClickHouse(clickhouse, log);
  // Eight minutes otherwise.
  for (const table of TENANT_TABLES)
    await clickhouse.command(statement`ALTER TABLE ${new Sql(table)} MODIFY SETTING old_parts_lifetime = 1`);
  await using engine = await startTestEngine();
  await using metrics = new VictoriaMetricsStore(engine);
  await using stores = await openStores(clickhouse);
  const now = Date.now();
  for (const [orgId, text] of [
    [gone, secret],
    [stays, "of-another"],
  ] as const) {
    const key = signingKey(orgId);
    const resource = [stringAttribute("service.name", text)];
    for (const ageMs of [0, DAY_MS, 3 * DAY_MS]) {
      const time = nanosecondsOf(new Date(now - ageMs));
      const records = Array.from({ length: 50 }, (_, at) => logRecord(time + BigInt(at), `${text} record ${at}`));
      await stores.ingestLogs(key, logsBody(records, resource), { receivedAt: new Date() });
      const spans = [span(time, "5b8aa5a2d2c872e8321cf37308d69df2", "051581bf3cb55c13", { name: text })];
      await stores.ingestTraces(key, tracesBody(spans, resource), { receivedAt: new Date() });
    }
    await metrics.write(key, Buffer.from(`a_metric{of="${text}"} 1\n`), now);
  }
  await keepMinutes(clickhouse, 30, new AbortController().signal);
  await clickhouse.settle();
  await engine.flush();
  // What the test looks with finds it.
  const found = filesWith(files.clickhouse, secret);
  // Projections among them. Indexes of words are bloom filters, which have hashes only, in the same parts.
  for (const part of ["data/default/logs/", "data/default/spans/", "data/default/span_minutes/", ".proj/"])
    expect(
      found.filter((file) => file.includes(part)),
      part,
    ).not.toEqual([]);
  expect(filesWith(files.accounts, secret)).not.toEqual([]);
  expect(filesWith(engine.dataDir, secret)).not.toEqual([]);
  const rowsOf = async (orgId: string): Promise<number[]> => {
    const counts = TENANT_TABLES.map((table) => statement`SELECT count() AS rows FROM ${new Sql(table)} WHERE org_id = ${orgId}`);
    return await Promise.all(counts.map(async (count) => Number((await clickhouse.query<{ rows: string }>(count))[0]?.rows)));
  };
  const kept = await rowsOf(stays);
  expect(kept.slice(0, 2)).toEqual([150, 3]);

  await addDeadLetters(join(engine.dataDir, "metrics-journal"));
  await refuseRows(clickhouse, gone, secret);
  await refuseRows(clickhouse, stays, "of-another");
  await beginDeletion(db, { orgId: gone, name: `of ${gone}`, by: "root@localhost", at: new Date() });
  const retention = new OrgRetention(DAYS);
  retention.useDatabase(database.tables());
  const scrub = async (): Promise<void> => void (await sql`PRAGMA wal_checkpoint(TRUNCATE)`.execute(db));
  // The background loop sleeps for a day after its first pass; this test runs the other passes.
  await using removal = new DataRemoval({ db, telemetry: { clickhouse }, metrics, retention, scrub, log, everyMs: DAY_MS, quietMs: 0 });
  for (;;) {
    await removal.pass();
    const row = await db.selectFrom("org_deletions").selectAll().where("org_id", "=", gone).executeTakeFirstOrThrow();
    if (row.erased_at) break;
    // Mutations of the engine pass.
    await sleep(100);
  }

  expect(await rowsOf(gone)).toEqual(TENANT_TABLES.map(() => 0));
  expect(await rowsOf(stays)).toEqual(kept);
  expect(await db.selectFrom("orgs").select("id").execute()).toEqual([{ id: stays }]);
  await expect.poll(() => filesWith(files.clickhouse, secret), { timeout: 60_000, interval: 500 }).toEqual([]);
  expect(await readdir(join(files.clickhouse, "journal/logs/dead-letters"))).toHaveLength(1);
  expect(filesWith(files.accounts, secret)).toEqual([]);
  expect((await metrics.query(gone, "query", new URLSearchParams({ query: "a_metric" }))).body.toString()).toContain('"result":[]');
  // The engine's index keeps names and labels until its month leaves with METRICS_RETENTION (docs/guarantees.md). Its journal does not.
  const isOfIndex = (file: string): boolean => file.startsWith("metrics/data/indexdb/");
  const othersOfMetrics = async (): Promise<string[]> => {
    await metrics.erase(gone);
    return filesWith(engine.dataDir, secret).filter((file) => !isOfIndex(file));
  };
  await expect.poll(othersOfMetrics, { timeout: 60_000, interval: 500 }).toEqual([]);
});
