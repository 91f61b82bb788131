// Jobs that exceed their limits, in real processes: each costs its own organisation one query, and other organisations nothing.
import { readdirSync, statSync, writeFileSync } from "node:fs";
import { enableCompileCache, getCompileCacheDir } from "node:module";
import { getPriority, setPriority } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { pino } from "pino";
import { afterEach, expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import type { Ask, ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { ApiError } from "../../errors.ts";
import type { TestJob } from "./jobs.fixture.ts";
import { Sandbox, type SandboxOptions } from "./sandbox.ts";
import type { KillReason } from "./sandbox-process.ts";

const SCRIPT = new URL("./jobs.fixture.ts", import.meta.url);
const statements: string[] = [];
const limitsOfStatements: unknown[][] = [];
const logged: Record<string, unknown>[] = [];
const killed: KillReason[] = [];
let sandbox: Sandbox;
afterEach(async () => {
  await sandbox[Symbol.asyncDispose]();
  for (const list of [statements, limitsOfStatements, logged, killed]) list.length = 0;
});

const ask: Ask = async ({ text }, ...limits) => {
  statements.push(text);
  limitsOfStatements.push(limits);
  return Buffer.from("rows");
};
const clickhouse: Pick<ClickHouse, "read"> = { read: async (_orgId, _options, work) => await work(ask, new AbortController().signal) };

function open(options: Partial<SandboxOptions> = {}): void {
  const log = pino({ base: null, timestamp: false }, { write: (line) => void logged.push(JSON.parse(line) as Record<string, unknown>) });
  sandbox = new Sandbox({ script: SCRIPT, clickhouse, log, onKilled: (reason) => killed.push(reason), ...options });
}

async function run(orgId: string, does: TestJob["does"], signal?: AbortSignal): Promise<string> {
  const job: TestJob = { does, text: orgId };
  return (await sandbox.run(orgId, job, { signal, labelLimits: undefined })).toString("utf8");
}

it.each([
  ["loop", "cpu_time", "takes more than 1 s of CPU time and was stopped: "],
  ["backtrack", "cpu_time", "takes more than 1 s of CPU time and was stopped: "],
  ["grow", "memory", "takes more than 192 MiB of memory and was stopped: "],
  ["burst", "memory", "takes more than 192 MiB of memory and was stopped: "],
  ["buffers", "memory", "takes more than 192 MiB of memory and was stopped: "],
  ["sleep", "no_progress", "makes no progress and was stopped: "],
  ["exit", "crash", "cannot be evaluated and was stopped: "],
] as const)("stops %s for %s, logs it, and affects no other query", async (does, reason, message) => {
  open({ limits: { cpuMs: reason === "memory" ? 60_000 : 1000, wallMs: does === "sleep" ? 500 : 60_000 } });
  const hostile = run("red", does).catch((error: unknown) => error);
  expect(await run("blue", "answer")).toBe("blue");
  expect(await hostile).toMatchObject({ code: "query_too_expensive", message: expect.stringContaining(message) as string });
  expect(await run("red", "answer")).toBe("red");
  expect(killed).toEqual([reason]);
  expect(logged).toEqual([{ level: 40, event: "sandbox.job_killed", org_id: "red", reason, msg: "sandbox job killed" }]);
});

it("runs statements in the organisation's own slot, with its id and the job's limits", async () => {
  const slots: string[] = [];
  open({ clickhouse: { read: async (orgId, _options, work) => (slots.push(orgId), await work(ask, new AbortController().signal)) } });
  expect(await run("re'd", "read")).toBe("rows");
  expect(slots).toEqual(["re'd"]);
  expect(statements).toEqual([String.raw`SELECT 1 WHERE org_id = 're\'d'`]);
  expect(limitsOfStatements).toEqual([[1000, 20, 3]]);
  await expect(run("red", "read_all")).rejects.toThrow("without its organisation");
});

it("returns the engine's own error, and uses no slot for a job that reads nothing", async () => {
  const error = new ApiError("too_many_queries", "full", { retryAfterS: 5 });
  let reads = 0;
  open({ clickhouse: { read: async () => await Promise.reject((reads++, error)) } });
  await expect(run("red", "read")).rejects.toBe(error);
  expect(await run("red", "answer")).toBe("red");
  expect(reads).toBe(1);
});

it("stops a job whose client disconnected, and runs the next one of the organisation", async () => {
  open();
  const gone = new AbortController();
  const job = run("red", "read_and_loop", gone.signal).catch((error: unknown) => error);
  await expect.poll(() => statements, { timeout: 50_000 }).toHaveLength(1);
  const why = new Error("left");
  gone.abort(why);
  expect(await job).toBe(why);
  expect(await run("red", "answer")).toBe("red");
  expect(killed).toEqual(["client_gone"]);
});

it("reuses an organisation's last process, and another's only if no new one can start", async () => {
  open({ limits: { processes: 2 } });
  const [red, blue] = [await run("red", "pid"), await run("blue", "pid")];
  expect(red).not.toBe(blue);
  expect([await run("blue", "pid"), await run("red", "pid"), await run("blue", "pid")]).toEqual([blue, red, blue]);
  expect(await run("green", "pid")).toBe(red);
  await run("green", "exit").catch(() => undefined);
  expect(await run("blue", "pid")).toBe(blue);
  expect(sandbox.processes).toBe(1);
});

it("starts no process before the first job, keeps it warm, and stops an idle one", async () => {
  open({ limits: { idleMs: 200 } });
  expect(sandbox.processes).toBe(0);
  await run("red", "answer");
  expect(sandbox.processes).toBe(1);
  await expect.poll(() => sandbox.processes).toBe(0);
  expect(killed).toEqual([]);
});

it("stops the job of the organisation that used most if an idle one waits, without a new process", async () => {
  open({ limits: { processes: 2, cpuMs: 120_000 } });
  const busy = ["red", "blue"].map((orgId) => run(orgId, "loop").catch((error: unknown) => error));
  await expect.poll(() => sandbox.processes).toBe(3);
  await setTimeout(1500);
  expect(await run("green", "answer")).toBe("green");
  const ended = await Promise.race(busy);
  expect(ended).toMatchObject({ code: "too_many_queries", status: 429, retryAfterS: 5 });
  expect(sandbox.jobs).toMatchObject({ running: 1, waiting: 0 });
  expect(killed).toEqual([]);
});

it("stops a job that waits for rows if its read slot is revoked", async () => {
  const takenBack = new AbortController();
  const endless: Ask = () => new Promise((_, reject) => takenBack.signal.addEventListener("abort", () => reject(takenBack.signal.reason)));
  let isOver = false;
  open({ clickhouse: { read: async (_orgId, _options, work) => await work(endless, takenBack.signal).finally(() => (isOver = true)) } });
  const job = run("red", "read").catch((error: unknown) => error);
  await expect.poll(() => sandbox.jobs.running).toBe(1);
  const why = new ApiError("too_many_queries", "taken back", { retryAfterS: 5 });
  await setTimeout(1000);
  takenBack.abort(why);
  expect(await job).toBe(why);
  expect(isOver).toBe(true);
});

it("stops its processes and their jobs when it closes", async () => {
  open();
  const job = run("red", "loop").catch((error: unknown) => error);
  await run("blue", "answer");
  await sandbox[Symbol.asyncDispose]();
  expect(await job).toMatchObject({ code: "unavailable" });
  expect(sandbox.processes).toBe(0);
});

it("passes nothing of the backend's environment to a process", async () => {
  // oxlint-disable-next-line node/no-process-env -- what a process must not inherit
  process.env["SANDBOX_TEST_SECRET"] = "x";
  // oxlint-disable-next-line node/no-process-env -- as above
  onTestFinished(() => void delete process.env["SANDBOX_TEST_SECRET"]);
  open();
  expect(await run("red", "environment")).not.toContain("SECRET");
});

// Only root may raise the priority again.
it.runIf(process.getuid?.() === 0)("runs its processes with a lower priority than its own, whatever that is", async () => {
  const own = getPriority();
  setPriority(own + 3);
  onTestFinished(() => setPriority(own));
  open();
  expect(Number(await run("red", "priority"))).toBe(own + 8);
});

it("keeps the code that V8 compiled for a process next to its own, for the next process", async () => {
  enableCompileCache();
  using folder = temporaryFolder();
  const script = join(folder.path, "jobs.mjs");
  const serve = JSON.stringify(new URL("./serve-jobs.ts", import.meta.url).href);
  const job = `async () => Buffer.from(getCompileCacheDir() ?? "")`;
  writeFileSync(script, `import { getCompileCacheDir } from "node:module"; import { serveJobs } from ${serve}; serveJobs(${job});`);
  const beganMs = Date.now();
  open({ script: pathToFileURL(script) });
  const compiled = await run("red", "answer");
  expect(dirname(compiled)).toBe(dirname(getCompileCacheDir() ?? ""));
  const isNew = (name: string): boolean => statSync(join(compiled, name)).mtimeMs >= beganMs;
  await expect.poll(() => readdirSync(compiled).some(isNew)).toBe(true);
});
