import { readdirSync } from "node:fs";
import * as fc from "fast-check";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type BothWays, openBothWays } from "./both-ways.fixture.ts";
import type { ClickHouse } from "./clickhouse-client.ts";
import { applyMergeSync, applyRetention, migrate } from "./migrate.ts";
import { type NativeColumns, nativeRows } from "./native-block.ts";
import { Int64Column, StringColumn } from "./native-columns.ts";
import { sql, Sql } from "./sql.ts";

const COLUMNS = [
  ["n", "UInt64"],
  ["d", "String"],
] as const satisfies NativeColumns;

const MIGRATIONS = readdirSync(new URL("./migrations/", import.meta.url))
  .map((name) => Number(name.slice(0, 3)))
  .toSorted((a, b) => a - b);

describe("ClickHouse, embedded and over HTTP", () => {
  const log = pino({ level: "silent" });
  let clients: BothWays;

  beforeAll(async () => {
    clients = await openBothWays({ insertIntervalMs: 500 });
  });

  afterAll(async () => await clients[Symbol.asyncDispose]());

  it("delay small inserts only over HTTP", () => {
    expect([clients.embedded.insertIntervalMs, clients.http.insertIntervalMs]).toEqual([undefined, 500]);
  });

  it("run every migration once when several replicas start together", async () => {
    await Promise.all([clients.embedded, clients.http, clients.http, clients.embedded].map((client) => migrate(client, log)));
    await migrate(clients.http, log);
    const applied = await clients.embedded.query(
      sql`SELECT number, count() AS times FROM schema_migrations GROUP BY number ORDER BY number`,
    );
    expect(MIGRATIONS.length).toBeGreaterThan(5);
    expect(applied).toEqual(MIGRATIONS.map((number) => ({ number, times: "1" })));
    expect(await clients.http.query(sql`SELECT name FROM system.tables WHERE name = 'schema_migration_lock'`)).toEqual([]);
  });

  it("wait for a slow replica", async () => {
    await clients.http.command(sql`TRUNCATE TABLE schema_migrations`);
    const [row] = await clients.http.query<{ now: number }>(sql`SELECT toUnixTimestamp(now()) AS now`);
    await clients.http.command(sql`CREATE TABLE schema_migration_lock (held UInt8) ENGINE = Memory COMMENT ${String(row?.now)}`);
    let looks = 0;
    const query: ClickHouse["query"] = async (statement) => {
      if (statement.text.includes("system.tables")) looks += 1;
      return await clients.http.query(statement);
    };
    const migrated = migrate({ ...clients.http, query }, log);
    await expect.poll(() => looks, { timeout: 30_000 }).toBeGreaterThan(2);
    expect(await clients.http.query(sql`SELECT number FROM schema_migrations`)).toEqual([]);
    await clients.http.command(sql`DROP TABLE schema_migration_lock`);
    await migrated;
    expect(await clients.http.query(sql`SELECT number FROM schema_migrations ORDER BY number`)).toHaveLength(MIGRATIONS.length);
  });

  it("take over the lock of a replica that died while migrating", async () => {
    await clients.http.command(sql`TRUNCATE TABLE schema_migrations`);
    await clients.http.command(sql`CREATE TABLE schema_migration_lock (held UInt8) ENGINE = Memory`);
    await migrate(clients.http, log, { lockExpiryS: -1 });
    expect(await clients.http.query(sql`SELECT number FROM schema_migrations ORDER BY number`)).toEqual(
      MIGRATIONS.map((number) => ({ number })),
    );
  });

  it("fsync merges of new tables, and of those that an earlier version created", async () => {
    const isSynced = async (name: string) => {
      const [row] = await clients.http.query<{ engine_full: string }>(sql`SELECT engine_full FROM system.tables WHERE name = ${name}`);
      return row?.engine_full.includes("min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1");
    };
    await clients.http.command(
      sql`CREATE TABLE of_an_earlier_version (n UInt8) ENGINE = MergeTree ORDER BY n SETTINGS fsync_after_insert = 1`,
    );
    expect([await isSynced("logs"), await isSynced("spans"), await isSynced("of_an_earlier_version")]).toEqual([true, true, false]);
    for (let start = 0; start < 2; start++) await applyMergeSync(clients.http, ["logs", "of_an_earlier_version"], log);
    expect(await isSynced("of_an_earlier_version")).toBe(true);
    await clients.http.command(sql`DROP TABLE of_an_earlier_version`);
  });

  it("set the retention of a table only if it differs", async () => {
    const definition = async () => {
      const [row] = await clients.http.query<{ ttl: string; at: string }>(
        sql`SELECT extract(engine_full, 'TTL (.*) SETTINGS') AS ttl, metadata_modification_time AS at FROM system.tables WHERE name = 'logs'`,
      );
      return row;
    };
    await applyRetention(clients.embedded, { logs: 30 }, log);
    expect((await definition())?.ttl).toBe("toDateTime(time) + toIntervalDay(30)");
    await applyRetention(clients.http, { logs: 7 }, log);
    const seven = await definition();
    expect(seven?.ttl).toBe("toDateTime(time) + toIntervalDay(7)");
    await applyRetention(clients.http, { logs: 7 }, log);
    expect(await definition()).toEqual(seven);
    // An operator's tiering is kept, on each start and when the retention changes.
    const move = "toDateTime(time) + toIntervalDay(2) TO VOLUME 'default'";
    await clients.http.command(new Sql(`ALTER TABLE logs MODIFY TTL toDateTime(time) + toIntervalDay(7), ${move}`));
    const tiered = await definition();
    await applyRetention(clients.http, { logs: 7 }, log);
    expect(await definition()).toEqual(tiered);
    await applyRetention(clients.http, { logs: 9 }, log);
    expect((await definition())?.ttl).toBe(`toDateTime(time) + toIntervalDay(9), ${move}`);
  });

  it.each(["embedded", "http"] as const)("%s: keep any text in a literal unchanged", async (name) => {
    const anyText = fc.oneof(
      fc.string({ unit: "binary", maxLength: 30 }),
      fc.string({ unit: fc.constantFrom("'", "\\", "\0", "\n", "{x:String}", "%", "a"), maxLength: 12 }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(anyText, { minLength: 1, maxLength: 5 }), async (texts) => {
        const wellFormed = texts.map((text) => text.toWellFormed());
        const [row] = await clients[name].query(
          sql`SELECT ${wellFormed[0] as string} AS one, ${wellFormed} AS many, ${9_007_199_254_740_993n} AS big`,
        );
        expect(row).toEqual({ one: wellFormed[0], many: wellFormed, big: "9007199254740993" });
      }),
      { numRuns: 50 },
    );
  });

  it.each(["embedded", "http"] as const)("%s: insert one block, and a rejected one leaves nothing", async (name) => {
    const table = `t_${name}`;
    await clients[name].command(sql`CREATE TABLE ${new Sql(table)} (n UInt64, d Date) ENGINE = MergeTree PARTITION BY d ORDER BY n`);
    const section = (count: number) => {
      const [numbers, days] = [new Int64Column(), new StringColumn()];
      for (let n = 0; n < count; n += 1) {
        numbers.addNumber(n);
        days.add(`2026-11-2${n % 2}`);
      }
      return nativeRows([numbers, days], count);
    };
    await clients[name].insert({ table, columns: COLUMNS, rows: [section(150_000), section(50_000)] });
    const parts = await clients[name].query(
      sql`SELECT count() AS parts, sum(rows) AS rows FROM system.parts WHERE table = ${table} AND level = 0`,
    );
    expect(parts).toEqual([{ parts: "2", rows: "200000" }]);
    const text = [new StringColumn(), new StringColumn()];
    for (const column of text) column.add("1");
    const refused = clients[name].insert({
      table,
      columns: [
        ["n", "String"],
        ["d", "String"],
      ],
      rows: [nativeRows(text, 1)],
    });
    await expect(refused).rejects.toMatchObject({ code: "unstorable", status: 400 });
    expect(await clients[name].query(sql`SELECT count() AS n FROM system.parts WHERE table = ${table} AND partition LIKE '1970%'`)).toEqual(
      [{ n: "0" }],
    );
  });

  it.each(["embedded", "http"] as const)("%s: report any other failure as storage_unavailable, with its cause", async (name) => {
    await expect(clients[name].query(sql`SELECT * FROM missing`)).rejects.toMatchObject({
      code: "storage_unavailable",
      status: 502,
      retryAfterS: 5,
      cause: expect.objectContaining({ type: "UNKNOWN_TABLE" }),
    });
    await clients[name].ping();
  });
});
