// Backup and restore with every embedded engine, as an operator does it: after the first DATA_DIR is gone, a restored one has the same
// data, and the agents' keys are valid. Backups under load: test/faults/backup-while-running.test.ts.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { adminPassword, backendPlace, login, startBackend, type BackendPlace } from "../fixtures/backend-process.ts";
import { allNamed, sendOneOfEach, storedNames } from "../fixtures/one-of-each.ts";
import { call, eventually, signedPost, temporaryFolder, TestProcess } from "../fixtures/processes.ts";

async function command(place: BackendPlace, name: string, folder: string): Promise<{ code: number | null; output: string }> {
  const logFile = join(place.dataDir, "..", `${name}.out`);
  const run = new TestProcess(["backend/main.ts", name, folder], place.env, logFile);
  await eventually(`${name} ends`, async () => run.ended);
  return { code: run.child.exitCode, output: run.log };
}

test("a backup restores logs, spans, samples, accounts and keys into another DATA_DIR", async () => {
  using folder = temporaryFolder();
  using secondFolder = temporaryFolder();
  const [place, second] = [await backendPlace(folder.path), await backendPlace(secondFolder.path)];
  const backupFolder = join(folder.path, "backup");
  const backend = await startBackend(place);
  const token = await login(place.apiUrl, "admin@localhost", adminPassword(place));
  const { api_key: key } = (await call("POST", `${place.apiUrl}/api/keys`, { bearer: token, body: { name: "loader" } })).json;
  await sendOneOfEach(place.apiUrl, key, "kept");
  await expect.poll(() => storedNames(place.apiUrl, token), { timeout: 60_000 }).toEqual(allNamed("kept"));

  const early = await command(place, "backup", join(folder.path, "while-it-runs"));
  expect([early.code, early.output]).toEqual([0, expect.stringContaining("taken while the backend was running")]);
  const refused = await command(place, "restore", join(folder.path, "while-it-runs"));
  expect([refused.code, refused.output]).toEqual([2, expect.stringContaining("stop it")]);
  // Killed, not stopped: its engines are left behind, and the backup ends them.
  await backend.end("SIGKILL");
  const taken = await command(place, "backup", backupFolder);
  expect([taken.code, taken.output]).toEqual([0, expect.stringContaining("protect it like DATA_DIR")]);
  rmSync(place.dataDir, { recursive: true });

  const restored = await command(second, "restore", backupFolder);
  expect([restored.code, restored.output]).toEqual([0, expect.stringContaining("restored into")]);
  expect(restored.output).toMatch(
    // Killed: the journal may hold rows that are stored already, which the first start finds out.
    /accounts as of .*: 1 organisation, 1 user, 1 key, .*\nlogs as of .*: 1 row\b.*\nspans as of .*: 1 row\b.*\nmetrics as of /,
  );
  await using _again = await startBackend(second);
  const session = await login(second.apiUrl, "admin@localhost", adminPassword(second));
  await expect.poll(() => storedNames(second.apiUrl, session), { timeout: 60_000 }).toEqual(allNamed("kept"));
  expect((await signedPost(second.apiUrl, "/ingest", key, "one_of_each 43\n")).status).toBe(204);
});
