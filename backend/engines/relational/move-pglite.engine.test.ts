// The move of an earlier version's accounts, from a real PGlite folder.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { everything, fillAccounts, type AllTables } from "../../../test/fixtures/filled-accounts.ts";
import { createLog } from "../../observability/log.ts";
import { openDatabase, openPglite } from "./database.ts";
import { migrate } from "./migrate.ts";

const log = createLog("silent");
const root = mkdtempSync(join(tmpdir(), "atherops-move-"));
const made = join(root, "made");
let dataDir: string;
let expected: unknown;
let number = 0;

beforeAll(async () => {
  await using database = await openPglite(made);
  await migrate(database);
  await fillAccounts(database.tables());
  expected = await everything(database.tables());
});
afterAll(() => rmSync(root, { recursive: true, force: true }));
beforeEach(() => {
  dataDir = join(root, String(number++));
  mkdirSync(dataDir);
  cpSync(made, join(dataDir, "postgres"), { recursive: true });
});

test("a thousand clusters, users and rules are moved whole at the first start, once, and the folder is kept", async () => {
  for (const start of ["first", "second"]) {
    await using database = await openDatabase({ dataDir, log });
    await migrate(database);
    expect(database.engine).toBe("sqlite");
    expect(await everything(database.tables()), start).toEqual(expected);
    await database.tables<AllTables>().updateTable("hosts").set({ hostname: "h" }).execute();
  }
  expect(existsSync(join(dataDir, "postgres", "PG_VERSION"))).toBe(true);
  expect(readdirSync(dataDir).sort()).toEqual(["accounts.sqlite", "postgres"]);
});

/** What is there, by name, when a move has come so far. */
const STEPS: Record<string, (bytes: ReadonlyMap<string, number>) => boolean> = {
  "as it reads the folder": () => true,
  "as it makes the new store": (bytes) => bytes.has("accounts.sqlite.moving"),
  "as it writes rows": (bytes) => (bytes.get("accounts.sqlite.moving-wal") ?? 0) > 500_000,
  "once the store has its name": (bytes) => bytes.has("accounts.sqlite"),
};

test.each(Object.keys(STEPS))("killed %s, the next start has all of it, once", async (step) => {
  const child = spawn(process.execPath, [join(import.meta.dirname, "move-process.fixture.ts"), dataDir]);
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = once(child, "exit");
  await once(child.stdout, "data");
  const isThere = (bytes: ReadonlyMap<string, number>) => bytes.has("accounts.sqlite") || STEPS[step]?.(bytes);
  while (child.exitCode === null && !isThere(sizesIn(dataDir))) await nextTurn();
  child.kill("SIGKILL");
  expect(await ended).toEqual([null, "SIGKILL"]);
  for (const start of ["first", "second"]) {
    await using database = await openDatabase({ dataDir, log });
    expect(await everything(database.tables()), start).toEqual(expected);
  }
  expect(readdirSync(dataDir).sort()).toEqual(["accounts.sqlite", "postgres"]);
});

function sizesIn(folder: string): Map<string, number> {
  return new Map(readdirSync(folder).map((name) => [name, statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0]));
}

test("a move that was cut off begins again", async () => {
  for (const ending of ["", "-wal", "-shm"]) writeFileSync(join(dataDir, `accounts.sqlite.moving${ending}`), "half of it");
  await using database = await openDatabase({ dataDir, log });
  expect(await everything(database.tables())).toEqual(expected);
  expect(readdirSync(dataDir).filter((name) => name.includes("moving"))).toEqual([]);
});

test.each([
  ["lost its control file", (folder: string) => rmSync(join(folder, "global", "pg_control"))],
  ["lost its tables", (folder: string) => rmSync(join(folder, "base"), { recursive: true })],
])("a folder that %s is refused in one sentence, every time, and nothing is begun anew", async (_what, damage) => {
  damage(join(dataDir, "postgres"));
  for (const _start of [1, 2])
    await expect(openDatabase({ dataDir, log })).rejects.toMatchObject({
      name: "StartError",
      message: expect.stringContaining("cannot be moved"),
    });
  expect(existsSync(join(dataDir, "accounts.sqlite"))).toBe(false);
});

test("an empty store of an earlier version is not taken for accounts", async () => {
  rmSync(join(dataDir, "postgres"), { recursive: true });
  await (await openPglite(join(dataDir, "postgres")))[Symbol.asyncDispose]();
  await expect(openDatabase({ dataDir, log })).rejects.toThrow("it holds no accounts");
});

test.each(["clickhouse", "metrics", "postgres", "secrets/admin-password"])(
  "a DATA_DIR with %s and no accounts is refused",
  async (trace) => {
    rmSync(join(dataDir, "postgres"), { recursive: true });
    mkdirSync(join(dataDir, trace, ".."), { recursive: true });
    if (trace.includes("/")) writeFileSync(join(dataDir, trace), "x");
    else {
      mkdirSync(join(dataDir, trace));
      await (await openDatabase({ dataDir, log }))[Symbol.asyncDispose]();
      rmSync(join(dataDir, "accounts.sqlite"));
      writeFileSync(join(dataDir, trace, "something"), "x");
    }
    await expect(openDatabase({ dataDir, log })).rejects.toThrow(`has ${trace} but no accounts.sqlite`);
    expect(existsSync(join(dataDir, "accounts.sqlite"))).toBe(false);
  },
);
