// How the backend stops, and which backend may start: SIGTERM under load stores all acknowledged data and leaves no process running; only
// one backend can use a data directory.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { sign } from "../../common/protocol/signature.ts";
import { backendPlace, type Tenant } from "../fixtures/backend-process.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { call, eventually, readIfThere, temporaryFolder, TestProcess } from "../fixtures/processes.ts";
import { isAlive } from "../fixtures/process-state.ts";
import { lossesOf, nameOf, NOTHING_LOST, Senders, SIGNALS } from "../fixtures/senders.ts";

const ENGINES = ["victoria-metrics", "vmalert"] as const;

const backend = backendOfFile({ JWT_TTL: "2h" });
let tenant: Tenant;

beforeAll(async () => {
  tenant = await backend.tenant("stop");
});

function enginePids(): number[] {
  return ENGINES.map((name) => backend.enginePid(name));
}

/** Different successive responses of /readyz, until the port is closed. */
async function readinessUntilGone(): Promise<string[]> {
  const seen: string[] = [];
  for (;;) {
    const answer = await call("GET", `${backend.healthUrl}/readyz`).catch(() => undefined);
    const shown = answer ? nameOf(answer) : "gone";
    if (seen.at(-1) !== shown) seen.push(shown);
    if (!answer) return seen;
    // Polls closely: each state of the stop is seen.
    await sleep(5);
  }
}

test("SIGTERM under load: readiness returns 503, the exit code is 0, no engine is left, and all acknowledged data is stored", async () => {
  await using senders = new Senders({ apiUrl: backend.apiUrl, tenant, perSignal: { logs: 4, spans: 4, metrics: 4 }, pauseMs: 5 });
  for (let stop = 0; stop < 3; stop += 1) {
    const before = senders.acknowledged().length;
    await eventually("load", async () => senders.acknowledged().length > before + 60);
    const pids = enginePids();
    const readiness = readinessUntilGone();
    await eventually("readiness is watched", async () => (await call("GET", `${backend.healthUrl}/readyz`)).status === 200);
    const startedAt = Date.now();
    expect(await backend.end("SIGTERM")).toBe(0);
    console.log(`stopped in ${Date.now() - startedAt} ms; readiness ${(await readiness).join(", ")}`);
    // Before that it was ready, which the watcher may have come too late to see.
    expect((await readiness).filter((shown) => shown !== "200")).toEqual(["503 draining", "gone"]);
    for (const pid of pids) expect(isAlive(pid)).toBe(false);
    for (const name of ENGINES) expect(existsSync(join(backend.dataDir, `${name}.pid`))).toBe(false);
    await backend.start();
  }
  await senders.finish();
  console.log(`answers: ${JSON.stringify(Object.fromEntries(senders.answers))}`);
  const allowed = /^(204|no answer|503 unavailable, again after \d+ s)$/;
  expect([...senders.answers.keys()].filter((answer) => !allowed.test(answer))).toEqual([]);
  for (const signal of SIGNALS) {
    await eventually(`every acknowledged record of ${signal} is readable once`, async () => {
      expect(await lossesOf(backend.apiUrl, tenant.token, signal, senders.sent)).toEqual(NOTHING_LOST);
      return true;
    });
  }
});

test("usage and audit entries from before a stop are stored after it", async () => {
  const quiet = await backend.tenant("quiet");
  const sent = await call("POST", `${backend.apiUrl}/ingest`, {
    body: 'up 1\nup{a="b"} 2\n',
    headers: sign(quiet.apiKey, "POST", "/ingest", Date.now() / 1000),
  });
  expect(sent.status).toBe(204);
  expect(await backend.end("SIGTERM")).toBe(0);
  await backend.start();
  const read = async (path: string) => (await call("GET", `${backend.apiUrl}${path}`, { bearer: quiet.token })).json;
  expect(await read("/api/usage")).toEqual([
    { day: expect.any(String), signal: "metrics", bytes: expect.any(Number), records: 2, active_series: null },
  ]);
  const entries: { action: string }[] = await read("/api/audit");
  expect(entries.map(({ action }) => action)).toEqual(["key.create", "login", "org.create"]);
});

test("a second start on the same data directory is rejected with one sentence and exit code 2, and does not affect the first", async () => {
  const elsewhere = await backendPlace(backend.folder, { DATA_DIR: backend.dataDir });
  const logFile = join(backend.folder, "second.out");
  await using second = new TestProcess(["backend/main.ts", "serve"], elsewhere.env, logFile);
  await eventually("it ends", async () => second.ended);
  expect(second.child.exitCode).toBe(2);
  const said = second.log.split("\n").filter((line) => line !== "" && !line.startsWith("{"));
  console.log(said.join("\n"));
  expect(said).toHaveLength(1);
  expect(said[0]).toMatch(/^atherops-backend: .*is used by process \d+ on .*: stop it, or give this one its own DATA_DIR/);
  expect(said[0]).toContain(`process ${backend.child.pid} `);
  for (const pid of enginePids()) expect(isAlive(pid)).toBe(true);
  expect((await call("GET", `${backend.healthUrl}/readyz`)).status).toBe(200);
});

test("an engine that cannot start ends the start with one sentence, and the started engines are stopped", async () => {
  using elsewhere = temporaryFolder();
  const { env, dataDir, logFile } = await backendPlace(elsewhere.path, { VMALERT_PATH: "/nowhere/vmalert" });
  await using failing = new TestProcess(["backend/main.ts", "serve"], env, logFile);
  const started = await eventually("victoria-metrics is started", async () => readIfThere(join(dataDir, "victoria-metrics.pid")));
  await eventually("it ends", async () => failing.ended);
  expect(failing.child.exitCode).toBe(2);
  expect(failing.log.split("\n").filter((line) => line !== "" && !line.startsWith("{"))).toEqual([
    expect.stringMatching(/^atherops-backend: vmalert is not installed: none of \/nowhere\/vmalert can be executed; set VMALERT_PATH/),
  ]);
  expect(isAlive((JSON.parse(started) as { pid: number }).pid)).toBe(false);
});
