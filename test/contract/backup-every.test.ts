// BACKUP_EVERY: the running backend makes backups automatically, reports the age of the newest one, and logs why it cannot make one.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { backupName } from "../../backend/operations/backup/backup-schedule.ts";
import { backendPlace, type BackendPlace, startBackend } from "../fixtures/backend-process.ts";
import { call, eventually, temporaryFolder } from "../fixtures/processes.ts";

async function newestS(place: BackendPlace): Promise<number> {
  const { text } = await call("GET", `${place.healthUrl}/metrics`);
  return Number(/^atherops_backup_last_timestamp_seconds (\S+)$/m.exec(text)?.[1]);
}

test("reports why there is no backup, makes one as soon as possible if the newest is old, and removes those beyond BACKUP_KEEP", async () => {
  using folder = temporaryFolder();
  const into = join(folder.path, "into");
  // The backend reports why it cannot begin, and continues as soon as it can.
  writeFileSync(into, "a file");
  const place = await backendPlace(folder.path, { BACKUP_EVERY: "1h", BACKUP_FOLDER: into, BACKUP_KEEP: "2" });
  {
    await using backend = await startBackend(place);
    await eventually("it says why", async () => /backup failed; retrying/.test(backend.log));
    expect(backend.log).toMatch(/into\/atherops-\S+ cannot be written \(ENOTDIR/);
    expect(await newestS(place)).toBe(0);
  }
  const old = [3, 2].map((hours) => backupName(new Date(Date.now() - hours * 3_600_000)));
  await using _made = await remade(place, into, old);
  const names = await eventually("a new one takes the place of the oldest", async () => {
    const found = readdirSync(into).sort();
    return found.length === 2 && found[0] === old[1] && found;
  });
  expect(await newestS(place)).toBeGreaterThan(Date.now() / 1000 - 600);
  expect(names[1]).toMatch(/^atherops-/);
});

/** Started again with a folder that can be written, in which there are old backups. */
async function remade(place: BackendPlace, into: string, old: readonly string[]): Promise<AsyncDisposable> {
  rmSync(into);
  for (const name of old) {
    mkdirSync(join(into, name), { recursive: true });
    writeFileSync(join(into, name, "manifest.json"), "{}");
  }
  return await startBackend(place);
}
