// Moves the accounts of an installation to PostgreSQL and back with the command, on a real server. It is one file, because all tests move
// the same thousand rows, which take long to create.
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { sql } from "kysely";
import { Client } from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { accountsApp, directKey } from "../../../test/fixtures/accounts-app.ts";
import { everything, fillAccounts, type AllTables } from "../../../test/fixtures/filled-accounts.ts";
import { NO_POSTGRES, postgresBinaries, PostgresServer } from "../../../test/fixtures/postgres.ts";
import { baseEnvironment } from "../../../test/fixtures/processes.ts";
import { openDatabase } from "../../engines/relational/database.ts";
import { migrate } from "../../engines/relational/migrate.ts";
import { createLog } from "../../log.ts";
import { lockDataDir } from "./lock.ts";

const log = createLog("silent");
const root = mkdtempSync(join(tmpdir(), "atherops-move-"));
const full = join(root, "full");
let server: PostgresServer;
let expected: Record<string, unknown[]>;
let dataDir: string;
let url: string;
let number = 0;

interface Ended {
  readonly code: number;
  readonly output: string;
}

function command(args: readonly string[], env: NodeJS.ProcessEnv): [string, string[], { env: NodeJS.ProcessEnv }] {
  return [process.execPath, ["backend/main.ts", "move", ...args], { env: { ...baseEnvironment(), DATA_DIR: dataDir, ...env } }];
}

async function move(args: readonly string[], env: NodeJS.ProcessEnv = { DATABASE_URL: url }): Promise<Ended> {
  const [program, words, options] = command(args, env);
  const { stdout, stderr, code } = await promisify(execFile)(program, words, options).then(
    (done) => ({ ...done, code: 0 }),
    (failure: { stdout: string; stderr: string; code: number }) => failure,
  );
  return { code, output: stdout + stderr };
}

const to = ["--to", "DATABASE_URL"];
const from = ["--from", "DATABASE_URL"];

async function rowsOf(where: { url?: string; dataDir?: string }): Promise<Record<string, unknown[]>> {
  await using database = await openDatabase({ dataDir: "unused", log, ...where });
  return await everything(database.tables());
}

/** The number of rows of each table in PostgreSQL; empty if there are no tables. */
async function countInPostgres(): Promise<number> {
  await using database = await openDatabase({ url, dataDir: "unused", log });
  await migrate(database);
  return Object.values(await everything(database.tables())).flat().length;
}

describe.skipIf(!postgresBinaries)(`moves accounts${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  beforeAll(async () => {
    server = await PostgresServer.start();
    await using database = await openDatabase({ dataDir: full, log });
    await migrate(database);
    await fillAccounts(database.tables());
    expected = await everything(database.tables());
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    rmSync(root, { recursive: true, force: true });
  });
  beforeEach(async () => {
    dataDir = join(root, String(number++));
    mkdirSync(dataDir);
    copyFileSync(join(full, "accounts.sqlite"), join(dataDir, "accounts.sqlite"));
    url = await server.newDatabase();
  });

  test("a thousand clusters, users and rules are equal after both directions, and each side keeps its own", async () => {
    for (const [table, rows] of Object.entries(expected)) expect([table, rows.length]).not.toEqual([table, 0]);
    const there = await move(to);
    expect(there).toMatchObject({ code: 0, output: expect.stringContaining("each read back and compared") });
    expect(there.output).toContain("MASTER_KEY");
    expect(await rowsOf({ url })).toEqual(expected);
    expect(await rowsOf({ dataDir })).toEqual(expected);
    renameSync(join(dataDir, "accounts.sqlite"), join(dataDir, "accounts.before"));
    expect(await move(from)).toMatchObject({ code: 0, output: expect.stringContaining("each read back and compared") });
    expect(await rowsOf({ dataDir })).toEqual(expected);
    expect(await rowsOf({ url })).toEqual(expected);
    expect(readdirSync(dataDir).filter((name) => name.includes("moving"))).toEqual([]);
  });

  test("a repeated command finds all of it, and writes nothing", async () => {
    for (const direction of [to, from]) {
      await move(direction);
      expect(await move(direction)).toMatchObject({ code: 0, output: expect.stringContaining("already has the same") });
    }
    expect(await rowsOf({ url })).toEqual(expected);
  });

  test("keys sign and sessions remain valid on the other side, with the secrets that were generated here", async () => {
    const home = join(root, "home");
    dataDir = home;
    const generated = { MASTER_KEY: undefined, JWT_SECRET: undefined };
    let key: string;
    let session: string;
    {
      await using database = await openDatabase({ dataDir: home, log });
      await using backend = await accountsApp(database, { env: { ...generated, DATA_DIR: home } });
      session = await backend.login();
      key = (await directKey(backend, session)).api_key;
    }
    const { code, output } = await move(to);
    expect(code).toBe(0);
    const [masterKey, jwtSecret] = ["master-key", "jwt-secret"].map((name) => join(home, "secrets", name)) as [string, string];
    for (const file of [masterKey, jwtSecret]) {
      expect(output).toContain(file);
      expect(output).not.toContain(readFileSync(file, "utf8").trim());
    }
    await using database = await openDatabase({ url, dataDir: "unused", log });
    const env = {
      ...generated,
      DATABASE_URL: url,
      MASTER_KEY_FILE: masterKey,
      JWT_SECRET_FILE: jwtSecret,
      DATA_DIR: join(root, "elsewhere"),
    };
    await using backend = await accountsApp(database, { env });
    await backend.login();
    expect((await backend.call("GET", "/api/keys", { bearer: session })).statusCode).toBe(200);
    expect((await backend.call("POST", "/ingest", { key })).statusCode).toBe(204);
  });

  describe("if it is killed", () => {
    /** Runs until it waits for a lock that another connection holds on `table`, and kills it there. */
    async function killedAt(args: readonly string[], table: string, mode: string): Promise<void> {
      await using other = await connection(url);
      await other.client.query(`BEGIN; LOCK TABLE ${table} IN ${mode} MODE`);
      // Within a transaction the list of connections stays as it was first seen.
      await using onlooker = await connection(url);
      const [program, words, options] = command(args, { DATABASE_URL: url });
      const child = spawn(program, words, { ...options, stdio: "ignore" });
      try {
        await expect.poll(async () => await waiting(onlooker.client), { timeout: 30_000 }).toBe(1);
      } finally {
        await killed(child);
      }
    }

    test.each(["orgs", "api_keys", "rules"])("while it writes %s, nothing is visible, and the next run is complete", async (table) => {
      {
        await using database = await openDatabase({ url, dataDir: "unused", log });
        await migrate(database);
      }
      await killedAt(to, table, "SHARE");
      expect(await countInPostgres()).toBe(0);
      expect((await move(to)).code).toBe(0);
      expect(await rowsOf({ url })).toEqual(expected);
    });

    test("before PostgreSQL has the tables, the next run is complete", async () => {
      await using other = await connection(url);
      await other.client.query(
        "CREATE TABLE schema_migrations (name text PRIMARY KEY, sha256 text NOT NULL, applied_at timestamptz NOT NULL)",
      );
      await killedAt(to, "schema_migrations", "ACCESS EXCLUSIVE");
      expect((await move(to)).code).toBe(0);
      expect(await rowsOf({ url })).toEqual(expected);
    });

    test.each(["api_keys", "rules"])(
      "while it moves back and reads %s, there is no accounts.sqlite, and the next run is complete",
      async (table) => {
        await move(to);
        rmSync(join(dataDir, "accounts.sqlite"));
        await killedAt(from, table, "ACCESS EXCLUSIVE");
        expect(existsSync(join(dataDir, "accounts.sqlite"))).toBe(false);
        expect((await move(from)).code).toBe(0);
        expect(await rowsOf({ dataDir })).toEqual(expected);
      },
    );
  });

  describe("is rejected in one sentence", () => {
    async function refused(args: readonly string[], env?: NodeJS.ProcessEnv): Promise<string> {
      const { code, output } = await move(args, env);
      expect(code, output).toBe(2);
      const sentences = output.split("\n").filter((line) => line.startsWith("atherops-backend: "));
      expect(sentences, output).toHaveLength(1);
      expect(output).not.toMatch(/\n {4}at /);
      return sentences[0] ?? "";
    }

    test("while the backend runs, in either direction", async () => {
      using _running = lockDataDir(dataDir);
      for (const direction of [to, from]) expect(await refused(direction)).toContain("stop it");
      expect(await countInPostgres()).toBe(0);
    });

    test("while replicas run on the source database", async () => {
      await using replica = await openDatabase({ url, dataDir: "unused", log });
      await migrate(replica);
      rmSync(join(dataDir, "accounts.sqlite"));
      // A connection that idles is closed after a while.
      await replica
        .tables()
        .transaction()
        .execute(async (trx) => {
          await sql`SELECT 1`.execute(trx);
          expect(await refused(from)).toContain("stop all replicas");
        });
    });

    test("if the target has other accounts, which are unchanged", async () => {
      {
        await using other = await openDatabase({ url, dataDir: "unused", log });
        await (await accountsApp(other))[Symbol.asyncDispose]();
      }
      const before = await rowsOf({ url });
      expect(await refused(to)).toContain("has other accounts: use an empty database");
      expect(await rowsOf({ url })).toEqual(before);
      expect(await refused(from)).toContain("accounts.sqlite has other accounts");
      expect(await rowsOf({ dataDir })).toEqual(expected);
    });

    test("if a row was changed after an earlier move", async () => {
      await move(to);
      await using database = await openDatabase({ dataDir, log });
      await database.tables<AllTables>().updateTable("hosts").set({ hostname: "renamed" }).execute();
      await database[Symbol.asyncDispose]();
      expect(await refused(to)).toContain("has other accounts");
    });

    test("if there is nothing to move", async () => {
      expect(await refused(from)).toContain("has other accounts");
      rmSync(join(dataDir, "accounts.sqlite"));
      expect(await refused(from)).toContain("has no accounts");
      expect(await refused(to)).toContain("has no accounts.sqlite");
      expect(readdirSync(dataDir).filter((name) => name === "accounts.sqlite")).toEqual([]);
    });

    test("without a server, with a wrong password, or without a database, and prints no password", async () => {
      const nowhere = "postgres://someone:hunter2@127.0.0.1:1/accounts";
      expect(await refused(to, { DATABASE_URL: nowhere })).toContain("the database accounts at 127.0.0.1:1 cannot be reached");
      await guardWithPasswords(url);
      const guarded = new URL(url);
      [guarded.username, guarded.password] = ["guarded", "hunter2"];
      const sentence = await refused(to, { DATABASE_URL: guarded.href });
      expect(sentence).toContain('rejects the user or the password (password authentication failed for user "guarded")');
      const missing = new URL(url);
      missing.pathname = "/nowhere";
      expect(await refused(to, { DATABASE_URL: missing.href })).toContain('database "nowhere" does not exist');
      for (const wrong of [nowhere, guarded.href]) expect((await move(to, { DATABASE_URL: wrong })).output).not.toContain("hunter2");
    });

    test("with the URL as an argument, with no or two directions, and without the variable", async () => {
      expect(await refused(["--to", url])).toContain("takes the name DATABASE_URL, not the URL");
      expect(await refused(["--to", "OTHER"])).toContain("DATABASE_URL");
      expect(await refused([])).toContain("--to DATABASE_URL or --from DATABASE_URL");
      expect(await refused([...to, ...from])).toContain("--to DATABASE_URL or --from DATABASE_URL");
      expect(await move(to, {})).toMatchObject({ code: 2, output: expect.stringContaining("DATABASE_URL: set it, or DATABASE_URL_FILE") });
    });
  });

  test("reports the progress of a large table, and never moves another store's log", async () => {
    {
      using store = new DatabaseSync(join(dataDir, "accounts.sqlite"));
      store.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
        INSERT INTO read_tokens SELECT printf('00000000-0000-4000-8000-%012x', i), org.id, 'many', 'a@x', created_at, created_at, NULL FROM n, orgs org`);
    }
    expect((await move(to)).output).toMatch(/read_tokens: 10000 rows copied\n[^]*read_tokens: 10000 rows compared\n/);
    const all = await rowsOf({ dataDir });
    rmSync(join(dataDir, "accounts.sqlite"));
    writeFileSync(join(dataDir, "accounts.sqlite-wal"), "of another store");
    expect(await move(from)).toMatchObject({ code: 2, output: expect.stringContaining("is the log of another store") });
    expect(existsSync(join(dataDir, "accounts.sqlite"))).toBe(false);
    rmSync(join(dataDir, "accounts.sqlite-wal"));
    expect((await move(from)).code).toBe(0);
    expect(await rowsOf({ dataDir })).toEqual(all);
  });

  test("reads the URL from a file too", async () => {
    const file = join(dataDir, "url");
    writeFileSync(file, `${url}\n`);
    expect((await move(to, { DATABASE_URL_FILE: file })).code).toBe(0);
    expect(await rowsOf({ url })).toEqual(expected);
  });
});

async function connection(to: string): Promise<{ client: Client } & AsyncDisposable> {
  const client = new Client(to);
  await client.connect();
  return { client, [Symbol.asyncDispose]: async () => await client.end() };
}

async function waiting(client: Client): Promise<number> {
  const { rows } = await client.query<{ count: string }>(
    "SELECT count(*) AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
  );
  return Number(rows[0]?.count);
}

async function killed(child: ChildProcess): Promise<void> {
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

/** From now on the server asks the role `guarded` for its password. */
async function guardWithPasswords(to: string): Promise<void> {
  await using admin = await connection(to);
  await admin.client.query("CREATE ROLE guarded LOGIN PASSWORD 'another'");
  const { rows } = await admin.client.query<{ hba_file: string }>("SHOW hba_file");
  const lines = "VALUES ('host all guarded 127.0.0.1/32 scram-sha-256'), ('host all all 127.0.0.1/32 trust')";
  await admin.client.query(`COPY (${lines}) TO '${rows[0]?.hba_file}'`);
  await admin.client.query("SELECT pg_reload_conf()");
  const unknown = new URL(to);
  unknown.username = "guarded";
  const enter = async () => await (await connection(unknown.href))[Symbol.asyncDispose]();
  await expect.poll(async () => await enter().catch(() => "refused")).toBe("refused");
}
