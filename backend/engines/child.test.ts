import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { freePorts, temporaryFolder } from "../../test/fixtures/processes.ts";
import { createLog } from "../log.ts";
import { announceChild } from "./orphan.ts";
import { superviseChild, type ChildOptions, type ChildTiming } from "./child.ts";

/** A small engine: answers on its port; `stubborn` ignores SIGTERM, `broken` exits at once. */
const PROGRAM = `
  const [port, manner] = process.argv.slice(1);
  if (manner === "broken") { console.error("cannot open the store: http://me:hunter2@db/ password=hunter3"); process.exit(3); }
  if (manner === "wordy") { console.error("x".repeat(980) + " http://me:hunter2hunter2@db/"); process.exit(3); }
  process.on("SIGTERM", () => manner === "stubborn" || process.exit(0));
  let logins = 0;
  const asked = (request) => {
    if (request.url === "/logins") return [200, logins];
    if (request.url !== "/login" || manner !== "refuses-the-first-login") return [200, process.env];
    return [request.headers.authorization && ++logins > 1 ? 200 : 401, {}];
  };
  require("node:http").createServer((request, answer) => {
    const [status, body] = asked(request);
    answer.writeHead(status).end(JSON.stringify(body));
  }).listen(port, "127.0.0.1", () => console.log("listening"));
`;
const TIMING: Partial<ChildTiming> = { graceMs: 300, firstBackoffMs: 20, readyTimeoutMs: 40_000 };

async function optionsIn(folder: string, manner = "", more: Partial<ChildOptions> = {}): Promise<ChildOptions & { port: number }> {
  const [port = 0] = await freePorts(1);
  return {
    name: "victoria-metrics",
    candidates: ["no-such-program-on-path", process.execPath],
    args: ["-e", PROGRAM, String(port), manner],
    pidFile: join(folder, "engine.pid"),
    readyUrl: `http://127.0.0.1:${port}/health`,
    log: createLog("silent"),
    timing: TIMING,
    port,
    ...more,
  };
}

function isRunning(pid: number | undefined): boolean {
  return existsSync(`/proc/${pid}`) && !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z");
}

test("a child gets only the given environment", async () => {
  using folder = temporaryFolder();
  const options = await optionsIn(folder.path, "", { env: { ONLY: "this" } });
  await using child = await superviseChild(options);
  expect(child.running).toBe(true);
  expect(await (await fetch(options.readyUrl)).json()).toEqual({ ONLY: "this" });
});

test("a child that rejects its first login is not ready until it accepts one", async () => {
  using folder = temporaryFolder();
  const { port, ...options } = await optionsIn(folder.path, "refuses-the-first-login");
  await using _child = await superviseChild({ ...options, loginUrl: `http://user:password@127.0.0.1:${port}/login` });
  expect(await (await fetch(`http://127.0.0.1:${port}/logins`)).json()).toBe(2);
});

test("restarts and counts a crashed child, but not a stopped one", async () => {
  using folder = temporaryFolder();
  const onRestart = vi.fn<() => void>();
  const lines: string[] = [];
  const log = createLog("info", "test", { write: (line) => void lines.push(line) });
  const child = await superviseChild(await optionsIn(folder.path, "", { onRestart, log }));
  const first = child.pid ?? 0;
  process.kill(first, "SIGKILL");
  await vi.waitFor(() => expect(onRestart).toHaveBeenCalledTimes(1), { timeout: 40_000 });
  expect(child.running).toBe(true);
  expect(child.pid).not.toBe(first);
  const second = child.pid;
  const said = lines.map((line) => JSON.parse(line) as { msg: string; err?: { message: string } });
  expect(said.map(({ msg, err }) => [msg, err?.message.split("\n")[0]])).toEqual([
    ["engine is down; retrying", "victoria-metrics exited (signal SIGKILL); its last lines:"],
    ["engine recovered", undefined],
  ]);
  await child[Symbol.asyncDispose]();
  expect([isRunning(second), child.running, child.restarts, child.stoppedCleanly]).toEqual([false, false, 1, true]);
  expect(existsSync(join(folder.path, "engine.pid"))).toBe(false);
});

test("kills a child that ignores SIGTERM after its grace period", async () => {
  using folder = temporaryFolder();
  const child = await superviseChild(await optionsIn(folder.path, "stubborn"));
  const pid = child.pid;
  await child[Symbol.asyncDispose]();
  expect([isRunning(pid), child.stoppedCleanly]).toEqual([false, false]);
});

test("reports a child that exits before it is ready with its last lines, secrets masked", async () => {
  using folder = temporaryFolder();
  const start = superviseChild(await optionsIn(folder.path, "broken"));
  await expect(start).rejects.toThrow(
    /^victoria-metrics exited before it was ready \(exit code 3\); its last lines:\n {2}cannot open the store: http:\/\/\[redacted\]@db\/ password=\[redacted\]$/,
  );
});

test("logs nothing of a secret that a long line's truncation cuts", async () => {
  using folder = temporaryFolder();
  const start = superviseChild(await optionsIn(folder.path, "wordy"));
  await expect(start).rejects.toThrow(/x http:\/\/\[redacted\]/);
});

test("reports a folder given as a program", async () => {
  using folder = temporaryFolder();
  const start = superviseChild(await optionsIn(folder.path, "", { candidates: [folder.path] }));
  await expect(start).rejects.toThrow(`none of ${folder.path} can be executed; set VICTORIA_METRICS_PATH`);
});

test("stops and reports a child that never becomes ready", async () => {
  using folder = temporaryFolder();
  const [otherPort] = await freePorts(1);
  const options = await optionsIn(folder.path, "", {
    readyUrl: `http://127.0.0.1:${otherPort}/`,
    timing: { ...TIMING, readyTimeoutMs: 400 },
  });
  await expect(superviseChild(options)).rejects.toThrow(/is not ready after 0.4 s/);
  await expect(fetch(`http://127.0.0.1:${options.port}/`)).rejects.toThrow("fetch failed");
});

test("stops the child of a killed backend before it starts the next one, even if it ignores SIGTERM", async () => {
  using folder = temporaryFolder();
  const options = await optionsIn(folder.path, "stubborn");
  const script = `
    const { superviseChild } = await import(${JSON.stringify(new URL("child.ts", import.meta.url).href)});
    const { createLog } = await import(${JSON.stringify(new URL("../log.ts", import.meta.url).href)});
    const child = await superviseChild({ ...${JSON.stringify(options)}, log: createLog("silent") });
    console.log(child.pid);
    process.kill(process.pid, "SIGKILL");`;
  const backend = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(backend.stdout, "data")) as [Buffer];
  const orphan = Number(line.toString());
  if (backend.exitCode === null && backend.signalCode === null) await once(backend, "exit");
  expect(isRunning(orphan)).toBe(true);

  await using child = await superviseChild(options);
  expect([isRunning(orphan), child.running]).toEqual([false, true]);
});

test("finds a child without a recorded id by its note and stops it, and starts none that it cannot record", async () => {
  using folder = temporaryFolder();
  const options = await optionsIn(folder.path);
  const orphan = spawn(process.execPath, [...options.args], { stdio: ["ignore", "pipe", "inherit"] });
  await once(orphan.stdout, "data");
  // Simulates a backend that dies right after it has started the child.
  announceChild(options.pidFile, process.execPath, options.args);
  const child = await superviseChild(options);
  expect([isRunning(orphan.pid), child.running]).toEqual([false, true]);
  await child[Symbol.asyncDispose]();

  mkdirSync(`${options.pidFile}.new`);
  await expect(superviseChild(options)).rejects.toThrow(/EISDIR/);
  await expect(fetch(options.readyUrl)).rejects.toThrow("fetch failed");
});

test("does not start a restarted child twice if its note could not be written", async () => {
  using folder = temporaryFolder();
  const options = await optionsIn(folder.path);
  await using child = await superviseChild(options);
  mkdirSync(`${options.pidFile}.new`);
  process.kill(child.pid ?? 0, "SIGKILL");
  await vi.waitFor(() => expect(child.restarts).toBeGreaterThan(1), { timeout: 40_000 });
  await expect(fetch(options.readyUrl)).rejects.toThrow("fetch failed");
  rmdirSync(`${options.pidFile}.new`);
  await vi.waitFor(() => expect(child.running).toBe(true), { timeout: 40_000 });
});

test("does not stop a process that only has the recorded id", async () => {
  using folder = temporaryFolder();
  const otherProcess = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
  const options = await optionsIn(folder.path);
  writeFileSync(options.pidFile, JSON.stringify({ pid: otherProcess.pid, startTime: "1", commandLine: "something else" }));
  await using child = await superviseChild(options);
  expect([child.running, isRunning(otherProcess.pid)]).toEqual([true, true]);
  otherProcess.kill("SIGKILL");
});
