// Backup and restore of DATA_DIR, with the embedded relational store; with all engines: test/faults/backup-while-running.test.ts.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { accountsApp, directKey } from "../../../test/fixtures/accounts-app.ts";
import { CuttableDisk, whyNoCuts } from "../../../test/fixtures/power-cut.ts";
import { backup } from "./backup.ts";
import { newestBackupMs, backupName, prune, removePartialBackups } from "./backup-schedule.ts";
import { lockDataDir } from "./lock.ts";
import { restore } from "./run-backup.ts";
import { openDatabase } from "../../engines/relational/database.ts";
import { createLog } from "../../log.ts";
import { readSettings, type Secrets, type Settings } from "../../settings.ts";

const log = createLog("silent");
const noDisk = await whyNoCuts();
const root = mkdtempSync(join(tmpdir(), "atherops-backup-"));
afterAll(() => rmSync(root, { recursive: true, force: true, maxRetries: 5 }));

let number = 0;
let folder: string;

beforeEach(() => {
  folder = join(root, String(number++));
  mkdirSync(folder);
});

function installation(name: string, env: NodeJS.ProcessEnv = {}): { settings: Settings; secrets: Secrets } {
  return readSettings({ DATA_DIR: join(folder, name), ...env });
}

/** A small DATA_DIR without engines: what the copying itself must keep. */
function smallDataDir(): ReturnType<typeof installation> {
  const made = installation("data");
  const { dataDir } = made.settings;
  mkdirSync(join(dataDir, "secrets"), { recursive: true, mode: 0o700 });
  mkdirSync(join(dataDir, "empty"), { mode: 0o750 });
  writeFileSync(join(dataDir, "secrets", "master-key"), "key\n", { mode: 0o600 });
  writeFileSync(join(dataDir, "a file"), "content");
  writeFileSync(join(dataDir, "gone.pid"), "{}");
  symlinkSync("secrets/master-key", join(dataDir, "link"));
  return made;
}

test("restores accounts, keys and secrets into another DATA_DIR after the first one is gone", async () => {
  const { settings, secrets } = installation("data");
  const { dataDir } = settings;
  const env = { DATA_DIR: dataDir, MASTER_KEY: undefined, JWT_SECRET: undefined };
  let apiKey: string;
  {
    await using database = await openDatabase({ dataDir, log });
    await using backend = await accountsApp(database, { env });
    apiKey = (await directKey(backend, await backend.login())).api_key;
  }
  const taken = await backup(settings, secrets, join(folder, "backup"));
  // The accounts, that they were made, and what signs and encrypts; the first password came from the environment.
  expect(taken.files).toBe(4);
  rmSync(dataDir, { recursive: true });

  const second = installation("second");
  expect((await restore(second.settings, join(folder, "backup"))).files).toBe(taken.files);
  await using database = await openDatabase({ dataDir: second.settings.dataDir, log });
  await using backend = await accountsApp(database, { env: { ...env, DATA_DIR: second.settings.dataDir } });
  await backend.login();
  expect((await backend.call("POST", "/ingest", { key: apiKey })).statusCode).toBe(204);
});

test("keeps modes, links and empty folders, and omits what belongs to a process", async () => {
  const { settings, secrets } = smallDataDir();
  await backup(settings, secrets, join(folder, "backup"));
  expect((statSync(join(folder, "backup")).mode & 0o777).toString(8)).toBe("700");
  const { settings: second } = installation("second");
  await restore(second, join(folder, "backup"));
  expect(
    readdirSync(second.dataDir)
      .filter((name) => name !== "lock")
      .sort(),
  ).toEqual(["a file", "empty", "link", "secrets"]);
  expect(readFileSync(join(second.dataDir, "link"), "utf8")).toBe("key\n");
  for (const [path, mode] of [
    ["secrets", "700"],
    ["secrets/master-key", "600"],
    ["empty", "750"],
  ] as const)
    expect((statSync(join(second.dataDir, path)).mode & 0o777).toString(8)).toBe(mode);
});

test("rejects a running backend, an existing folder, a folder inside DATA_DIR or external engines, with what to do", async () => {
  const { settings, secrets } = smallDataDir();
  {
    using _running = lockDataDir(settings.dataDir);
    await expect(backup(settings, secrets, join(folder, "backup"))).rejects.toThrow("stop it");
    await expect(restore(settings, join(folder, "backup"))).rejects.toThrow("is not a backup");
  }
  await expect(backup(settings, secrets, folder)).rejects.toThrow("choose a new folder");
  await expect(backup(settings, secrets, join(settings.dataDir, "x"))).rejects.toThrow("inside DATA_DIR");
  const keys = { MASTER_KEY: Buffer.alloc(32).toString("base64"), JWT_SECRET: "j".repeat(32) };
  const urls = {
    DATABASE_URL: "postgres://db/a",
    CLICKHOUSE_URL: "http://ch",
    METRICS_WRITE_URL: "http://vm",
    METRICS_QUERY_URL: "http://vm",
  };
  const outside = installation("data", { ...keys, ...urls });
  await expect(backup(outside.settings, outside.secrets, join(folder, "backup"))).rejects.toThrow("nothing in DATA_DIR to back up");
});

test("rejects a damaged backup by the name of the file, and leaves DATA_DIR empty for the next try", async () => {
  const { settings, secrets } = smallDataDir();
  const { settings: second } = installation("second");
  const damages: [string, (at: string) => void, string][] = [
    ["changed", (at) => writeFileSync(join(at, "data", "a file"), "contenT"), "a file is not as it was written"],
    ["cut", (at) => writeFileSync(join(at, "data", "a file"), ""), "a file is not as it was written"],
    ["lost", (at) => rmSync(join(at, "data", "secrets", "master-key")), "secrets/master-key is missing"],
    ["added", (at) => writeFileSync(join(at, "data", "more"), ""), "more was not part of it"],
    ["manifest", (at) => writeFileSync(join(at, "manifest.json"), "{"), "cannot be read by this version"],
    ["list", (at) => writeFileSync(join(at, "manifest.json"), '{"format":1}'), "cannot be read by this version"],
  ];
  for (const [name, damage, message] of damages) {
    const at = join(folder, name);
    await backup(settings, secrets, at);
    damage(at);
    await expect(restore(second, at), name).rejects.toThrow(message);
    expect(existsSync(second.dataDir) ? readdirSync(second.dataDir).filter((file) => !file.startsWith("lock")) : []).toEqual([]);
  }
  await backup(settings, secrets, join(folder, "good"));
  await restore(second, join(folder, "good"));
  await expect(restore(second, join(folder, "good"))).rejects.toThrow("is not empty");
});

test("an interrupted backup has no final name, and the next one starts over", async () => {
  const { settings, secrets } = smallDataDir();
  mkdirSync(join(folder, ".backup.partial", "data"), { recursive: true });
  writeFileSync(join(folder, ".backup.partial", "data", "a file"), "half");
  await backup(settings, secrets, join(folder, "backup"));
  expect(readdirSync(folder).sort()).toEqual(["backup", "data"]);
  expect(readFileSync(join(folder, "backup", "data", "a file"), "utf8")).toBe("content");
});

describe("a disk without space", () => {
  /** 24 MiB and some. */
  function largeDataDir(): ReturnType<typeof installation> {
    const made = smallDataDir();
    writeFileSync(join(made.settings.dataDir, "large"), Buffer.alloc(24 * 1024 * 1024, "x"));
    return made;
  }

  test("rejects the backup with both numbers, before it writes anything", async () => {
    const { settings, secrets } = largeDataDir();
    const freeBytes = async (): Promise<number> => 3.5 * 1024 * 1024;
    const refused = backup(settings, secrets, join(folder, "backup"), { freeBytes });
    await expect(refused).rejects.toThrow(
      `not enough space in ${folder}: this backup needs 24.0 MiB; 3.5 MiB available; nothing was written`,
    );
    expect(readdirSync(folder)).toEqual(["data"]);
    await backup(settings, secrets, join(folder, "backup"));
    const { settings: second } = installation("second");
    await expect(restore(second, join(folder, "backup"), { freeBytes })).rejects.toThrow("this backup needs 24.0 MiB; 3.5 MiB available");
    expect(readdirSync(second.dataDir).filter((name) => name !== "lock")).toEqual([]);
  });

  test.skipIf(noDisk !== undefined)(
    `of its own${noDisk === undefined ? "" : ` (${noDisk})`}: reported before the copy, and removes a copy that fills the disk`,
    async () => {
      const { settings, secrets } = largeDataDir();
      await using disk = new CuttableDisk(join(folder, "disk"), 20);
      const target = join(disk.path, "backup");
      await expect(backup(settings, secrets, target)).rejects.toThrow(
        /not enough space in .*: this backup needs 24\.0 MiB; 1\d\.\d MiB available/,
      );
      // Others fill it after it was asked.
      await expect(backup(settings, secrets, target, { freeBytes: async () => Infinity })).rejects.toThrow(
        `${target} cannot be written (ENOSPC: no space left on device`,
      );
      expect(readdirSync(disk.path)).toEqual(["lost+found"]);
    },
  );
});

test("keeps the newest backups that are named by time, and does not count interrupted ones", async () => {
  const into = join(folder, "into");
  const names = ["2026-11-20T060000Z", "2026-11-21T060000Z", "2026-11-22T060000Z"].map((time) => `atherops-${time}`);
  const { settings, secrets } = smallDataDir();
  for (const name of names) await backup(settings, secrets, join(into, name));
  mkdirSync(join(into, "atherops-2026-11-23T060000Z"));
  mkdirSync(join(into, ".atherops-2026-11-23T060000Z.partial", "data"), { recursive: true });
  mkdirSync(join(into, "other"));
  await expect(restore(installation("second").settings, into)).rejects.toThrow(
    `choose one, such as the newest, ${join(into, names[2] ?? "")}`,
  );
  expect(newestBackupMs(into)).toBe(Date.parse("2026-11-22T06:00:00Z"));
  expect(await prune(into, 3, names[2] ?? "")).toEqual([]);
  expect(await prune(into, 2, names[0] ?? "")).toEqual([names[1]]);
  expect(await prune(into, 1, names[2] ?? "")).toEqual([names[0]]);
  await removePartialBackups(into);
  expect(readdirSync(into).sort()).toEqual([names[2], "atherops-2026-11-23T060000Z", "other"]);
  expect(backupName(new Date("2026-11-22T06:00:00.123Z"))).toBe(names[2]);
});
