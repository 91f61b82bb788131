import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sql, type TableMetadata } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import { NO_POSTGRES, postgresBinaries, PostgresServer, relationalEngines, required } from "../../../test/fixtures/postgres.ts";
import { createLog } from "../../log.ts";
import { openDatabase, type Database } from "./database.ts";
import { migrate } from "./migrate.ts";

const log = createLog("silent");

function migrationsFolder(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), "atherops-migrations-"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

async function count(database: Database, table: string): Promise<number> {
  const { rows } = await sql<{ count: number | string }>`SELECT count(*) AS count FROM ${sql.table(table)}`.execute(database.tables());
  return Number(rows[0]?.count ?? -1);
}

describeOnEachStore((store) => {
  let database: Database;

  beforeAll(() => {
    ({ database } = store);
  });

  test("applies the product's migrations in order, once", async () => {
    const applied = await migrate(database);
    expect(applied).toEqual([...applied].sort());
    expect(applied.slice(0, 2)).toEqual(["001-accounts.sql", "010-enrolment.sql"]);
    expect(await migrate(database)).toEqual([]);
  });

  test("a failed migration leaves nothing of itself or of those before it", async () => {
    const folder = migrationsFolder({
      "100-good.sql": "-- a comment; with a semicolon\nCREATE TABLE good (id int);\nINSERT INTO good VALUES (1);\n",
      "101-bad.sql": "CREATE TABLE bad (id int);\nINSERT INTO nowhere VALUES (1);\n",
    });
    await expect(migrate(database, folder)).rejects.toThrow("nowhere");
    await expect(count(database, "good")).rejects.toThrow("good");
    writeFileSync(join(folder, "101-bad.sql"), "CREATE TABLE bad (id int);\n");
    expect(await migrate(database, folder)).toEqual(["100-good.sql", "101-bad.sql"]);
    expect(await count(database, "good")).toBe(1);
  });

  test("an applied migration that was changed later stops the start with a sentence that names it", async () => {
    const folder = migrationsFolder({ "200-once.sql": "CREATE TABLE once (id int);\n" });
    await migrate(database, folder);
    writeFileSync(join(folder, "200-once.sql"), "CREATE TABLE once (id bigint);\n");
    await expect(migrate(database, folder)).rejects.toThrow("migration 200-once.sql was applied in another form");
  });

  test("a second row with the same key is a unique violation, with PostgreSQL's code", async () => {
    await sql`CREATE TABLE sole (id int PRIMARY KEY, name text UNIQUE)`.execute(database.tables());
    await sql`INSERT INTO sole VALUES (1, 'a')`.execute(database.tables());
    for (const values of [sql`(1, 'b')`, sql`(2, 'a')`])
      await expect(sql`INSERT INTO sole VALUES ${values}`.execute(database.tables())).rejects.toMatchObject({ code: "23505" });
  });

  test("rolls back a transaction that throws, and statements of others wait instead of joining it", async () => {
    await sql`CREATE TABLE isolation (id int)`.execute(database.tables());
    const inside = Promise.withResolvers<void>();
    const transaction = database
      .tables()
      .transaction()
      .execute(async (trx) => {
        await sql`INSERT INTO isolation VALUES (1)`.execute(trx);
        inside.resolve();
        await new Promise((resolve) => setImmediate(resolve));
        throw new Error("rolled back on purpose");
      });
    await inside.promise;
    const outside = sql`INSERT INTO isolation VALUES (2)`.execute(database.tables());
    await expect(transaction).rejects.toThrow("rolled back on purpose");
    await outside;
    expect(await count(database, "isolation")).toBe(1);
  });
});

test("without PostgreSQL its tests are skipped, but never in CI", () => {
  expect(() => required(undefined, "true")).toThrow("CI leaves out no engine: no PostgreSQL");
  expect(required(undefined, "")).toBeUndefined();
  expect(required("/usr/bin", "true")).toBe("/usr/bin");
});

test("the engines have the same tables with the same columns", async () => {
  const seen: string[][] = [];
  for (const engine of relationalEngines.filter(({ available }) => available)) {
    const opened = await engine.open();
    await migrate(opened.database);
    seen.push((await opened.database.tables().introspection.getTables()).flatMap(columnsOf).sort());
    await opened.end();
  }
  expect(seen[0]).toContain("rules.labels jsonb false");
  for (const columns of seen) expect(columns).toEqual(seen[0]);
});

/** PostgreSQL's own names of types → those that the migrations use. */
const SQL_NAMES: Record<string, string> = { int4: "integer", bool: "boolean" };
/** SQLite does not call the column of a primary key NOT NULL, where PostgreSQL does. */
const KEYS = /^(\w+\.id|cluster_nodes\.(cluster_id|name)|rule_sets\.org_id|schema_migrations\.name)$/;

function columnsOf({ name, columns }: TableMetadata): string[] {
  return columns.map((column) => {
    const path = `${name}.${column.name}`;
    const type = column.dataType.toLowerCase();
    return `${path} ${SQL_NAMES[type] ?? type} ${column.isNullable && !KEYS.test(path)}`;
  });
}

test("the embedded store keeps its rows over a restart", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "atherops-sqlite-"));
  const first = await openDatabase({ dataDir, log });
  await sql`CREATE TABLE kept AS SELECT 1 AS id`.execute(first.tables());
  await first[Symbol.asyncDispose]();
  await using second = await openDatabase({ dataDir, log });
  expect(await count(second, "kept")).toBe(1);
  rmSync(dataDir, { recursive: true, force: true });
});

describe.skipIf(!postgresBinaries)(`external PostgreSQL${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(async () => await server?.[Symbol.asyncDispose]());

  test("eight replicas that migrate together apply every file exactly once", async () => {
    const url = await server.newDatabase();
    const replicas = await Promise.all(Array.from({ length: 8 }, () => openDatabase({ url, dataDir: "unused", log })));
    const applied = await Promise.all(replicas.map((replica) => migrate(replica)));
    expect(applied.filter((names) => names.length > 0)).toHaveLength(1);
    await Promise.all(replicas.map((replica) => replica[Symbol.asyncDispose]()));
  });

  test("while the server is unavailable every statement is storage_unavailable, and it recovers without a restart", async () => {
    await using database = await openDatabase({ url: await server.newDatabase(), dataDir: "unused", log });
    await sql`CREATE TABLE there AS SELECT 1 AS id`.execute(database.tables());
    for (const how of ["fast", "killed"] as const) {
      await server.stop(how);
      for (const attempt of [1, 2])
        await expect(count(database, "there"), `${how}, attempt ${attempt}`).rejects.toMatchObject({
          code: "storage_unavailable",
          status: 502,
          retryAfterS: 2,
        });
      const transaction = database
        .tables()
        .transaction()
        .execute(async () => undefined);
      await expect(transaction).rejects.toMatchObject({ code: "storage_unavailable" });
      await server.resume();
      await expect.poll(() => count(database, "there").catch(String)).toBe(1);
    }
  });

  test("an error of a statement is not reported as an unreachable server", async () => {
    await using database = await openDatabase({ url: await server.newDatabase(), dataDir: "unused", log });
    await expect(sql`SELECT 1/0`.execute(database.tables())).rejects.toMatchObject({ code: "22012" });
  });
});
