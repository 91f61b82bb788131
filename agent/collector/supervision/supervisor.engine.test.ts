// The supervisor with the real collector, and with scripts in its place where a collector cannot be made to fail in that way. One file,
// because a case is a few lines around one way to start it.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { toolPath } from "../../../hack/fetch-tools.ts";
import { isAlive } from "../../../test/fixtures/process-state.ts";
import { readSettings } from "../../settings.ts";
import { StateDirError } from "../../state/state-dir.ts";
import { configFromSettings } from "../config/config-from-settings.ts";
import { recordChild, StateInUseError } from "./orphan.ts";
import { CollectorConfigError } from "../config/render.ts";
import { canMount, SmallDisk } from "./small-disk.fixture.ts";
import { CollectorProcess } from "./process.ts";
import { Supervisor, type SupervisorTiming } from "./supervisor.ts";
import { ValidationUnavailableError, validateCollectorConfig } from "./config-files.ts";

let program: string;
let folder: string;
let lines: Record<string, unknown>[];
let supervisor: Supervisor | undefined;
beforeAll(async () => void (program = await toolPath("otelcol-contrib")));
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "atherops-supervisor-"));
  lines = [];
});
afterEach(async () => {
  await supervisor?.[Symbol.asyncDispose]();
  supervisor = undefined;
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true, maxRetries: 3 });
});

function config(env: NodeJS.ProcessEnv = {}): string {
  const listen = { OTLP_GRPC_LISTEN: "127.0.0.1:0", OTLP_HTTP_LISTEN: "127.0.0.1:0" };
  return configFromSettings(
    readSettings("host", { BACKEND_URL: "http://127.0.0.1:1", STATE_DIR: folder, SIGNALS: "traces", ...listen, ...env }).settings,
  );
}

function make(otelcol = program, stopGraceMs = 5000, other: Partial<SupervisorTiming> = {}): Supervisor {
  const log = pino({ level: "debug" }, { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) });
  const timing = { firstBackoffMs: 50, maxBackoffMs: 400, readyWithinMs: 20_000, ...other };
  supervisor = new Supervisor({ program: otelcol, stateDir: folder, memoryMib: 200, stopGraceMs, env: {}, log, timing });
  return supervisor;
}

async function running(of: Supervisor): Promise<number> {
  await vi.waitFor(() => expect(of.status().state).toBe("running"), { timeout: 50_000 });
  return of.status().pid ?? 0;
}

/** Options of a process that is ended with its children. */
const GROUP = { stdio: "ignore", detached: true } as const;

/** A script in place of the collector, for behaviour that the real one cannot be made to show. */
function fakeCollector(script: string): string {
  const path = join(folder, "otelcol-fake");
  writeFileSync(path, `#!/bin/sh\nif [ "$1" = validate ]; then exit 0; fi\n${script}\n`, { mode: 0o755 });
  return path;
}

/** The real one when its configuration ends in "# new"; else it damages its queue and blames it. */
function dyingUnlessNew(): string {
  mkdirSync(join(folder, "queue"));
  const file = join(folder, "queue", "exporter_otlp_http_atherops_traces");
  return fakeCollector(
    `if /bin/grep -q '^# new' "$2"; then /bin/rm ${file}; exec ${program} "$@"; fi\n/bin/head -c 20000 /dev/urandom > ${file}\necho 'Error: cannot start: invalid database' >&2\nexit 1`,
  );
}

/** Controls when reading through file handles begins and ends, and whether it fails. */
async function slowDisk(): Promise<{ isLooking: Promise<void>; goOn: (failure?: Error) => void }> {
  const handle = await open(folder, "r");
  const prototype = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  const looking = Promise.withResolvers<void>();
  const going = Promise.withResolvers<{ buffer: NonSharedBuffer; bytesRead: number }>();
  vi.spyOn(prototype, "read").mockImplementation(() => {
    looking.resolve();
    return going.promise;
  });
  const goOn = (failure?: Error): void => (failure ? going.reject(failure) : going.resolve({ buffer: Buffer.alloc(0), bytesRead: 0 }));
  return { isLooking: looking.promise, goOn };
}

describe("the supervisor", () => {
  test("starts the collector, serves its metrics, and stops it when disposed", async () => {
    const of = make();
    await of.start(() => config());
    const pid = await running(of);
    expect(await of.healthy()).toBe(true);
    expect(await (await fetch(of.metricsUrl ?? "")).text()).toContain("otelcol_process_uptime");
    await of[Symbol.asyncDispose]();
    expect(isAlive(pid)).toBe(false);
    expect(of.status()).toMatchObject({ state: "stopped", restarts: 0, lastError: null });
  });

  test("passes no secrets in the collector's environment", async () => {
    process.env["INSTALL_TOKEN"] = "it_must_not_be_seen";
    const of = make();
    await of.start(() => config());
    const pid = await running(of);
    delete process.env["INSTALL_TOKEN"];
    const names = readFileSync(`/proc/${pid}/environ`, "utf8")
      .split("\0")
      .map((entry) => entry.split("=")[0]);
    expect(new Set(names.filter(Boolean))).toEqual(
      new Set([
        "ATHEROPS_COLLECTOR_HEALTH_PORT",
        "ATHEROPS_COLLECTOR_METRICS_PORT",
        "ATHEROPS_FILES_TOKEN",
        "ATHEROPS_QUEUE_BYTES",
        "GOMEMLIMIT",
      ]),
    );
  });

  test("restarts a killed collector and logs why it ended", async () => {
    const of = make();
    await of.start(() => config());
    const first = await running(of);
    process.kill(first, "SIGKILL");
    await expect.poll(() => of.status().restarts).toBe(1);
    expect(await running(of)).not.toBe(first);
    expect(of.status().lastError).toContain("SIGKILL");
  });

  test("restarts the collector only if the configuration's bytes differ", async () => {
    const of = make();
    await of.start(() => config());
    const first = await running(of);
    await of.apply(config());
    expect(of.status().pid).toBe(first);
    await of.apply(config({ SIGNALS: "traces,logs", LOG_PATHS: `${folder}/*.log` }));
    expect(of.status().pid).not.toBe(first);
    expect(of.status()).toMatchObject({ state: "running", restarts: 0, configError: null });
  });

  test("applies a configuration that arrives while a collector is starting", async () => {
    const of = make();
    await of.start(() => config());
    const [isStarting, mayStart] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const start = CollectorProcess.start.bind(CollectorProcess);
    process.kill(await running(of), "SIGKILL");
    vi.spyOn(CollectorProcess, "start").mockImplementationOnce(async (...options) => {
      isStarting.resolve();
      await mayStart.promise;
      return await start(...options);
    });
    await isStarting.promise;
    const applied = of.apply(`${config()}# new\n`);
    await expect.poll(() => readFileSync(join(folder, "collector", "config.yaml"), "utf8")).toContain("# new");
    mayStart.resolve();
    await applied;
    expect(of.status()).toMatchObject({ state: "running", configError: null });
  });

  test("rejects a configuration with the collector's own message and keeps the running one", async () => {
    const of = make();
    await of.start(() => config());
    const first = await running(of);
    await expect(of.apply(config().replace("limit_mib", "limit_mibs"))).rejects.toThrow(/limit_mibs/);
    expect(of.status()).toMatchObject({ pid: first, state: "running" });
    expect(of.status().configError).toContain("limit_mibs");
    await of.apply(config());
    expect(of.status().configError).toBeNull();
  });

  test("rolls back to the previous configuration if a valid one does not become ready", async () => {
    const noting = fakeCollector(`[ -e ${folder}/collector/last-good.yaml ]; echo $? >> ${folder}/noted\nexec ${program} "$@"`);
    const of = make(noting);
    await of.start(() => config());
    await running(of);
    // 192.0.2.1 is an address of no machine: valid, and cannot be listened on.
    await expect(of.apply(config({ OTLP_HTTP_LISTEN: "192.0.2.1:4318" }))).rejects.toThrow(/192\.0\.2\.1/);
    await running(of);
    const [first, ...later] = readFileSync(join(folder, "noted"), "utf8").trim().split("\n");
    expect(first).toBe("1");
    expect(new Set(later), "what last ran is there at each later start").toEqual(new Set(["0"]));
    expect(of.status().configError).toContain("192.0.2.1");
    expect(readFileSync(join(folder, "collector", "config.yaml"), "utf8")).not.toContain("192.0.2.1");
  });

  test("starts with the last working configuration if the settings render one that is rejected", async () => {
    const first = make();
    await first.start(() => config());
    await running(first);
    await first[Symbol.asyncDispose]();
    const second = make();
    await second.start(() => config().replace("limit_mib", "limit_mibs"));
    await running(second);
    expect(second.status().configError).toContain("limit_mibs");
  });

  test("lets the collector use its grace period to stop", async () => {
    const slow = fakeCollector(`trap 'sleep 6; touch ${folder}/ended; exit 0' TERM\ntouch ${folder}/up\nwhile :; do sleep 0.1; done`);
    const of = make(slow, 20_000);
    await of.start(() => config());
    await vi.waitFor(() => expect(existsSync(join(folder, "up"))).toBe(true), { timeout: 50_000 });
    await of[Symbol.asyncDispose]();
    expect(existsSync(join(folder, "ended"))).toBe(true);
  });

  test("refuses to start without a configuration that ever worked", async () => {
    await expect(make().start(() => "receivers: {nothing: {}}")).rejects.toThrow(CollectorConfigError);
  });

  test("ignores a last working configuration that a power failure emptied", async () => {
    mkdirSync(join(folder, "collector"));
    writeFileSync(join(folder, "collector", "last-good.yaml"), "");
    await expect(make().start(() => "receivers: {nothing: {}}")).rejects.toThrow(CollectorConfigError);
  });

  test("restarts a collector that stops responding, but not one that was slow for a while", async () => {
    const of = make(program, 5000, { probeEveryMs: 300, hungAfter: 5 });
    await of.start(() => config());
    const first = await running(of);
    process.kill(first, "SIGSTOP");
    // Some of its questions go unanswered.
    await sleep(700);
    process.kill(first, "SIGCONT");
    await vi.waitFor(async () => expect(await of.healthy()).toBe(true), { timeout: 50_000 });
    expect(of.status()).toMatchObject({ pid: first, restarts: 0 });
    process.kill(first, "SIGSTOP");
    await vi.waitFor(() => expect(of.status().restarts).toBe(1), { timeout: 50_000 });
    expect(of.status().lastError).toMatch(/^hung: killed after 5 probes/);
    expect(isAlive(first)).toBe(false);
    expect(await running(of)).not.toBe(first);
  });

  test("backs off from a collector that runs without ever becoming ready, and logs it", async () => {
    const of = make(fakeCollector("exec /bin/sleep 60"), 5000, { readyWithinMs: 150, healthyAfterMs: 100 });
    await of.start(() => config());
    await vi.waitFor(() => expect(of.status().restarts).toBeGreaterThanOrEqual(3), { timeout: 50_000 });
    expect(of.status().lastError).toBe("not ready after 0.15 s");
    expect(lines.flatMap(({ failures }) => failures ?? []).slice(0, 3)).toEqual([1, 2, 3]);
  });

  test("starts and changes nothing if the validation process was killed", async () => {
    const path = join(folder, "otelcol-killed");
    writeFileSync(path, `#!/bin/sh\nif [ "$1" = validate ]; then kill -9 $$; fi\nexec ${program} "$@"\n`, { mode: 0o755 });
    const of = make(path);
    await of.start(() => config());
    const first = await running(of);
    expect(lines.find(({ msg }) => msg === "starting the collector with an unchecked configuration")).toMatchObject({
      err: expect.stringContaining("was ended by SIGKILL") as string,
    });
    await expect(of.apply(config({ LOG_LEVEL: "error" }))).rejects.toThrow(ValidationUnavailableError);
    expect(of.status()).toMatchObject({ pid: first, state: "running", configError: null });
  });

  test("does not treat a validation timeout as a rejection", async () => {
    const slow = fakeCollector("exit 1");
    writeFileSync(slow, "#!/bin/sh\nexec /bin/sleep 60\n");
    const checked = validateCollectorConfig(slow, join(folder, "none.yaml"), { env: {}, memoryMib: 200 }, 200);
    await expect(checked).rejects.toThrow(ValidationUnavailableError);
    await expect(checked).rejects.toThrow(/took longer than 0\.2 s/);
  });

  test.skipIf(!canMount)("continues when its state directory becomes read-only (needs root)", async () => {
    const state = join(folder, "collector");
    using disk = new SmallDisk(state, "1m");
    const of = make();
    await of.start(() => config());
    const first = await running(of);
    disk.readOnly();
    process.kill(first, "SIGKILL");
    await vi.waitFor(() => expect(of.status().restarts).toBe(1), { timeout: 50_000 });
    expect(await running(of)).not.toBe(first);
    expect(lines.some(({ msg }) => msg === "cannot record the collector's exit; continuing")).toBe(true);
    await of[Symbol.asyncDispose]();
  });

  test("stops the collector of a killed agent before it starts its own", async () => {
    const child = spawn("/bin/sh", ["-c", "sleep 60 & wait", join(folder, "collector", "config.yaml")], { stdio: "ignore" });
    await once(child, "spawn");
    mkdirSync(join(folder, "collector"), { recursive: true });
    const note = join(folder, "collector", "child.json");
    recordChild(note, child.pid ?? 0);
    const noted = JSON.parse(readFileSync(note, "utf8")) as Record<string, unknown>;
    writeFileSync(note, JSON.stringify({ ...noted, agentPid: 2 ** 22 - 1, agentStartTicks: "1" }));
    const of = make();
    const ended = once(child, "exit");
    await of.start(() => config());
    await ended;
    expect(child.signalCode).toBe("SIGTERM");
    await running(of);
  });

  test("stops a collector that a killed agent did not record, but none of another container with the same path", async () => {
    const configFile = join(folder, "collector", "config.yaml");
    mkdirSync(join(folder, "collector"), { recursive: true });
    const like = (args: string[]) => spawn("/bin/sh", ["-c", "sleep 60 & wait", "otelcol", ...args], GROUP);
    const others = [like(["validate", "--config", configFile]), like(["--config", `${configFile}.other`])];
    if (canMount) others.push(elsewhere(configFile));
    // No shell: one that is ended while it begins its child leaves it behind, or none.
    const orphan = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)", "--", "--config", configFile], GROUP);
    await Promise.all([orphan, ...others].map((child) => once(child, "spawn")));
    await vi.waitUntil(() => !canMount || existsSync(join(folder, "is-elsewhere")), { timeout: 50_000 });
    const ended = once(orphan, "exit");
    const of = make();
    await of.start(() => config());
    await ended;
    await running(of);
    expect(others.map(({ pid }) => isAlive(pid ?? 0))).toEqual(others.map(() => true));
    for (const { pid } of others) process.kill(-(pid ?? Number.NaN), "SIGKILL");
  });

  /** A process with this configuration in its command line, for which the folder is another one. */
  function elsewhere(configFile: string): ChildProcess {
    const other = `mount -t tmpfs none ${join(folder, "collector")}; touch ${join(folder, "is-elsewhere")}; sleep 60 & wait`;
    return spawn("unshare", ["--mount", "/bin/sh", "-c", other, "otelcol", "--config", configFile], GROUP);
  }

  test("does not stop another process that has the recorded id", async () => {
    const child = spawn("/bin/sleep", ["60"], { stdio: "ignore" });
    await once(child, "spawn");
    mkdirSync(join(folder, "collector"), { recursive: true });
    writeFileSync(
      join(folder, "collector", "child.json"),
      JSON.stringify({ pid: child.pid, startTicks: "1", agentPid: 2 ** 22 - 1, agentStartTicks: "1" }),
    );
    const of = make();
    await of.start(() => config());
    await running(of);
    expect(isAlive(child.pid ?? 0)).toBe(true);
    child.kill();
  });

  test("refuses a state directory in use by another agent", async () => {
    const other = spawn("/bin/sleep", ["60"], { stdio: "ignore" });
    await once(other, "spawn");
    mkdirSync(join(folder, "collector"), { recursive: true });
    const ticks = readFileSync(`/proc/${other.pid}/stat`, "utf8").split(") ")[1]?.split(" ")[19];
    writeFileSync(
      join(folder, "collector", "child.json"),
      JSON.stringify({ pid: 1, startTicks: "0", agentPid: other.pid, agentStartTicks: ticks }),
    );
    await expect(make().start(() => config())).rejects.toThrow(StateInUseError);
    other.kill();
  });

  test("backs off after each crash and logs the last lines without secrets", async () => {
    const of = make(
      fakeCollector(
        `echo '{"level":"error","msg":"cannot export","error":"denied for Bearer abc.def"}' >&2\necho 'panic: token=verysecretvalue' >&2\nexit 3`,
      ),
    );
    await of.start(() => config());
    await vi.waitFor(() => expect(of.status().restarts).toBeGreaterThanOrEqual(4), { timeout: 50_000 });
    const waits = lines.flatMap((line) => (typeof line["restart_in_ms"] === "number" ? [line["restart_in_ms"]] : []));
    expect(waits[0]).toBeLessThanOrEqual(50);
    expect(waits[2]).toBeGreaterThanOrEqual(100);
    expect(Math.max(...waits)).toBeLessThanOrEqual(400);
    expect(of.status().lastError).toMatch(/^exit code 3: /);
    expect(of.status().lastError).toContain("denied for Bearer [redacted]");
    expect(JSON.stringify([of.status(), lines])).not.toMatch(/verysecretvalue|abc\.def/);
  });

  test("logs why a program cannot be started, and retries", async () => {
    const path = fakeCollector(`if [ "$1" = --config ]; then rm "$0"; fi\nexit 3`);
    const of = make(path);
    await of.start(() => config());
    await vi.waitFor(() => expect(of.status().lastError).toMatch(/^exit code unknown: .*ENOENT/), { timeout: 50_000 });
  });

  test("starts immediately without a damaged storage file, and only once if the disk damages each new file", async () => {
    const file = join(folder, "queue", "exporter_otlp_http_atherops_traces");
    mkdirSync(join(folder, "queue"));
    const of = make(fakeCollector(`/bin/head -c 20000 /dev/urandom > ${file}\necho 'Error: cannot start: invalid database' >&2\nexit 1`));
    await of.start(() => config());
    await vi.waitFor(() => expect(of.status().restarts).toBeGreaterThanOrEqual(4), { timeout: 50_000 });
    const logged = lines.flatMap(({ msg, failures }) =>
      String(msg).startsWith(`${file}, 20000 bytes, is damaged`) ? ["quarantined"] : failures === undefined ? [] : [failures],
    );
    expect(logged.slice(0, 5)).toEqual(["quarantined", "quarantined", 2, "quarantined", 3]);
    expect(of.status().lastError).toContain("Undelivered traces in the disk queue of otlp_http/atherops are lost");
  });

  test("does not blame a new configuration for an earlier crash while its files are still checked", async () => {
    const { isLooking, goOn } = await slowDisk();
    const of = make(dyingUnlessNew());
    await of.start(() => config());
    await isLooking;
    const isNew = `${config()}# new\n`;
    const applied = of.apply(isNew);
    await expect.poll(() => readFileSync(join(folder, "collector", "config.yaml"), "utf8")).toBe(isNew);
    goOn(new Error("EACCES: no more reading"));
    await applied;
    expect(of.status()).toMatchObject({ state: "running", configError: null });
    expect(lines.filter(({ failures }) => failures !== undefined)).toEqual([]);
  });

  test("checks files as a waiting collector, and quarantines none after a stop", async () => {
    const { isLooking, goOn } = await slowDisk();
    const of = make(dyingUnlessNew());
    await of.start(() => config());
    await isLooking;
    expect(of.status()).toMatchObject({ state: "waiting", pid: null });
    const disposed = of[Symbol.asyncDispose]();
    goOn();
    await disposed;
    expect(readdirSync(join(folder, "queue"))).toEqual(["exporter_otlp_http_atherops_traces"]);
    expect(lines.filter(({ failures }) => failures !== undefined)).toEqual([]);
  });

  test("backs off if the collector reports damaged storage but no file is damaged", async () => {
    mkdirSync(join(folder, "queue"));
    writeFileSync(join(folder, "queue", "exporter_otlp_http_atherops_traces"), "");
    const of = make(fakeCollector(`echo 'Error: cannot start: invalid database' >&2\nexit 1`));
    await of.start(() => config());
    await vi.waitFor(() => expect(of.status().restarts).toBeGreaterThanOrEqual(2), { timeout: 50_000 });
    expect(readdirSync(join(folder, "queue"))).toEqual(["exporter_otlp_http_atherops_traces"]);
    expect(lines.flatMap(({ failures }) => failures ?? []).slice(0, 2)).toEqual([1, 2]);
  });

  test.skipIf(!canMount)(
    "on a full disk (needs root) keeps the collector running, and applies a new configuration once there is space",
    async () => {
      using disk = new SmallDisk(join(folder, "collector"), "256k");
      const of = make();
      await of.start(() => config());
      const first = await running(of);
      rmSync(join(folder, "collector", "last-good.yaml"));
      disk.fill();
      process.kill(first, "SIGKILL");
      await expect.poll(() => of.status().restarts).toBe(1);
      const second = await running(of);
      expect(lines.find(({ msg }) => msg === "cannot record the configuration that runs; continuing")).toMatchObject({
        level: 40,
        err: `STATE_DIR ${folder}: no space left on the device: free some`,
      });
      await expect(of.apply(config({ LOG_LEVEL: "error" }))).rejects.toThrow(StateDirError);
      expect(of.status()).toMatchObject({ pid: second, state: "running" });
      disk.free();
      await of.apply(config({ LOG_LEVEL: "error" }));
      expect(of.status().pid).not.toBe(second);
      expect(readFileSync(join(folder, "collector", "last-good.yaml"), "utf8")).toBe(config({ LOG_LEVEL: "error" }));
      await of[Symbol.asyncDispose]();
    },
  );

  test.skipIf(!canMount)("on a full disk (needs root) starts with the existing configuration, or logs what to do", async () => {
    using disk = new SmallDisk(join(folder, "collector"), "256k");
    disk.fill();
    await expect(make().start(() => config())).rejects.toThrow(`STATE_DIR ${folder}: no space left on the device: free some`);
    disk.free();
    writeFileSync(join(folder, "collector", "config.yaml"), config());
    disk.fill();
    const of = make();
    await of.start(() => config());
    await running(of);
    await of[Symbol.asyncDispose]();
  });

  test.skipIf(!canMount)("on a disk that fills up during a change (needs root) rolls back to the previous configuration", async () => {
    using disk = new SmallDisk(join(folder, "collector"), "256k");
    const filling = join(folder, "otelcol-filling");
    const isNew = `[ "$1" != validate ] && /bin/grep -q 192.0.2.1 "$2"`;
    writeFileSync(filling, `#!/bin/sh\nif ${isNew}; then /bin/cat /dev/zero > ${disk.path}/ballast; fi\nexec ${program} "$@"\n`, {
      mode: 0o755,
    });
    // Larger than the space that the ended collector's note frees.
    const large = (env?: NodeJS.ProcessEnv): string => `${config(env)}# ${"x".repeat(8192)}\n`;
    const of = make(filling);
    await of.start(() => large());
    await running(of);
    await expect(of.apply(large({ OTLP_HTTP_LISTEN: "192.0.2.1:4318" }))).rejects.toThrow(/does not become ready .*192\.0\.2\.1/s);
    // Free is what the refused one held.
    expect(() => writeFileSync(join(disk.path, "another"), large().repeat(2))).toThrow(/ENOSPC/);
    await running(of);
    expect(readFileSync(join(folder, "collector", "config.yaml"), "utf8")).toBe(large());
    disk.free();
    await of.apply(large({ LOG_LEVEL: "error" }));
    expect(of.status()).toMatchObject({ state: "running", configError: null });
    expect(readFileSync(join(folder, "collector", "last-good.yaml"), "utf8")).toBe(large({ LOG_LEVEL: "error" }));
    await of[Symbol.asyncDispose]();
  });

  test("kills a collector that ignores SIGTERM after its grace period", async () => {
    const log = pino({ level: "silent" });
    const stubborn = fakeCollector("trap '' TERM\nwhile :; do sleep 0.1; done");
    supervisor = new Supervisor({
      program: stubborn,
      stateDir: folder,
      memoryMib: 200,
      stopGraceMs: 300,
      env: { PATH: "/bin:/usr/bin" },
      log,
    });
    await supervisor.start(() => config());
    await expect.poll(() => supervisor?.status().pid).not.toBeNull();
    const pid = supervisor.status().pid ?? 0;
    await supervisor[Symbol.asyncDispose]();
    expect(isAlive(pid)).toBe(false);
  });
});
