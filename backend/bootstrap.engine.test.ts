import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Writable } from "node:stream";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { accountsApp, directKey, OPERATOR } from "../test/fixtures/accounts-app.ts";
import { NO_POSTGRES, postgresBinaries, PostgresServer } from "../test/fixtures/postgres.ts";
import { openDatabase } from "./engines/relational/database.ts";
import { migrate } from "./engines/relational/migrate.ts";
import { createLog } from "./log.ts";
import { readSettings } from "./settings.ts";
import { bootstrap } from "./bootstrap.ts";
import { loadSecrets } from "./operations/backup/secrets.ts";
import { MasterKeys } from "./tenants/enrolment/master-key.ts";
import { passwordMatches } from "./auth/sessions/password.ts";
import type { AccountTables } from "./auth/sessions/account-tables.ts";

const folder = mkdtempSync(join(tmpdir(), "atherops-bootstrap-"));
const silent = createLog("silent");
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);
const key = (fill: number) => Buffer.alloc(32, fill).toString("base64");

test("with embedded engines, generates secrets once with mode 0600 and the first password, and logs none of them", async () => {
  const dataDir = join(folder, "embedded");
  const lines: string[] = [];
  const log = pino({ level: "trace" }, new Writable({ write: (chunk, _encoding, done) => (lines.push(String(chunk)), done()) }));
  const { settings, secrets } = readSettings({ DATA_DIR: dataDir });
  await using database = await openDatabase({ dataDir, log });
  await migrate(database);
  for (const start of ["first", "second"]) {
    await bootstrap({ database, settings, secrets, masterKeys: masterKeysOf(settings, secrets), log });
    expect(readdirSync(join(dataDir, "secrets")).sort(), start).toEqual(["admin-password", "jwt-secret", "master-key"]);
  }
  const contents = Object.fromEntries(
    readdirSync(join(dataDir, "secrets")).map((name) => {
      expect(mode(join(dataDir, "secrets", name))).toBe("600");
      return [name, readFileSync(join(dataDir, "secrets", name), "utf8").trim()];
    }),
  );
  expect(mode(join(dataDir, "secrets"))).toBe("700");
  const users = await database.tables<AccountTables>().selectFrom("users").selectAll().execute();
  expect(users).toMatchObject([{ email: "admin@localhost", role: "operator" }]);
  expect(await passwordMatches(users[0]?.password_hash, contents["admin-password"] ?? "")).toBe(true);
  for (const secret of Object.values(contents)) expect(lines.join("")).not.toContain(secret);
});

function masterKeysOf(...given: Parameters<typeof loadSecrets>): MasterKeys {
  const { masterKey, masterPreviousKey } = loadSecrets(...given);
  return new MasterKeys(masterKey, masterPreviousKey);
}

describe("missing accounts", () => {
  async function start(dataDir: string): Promise<void> {
    const { settings, secrets } = readSettings({ DATA_DIR: dataDir });
    await using database = await openDatabase({ dataDir, log: silent });
    await migrate(database);
    await bootstrap({ database, settings, secrets, masterKeys: masterKeysOf(settings, secrets), log: silent });
  }

  test("are created by the next start after a first start that was interrupted at any point", async () => {
    const dataDir = join(folder, "cut-off");
    await (await openDatabase({ dataDir, log: silent }))[Symbol.asyncDispose]();
    await start(dataDir);
    // Simulates a kill at the end: the accounts exist, but the file that says so does not.
    rmSync(join(dataDir, "accounts.made"));
    await start(dataDir);
    expect(readFileSync(join(dataDir, "accounts.made"), "utf8")).toContain("does not create new ones");
  });

  test.each([
    ["its file was emptied", (file: string) => writeFileSync(file, ""), "the accounts are missing"],
    ["its rows were deleted", (file: string) => deleteRows(file), "the accounts are missing"],
    ["its file was deleted", (file: string) => rmSync(file), "has accounts.made but no accounts.sqlite"],
  ])("are never created again if %s", async (what, empty, message) => {
    const dataDir = join(folder, what);
    await start(dataDir);
    empty(join(dataDir, "accounts.sqlite"));
    for (const _start of ["first", "second"])
      await expect(start(dataDir)).rejects.toMatchObject({ name: "StartError", message: expect.stringContaining(message) });
  });
});

function deleteRows(file: string): void {
  using database = new DatabaseSync(file);
  database.exec("DELETE FROM users; DELETE FROM orgs");
}

test("with an external engine, generates nothing and requires MASTER_KEY and JWT_SECRET", () => {
  const dataDir = join(folder, "external");
  const { settings, secrets } = readSettings({
    DATA_DIR: dataDir,
    CLICKHOUSE_URL: "http://ch:8123",
    MASTER_KEY: key(1),
    JWT_SECRET: "j".repeat(32),
  });
  expect(() => loadSecrets(settings, { ...secrets, masterKey: undefined })).toThrow("MASTER_KEY and JWT_SECRET are required");
  expect(loadSecrets(settings, secrets).jwtSecret.toString()).toBe("j".repeat(32));
  expect(() => statSync(join(dataDir, "secrets"))).toThrow("ENOENT");
});

describe.skipIf(!postgresBinaries)(`with external PostgreSQL${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(async () => await server?.[Symbol.asyncDispose]());

  const env = (url: string) => ({ DATABASE_URL: url, MASTER_KEY: key(1), JWT_SECRET: "j".repeat(32), DATA_DIR: join(folder, "unused") });

  test("requires ADMIN_PASSWORD at the first start, not at later ones", async () => {
    const url = await server.newDatabase();
    await using database = await openDatabase({ url, dataDir: "unused", log: silent });
    await migrate(database);
    const start = async (extra: NodeJS.ProcessEnv) => {
      const { settings, secrets } = readSettings({ ...env(url), ...extra });
      await bootstrap({ database, settings, secrets, masterKeys: masterKeysOf(settings, secrets), log: silent });
    };
    await expect(start({})).rejects.toThrow("ADMIN_PASSWORD is required on the first start with DATABASE_URL");
    await start({ ADMIN_PASSWORD: "first password" });
    await start({});
    await start({ ADMIN_PASSWORD: "ignored afterwards" });
    const users = await database.tables<AccountTables>().selectFrom("users").selectAll().execute();
    expect(users).toHaveLength(1);
    expect(await passwordMatches(users[0]?.password_hash, "first password")).toBe(true);
  });

  test("six replicas that start together create one organisation and one operator", async () => {
    const url = await server.newDatabase();
    const replicas = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const database = await openDatabase({ url, dataDir: "unused", log: silent });
        return { database, app: await accountsApp(database) };
      }),
    );
    const tables = replicas[0]?.database.tables<AccountTables>();
    expect(await tables?.selectFrom("orgs").selectAll().execute()).toHaveLength(1);
    expect(await tables?.selectFrom("users").selectAll().execute()).toMatchObject([{ email: OPERATOR.email }]);
    for (const { app, database } of replicas) {
      await app.login();
      await app[Symbol.asyncDispose]();
      await database[Symbol.asyncDispose]();
    }
  });

  test("a new MASTER_KEY re-encrypts every key at startup; without the previous one the start fails", async () => {
    await using database = await openDatabase({ url: await server.newDatabase(), dataDir: "unused", log: silent });
    const before = await accountsApp(database, { env: { MASTER_KEY: key(1) } });
    const { api_key } = await directKey(before, await before.login());
    await expect(accountsApp(database, { env: { MASTER_KEY: key(2) } })).rejects.toThrow(
      /1 API keys are encrypted with the master key ([0-9a-f]{12}), but MASTER_KEY is (?!\1)[0-9a-f]{12}: set MASTER_KEY/,
    );
    const during = await accountsApp(database, { env: { MASTER_KEY: key(2), MASTER_PREVIOUS_KEY: key(1) } });
    expect((await during.call("POST", "/ingest", { key: api_key })).statusCode).toBe(204);
    const after = await accountsApp(database, { env: { MASTER_KEY: key(2) } });
    expect((await after.call("POST", "/ingest", { key: api_key })).statusCode).toBe(204);
    for (const app of [before, during, after]) await app[Symbol.asyncDispose]();
  });
});
