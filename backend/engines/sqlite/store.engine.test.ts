// The embedded relational store itself: its thread, its file, its failures. What it shares with PostgreSQL:
// ../relational/database.engine.test.ts.
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Kysely, sql } from "kysely";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createLog } from "../../log.ts";
import { runFor } from "../../admission/request-owner.ts";
import { reportingDialect } from "../relational/unreachable.ts";
import { sqliteThreadDialect } from "./dialect.ts";
import { ACCOUNTS_FILE, openSqlite } from "./open.ts";
import { StoreThread } from "./store-thread.ts";

interface Tables {
  kept: { id: number; text: string };
}

let dataDir: string;
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "atherops-sqlite-"));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

const away = { code: "storage_unavailable", status: 502, retryAfterS: 2 };
const busy = { code: "unavailable", status: 503, retryAfterS: 2 };

class Store implements AsyncDisposable {
  readonly db: Kysely<Tables>;
  readonly #thread: StoreThread;
  readonly lines: string[];

  private constructor(thread: StoreThread, lines: string[], waitMs?: number) {
    this.#thread = thread;
    this.lines = lines;
    this.db = new Kysely<Tables>({ dialect: reportingDialect(sqliteThreadDialect(thread), { connections: 1, waitMs }) });
  }

  static async open(options: { statementTimeoutMs?: number; waitMs?: number } = {}): Promise<Store> {
    const lines: string[] = [];
    const log = createLog("info", "test", { write: (line) => void lines.push(line) });
    {
      await using unbounded = new Store(await openSqlite(join(dataDir, ACCOUNTS_FILE), log), lines);
      await sql`CREATE TABLE IF NOT EXISTS kept (id integer PRIMARY KEY, text text NOT NULL)`.execute(unbounded.db);
    }
    const { waitMs, ...bounds } = options;
    return new Store(new StoreThread({ file: join(dataDir, ACCOUNTS_FILE), log, ...bounds }), lines, waitMs);
  }

  async ids(): Promise<number[]> {
    return (await this.db.selectFrom("kept").select("id").orderBy("id").execute()).map((row) => row.id);
  }

  async add(id: number): Promise<void> {
    await this.db.insertInto("kept").values({ id, text: "x" }).execute();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.db.destroy();
    await this.#thread[Symbol.asyncDispose]();
  }
}

/** A statement of some `rows` steps, which answers one row, or as many. */
const long = (rows: number, answer: "one" | "all") =>
  sql`WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < ${rows}) SELECT ${sql.raw(answer === "one" ? "count(*)" : "*")} FROM c`;

describe("the database file", () => {
  test("is readable by its user only, with its log, and is one file after a close", async () => {
    {
      await using store = await Store.open();
      await store.add(1);
      for (const name of readdirSync(dataDir)) expect([name, statSync(join(dataDir, name)).mode & 0o777]).toEqual([name, 0o600]);
      expect(readdirSync(dataDir).sort()).toEqual(["accounts.sqlite", "accounts.sqlite-shm", "accounts.sqlite-wal"]);
    }
    expect(readdirSync(dataDir)).toEqual(["accounts.sqlite"]);
    await using again = await Store.open();
    expect(await again.ids()).toEqual([1]);
  });

  test.each([
    ["that is no database", (file: string) => writeFileSync(file, "x".repeat(8192))],
    ["that has lost its first page", (file: string) => writeFileSync(file, Buffer.alloc(8192))],
  ])("stops the start for %s with one sentence that names it", async (_which, damage) => {
    const file = join(dataDir, ACCOUNTS_FILE);
    damage(file);
    await expect(openSqlite(file, createLog("silent"))).rejects.toThrow(`DATA_DIR: ${file} cannot be opened`);
  });

  test("is synced with every commit, and can be read by another process", async () => {
    await using store = await Store.open();
    const { rows } = await sql<{ synchronous: number }>`PRAGMA synchronous`.execute(store.db);
    expect(rows).toEqual([{ synchronous: 2 }]);
    await store.add(1);
    using other = new DatabaseSync(join(dataDir, ACCOUNTS_FILE), { readOnly: true });
    expect(other.prepare("SELECT id FROM kept").all()).toEqual([{ id: 1 }]);
  });
});

describe("a statement", () => {
  test("accepts times, booleans, nulls and JSON, and returns them with their types, from RETURNING too", async () => {
    await using store = await Store.open();
    await sql`CREATE TABLE typed (at timestamptz, yes boolean, doc jsonb, none jsonb)`.execute(store.db);
    const at = new Date("2026-11-22T03:04:05.678Z");
    const expected = [{ at, yes: true, doc: { a: [1, null] }, none: null }];
    const { rows } = await sql`INSERT INTO typed VALUES (${at}, ${true}, ${'{"a":[1,null]}'}, ${null}) RETURNING *`.execute(store.db);
    expect(rows).toEqual(expected);
    expect((await sql`SELECT * FROM typed WHERE yes = ${true} AND at <= ${at}`.execute(store.db)).rows).toEqual(expected);
  });

  test("uses the current columns, not those of its first use", async () => {
    await using store = await Store.open();
    const all = async () => (await store.db.selectFrom("kept").selectAll().execute()) as object[];
    await store.add(1);
    await all();
    await sql`ALTER TABLE kept ADD COLUMN at timestamptz`.execute(store.db);
    await sql`UPDATE kept SET at = ${new Date(0)}`.execute(store.db);
    expect(await all()).toEqual([{ id: 1, text: "x", at: new Date(0) }]);
  });

  test("reports the engine's message and none of its values if it fails", async () => {
    await using store = await Store.open();
    const secret = "$argon2id$v=19$c2VjcmV0";
    const insert = () => store.db.insertInto("kept").values({ id: 1, text: secret }).execute();
    await insert();
    const error = (await insert().catch((failure: unknown) => failure)) as Error;
    expect(error).toMatchObject({ code: "23505", message: "UNIQUE constraint failed: kept.id" });
    expect([error.message, error.stack, JSON.stringify(error)].join("")).not.toContain(secret);
  });

  test("does not fail again with other values after a failure, with or without rows", async () => {
    await using store = await Store.open();
    const insert = (id: number) => store.db.insertInto("kept").values({ id, text: "x" });
    for (const id of [1, 3]) {
      await insert(id).returning("id").execute();
      await expect(insert(id).returning("id").execute()).rejects.toMatchObject({ code: "23505" });
      await expect(insert(id).execute()).rejects.toMatchObject({ code: "23505" });
      expect(
        await insert(id + 1)
          .returning("id")
          .execute(),
      ).toEqual([{ id: id + 1 }]);
    }
    await insert(5).execute();
    expect(await store.ids()).toEqual([1, 2, 3, 4, 5]);
  });

  test("is rejected and rolled back if it takes too long, as on a hanging disk, and then the store recovers", async () => {
    await using store = await Store.open({ statementTimeoutMs: 1000 });
    const transaction = store.db.transaction().execute(async (trx) => {
      await trx.insertInto("kept").values({ id: 7, text: "x" }).execute();
      await long(20_000_000, "one").execute(trx);
    });
    await expect(transaction).rejects.toMatchObject(busy);
    await expect(store.ids()).rejects.toMatchObject(busy);
    await expect.poll(() => store.ids().catch(String), { timeout: 50_000 }).toEqual([]);
    expect(store.lines.join("")).toContain("a statement was not answered in time");
  });

  test("with an endless result is rejected before the process runs out of memory", async () => {
    await using store = await Store.open();
    await expect(long(1_000_000_000, "all").execute(store.db)).rejects.toThrow("at most 100000 rows");
    expect(await store.ids()).toEqual([]);
  });

  test("is rejected and rolled back on a full disk, and later ones work", async () => {
    await using store = await Store.open();
    await store.add(1);
    await sql`PRAGMA max_page_count = 10`.execute(store.db);
    const full = store.db.transaction().execute(async (trx) => {
      await trx.insertInto("kept").values({ id: 2, text: "x" }).execute();
      await trx
        .insertInto("kept")
        .values({ id: 3, text: "x".repeat(100_000) })
        .execute();
    });
    await expect(full).rejects.toMatchObject(away);
    await store.add(4);
    expect(await store.ids()).toEqual([1, 4]);
  });
});

describe("a transaction", () => {
  test("delays others no longer than its time limit", async () => {
    await using store = await Store.open({ waitMs: 50 });
    const finish = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const transaction = store.db.transaction().execute(async (trx) => {
      await trx.insertInto("kept").values({ id: 1, text: "x" }).execute();
      begun.resolve();
      await finish.promise;
    });
    await begun.promise;
    await expect(store.ids()).rejects.toMatchObject(busy);
    finish.resolve();
    await transaction;
    expect(await store.ids()).toEqual([1]);
  });

  test("of one organisation waits for one statement of another, however many of those wait", async () => {
    await using store = await Store.open();
    const order: string[] = [];
    const add = async (orgId: string, id: number): Promise<void> => {
      await runFor(orgId, () => store.add(id));
      order.push(orgId);
    };
    const others = Array.from({ length: 50 }, (_, index) => add("busy", index));
    await add("idle", 50);
    expect(order.indexOf("idle")).toBeLessThan(3);
    await Promise.all(others);
  });

  test("runs after the previous one, however many start together", async () => {
    await using store = await Store.open();
    await sql`CREATE TABLE counter (value integer NOT NULL)`.execute(store.db);
    await sql`INSERT INTO counter VALUES (0)`.execute(store.db);
    const counters = store.db.withTables<{ counter: { value: number } }>();
    const increment = () =>
      counters.transaction().execute(async (trx) => {
        const { value } = await trx.selectFrom("counter").select("value").forUpdate().executeTakeFirstOrThrow();
        await trx
          .updateTable("counter")
          .set({ value: value + 1 })
          .execute();
      });
    await Promise.all(Array.from({ length: 100 }, increment));
    expect(await counters.selectFrom("counter").select("value").execute()).toEqual([{ value: 100 }]);
  });

  test("that started before the store was closed is completed; a later statement is rejected", async () => {
    const store = await Store.open();
    const last = store.add(1);
    await last;
    await store[Symbol.asyncDispose]();
    await expect(store.add(2)).rejects.toThrow("driver has already been destroyed");
    expect(existsSync(join(dataDir, `${ACCOUNTS_FILE}-wal`))).toBe(false);
  });
});
