// Log files of a host as other users could create them: links, cycles, secrets, files that are not regular, and files that are renamed,
// truncated or removed while they are read. The whole host agent with the real collector.
import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statfsSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { compareLines, Sink } from "../../agent/collector/supervision/sink.fixture.ts";
import { canMount, SmallDisk } from "../../agent/collector/supervision/small-disk.fixture.ts";
import { type AgentPlace, collectorPid, hostAgentPlace, startHostAgent } from "../fixtures/host-agent-process.ts";
import { isAlive } from "../fixtures/process-state.ts";
import { call, eventually, temporaryFolder, type TestProcess } from "../fixtures/processes.ts";

let folder: ReturnType<typeof temporaryFolder>;
let sink: Sink;
let place: AgentPlace;
let agent: TestProcess;

beforeEach(async () => {
  folder = temporaryFolder();
  sink = await Sink.start();
  place = await hostAgentPlace(folder.path, sink.url, { INSTALL_TOKEN: "it_of_the_sink", SIGNALS: "logs" });
  place.env["LOG_PATHS"] = `${place.logFolder}/**/*.log`;
  for (const name of ["app", "other"]) mkdirSync(join(place.logFolder, name));
});
afterEach(async () => {
  await agent.end();
  await sink[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

const log = (path: string): string => join(place.logFolder, path);

async function arrives(line: string, withinMs = 90_000): Promise<void> {
  await eventually(`"${line}" arrives`, () => sink.lines.includes(line), withinMs);
}

function times(line: string): number {
  return sink.lines.filter((other) => other === line).length;
}

describe("files of another user of the host below LOG_PATHS", () => {
  test("cannot block other files: links to the folder itself, and many links", async () => {
    agent = await startHostAgent(place);
    writeFileSync(log("other/a.log"), "before\n");
    await arrives("before");
    // In a separate folder, because the agent follows only the first of many links in one folder.
    mkdirSync(log("loops"));
    for (const name of ["a", "b"]) symlinkSync(".", log(`loops/${name}`));
    symlinkSync("..", log("loops/up"));
    for (let i = 0; i < 500; i++) symlinkSync("../other", log(`app/link${i}`));
    appendFileSync(log("other/a.log"), "in an open file\n");
    writeFileSync(log("other/b.log"), "in a new file\n");
    await arrives("in an open file");
    await arrives("in a new file");
    expect(times("in a new file")).toBe(1);
  });

  test("cannot expose a secret by a link, and restart no collector", async () => {
    const secret = join(folder.path, "shadow.log");
    writeFileSync(secret, "TOP SECRET\n", { mode: 0o600 });
    agent = await startHostAgent(place);
    const pid = collectorPid(place);
    symlinkSync(secret, log("app/x.log"));
    symlinkSync(folder.path, log("app/folder"));
    for (let i = 0; i < 20; i++) {
      const [plain, link] = [log(`app/plain${i}`), log(`app/link${i}`)];
      writeFileSync(plain, `fine ${i}\n`);
      symlinkSync(secret, link);
      renameSync(plain, log(`app/r${i}.log`));
      // The agent may look in between.
      await sleep(100);
      renameSync(link, log(`app/r${i}.log`));
    }
    symlinkSync("../other/target.txt", log("app/inner.log"));
    writeFileSync(log("other/target.txt"), "of a link that stays inside\n");
    await arrives("of a link that stays inside");
    writeFileSync(log("other/last.log"), "last\n");
    await arrives("last");
    expect(sink.lines.filter((line) => line.includes("SECRET"))).toEqual([]);
    expect(sink.records.find(({ body }) => body.includes("stays inside"))?.resource["log.file.path"]).toBe(log("app/inner.log"));
    expect(collectorPid(place)).toBe(pid);
    expect(agent.log).toContain("links that lead outside of LOG_PATHS_ALLOWED are not read");
  });

  test("can be anything: a FIFO, a folder, a device's link, an empty file, a name of 4,000 bytes", async () => {
    execFileSync("mkfifo", [log("fifo.log")]);
    mkdirSync(log("folder.log"));
    symlinkSync("/dev/zero", log("zero.log"));
    symlinkSync("/dev/tty", log("tty.log"));
    writeFileSync(log("empty.log"), "");
    const deep = Array.from({ length: 14 }, () => "ü".repeat(120)).join("/");
    mkdirSync(log(deep), { recursive: true });
    const odd = log(`${deep}/100%2F $x 'q' "d" \\n.log`);
    writeFileSync(odd, "of an odd name\n");
    writeFileSync(log("plain.log"), "of a plain name\n");
    agent = await startHostAgent(place);
    await arrives("of an odd name");
    await arrives("of a plain name");
    expect((await call("GET", `${place.healthUrl}/readyz`)).json).toMatchObject({ ready: true, failing: [] });
    const record = sink.records.find(({ body }) => body === "of an odd name");
    const name = odd.split("/").at(-1);
    expect(record?.resource).toMatchObject({ "log.file.path": odd, "log.file.name": name });
    expect(record?.resource).toMatchObject({ "service.name": name });
  });
});

test("a file that grows and is not read is reported in /status, /readyz and the metrics; others are not", async () => {
  agent = await startHostAgent(place);
  writeFileSync(log("app/unread.log"), "first\n");
  writeFileSync(log("app/idle.log"), "without a newline at its end");
  await arrives("first");
  await arrives("without a newline at its end");
  // The collector does not see the file any more, as if it failed to open it.
  const links = readdirSync(place.stateDir, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith("%2Fapp%2Funread.log"));
  expect(links).toHaveLength(1);
  rmSync(join(place.stateDir, links[0] ?? ""));
  appendFileSync(log("app/unread.log"), "second\n");
  const status = async (): Promise<{ logFiles: { notRead: Record<string, number> }; failing: { error: string }[] }> =>
    (await call("GET", `${place.healthUrl}/status`)).json as never;
  await eventually(
    "the file is reported",
    async () => {
      appendFileSync(log("other/busy.log"), "a line\n");
      return (await status()).logFiles.notRead["unread"] === 1;
    },
    60_000,
  );
  expect((await status()).failing).toMatchObject([{ error: expect.stringContaining(log("app/unread.log")) }]);
  expect((await call("GET", `${place.healthUrl}/readyz`)).text).toContain("unread.log");
  expect((await call("GET", `${place.healthUrl}/metrics`)).text).toContain('atherops_agent_log_files_not_read{reason="unread"} 1');
  await eventually("the file is named in the log", () => agent.log.includes("log files grow, but the collector does not read them"));
});

describe("each line of a file is stored once if the file is", () => {
  const lines = (of: string, from: number, to: number): string =>
    Array.from({ length: to - from }, (_, i) => `${of} ${from + i}\n`).join("");

  const numbersNow = (of: string): number[] =>
    sink.lines
      .filter((line) => line.startsWith(`${of} `))
      .map((line) => Number(line.split(" ")[1]))
      .toSorted((a, b) => a - b);

  /** Numbers of the lines of each file, once so many have come and time for a second reading has passed. */
  async function numbersOf(counts: Readonly<Record<string, number>>): Promise<Record<string, number[]>> {
    for (const [of, count] of Object.entries(counts))
      await eventually(`every line of ${of}`, () => new Set(numbersNow(of)).size >= count, 120_000);
    // Proves an absence: a second reading would come within two passes over the files.
    await sleep(4000);
    return Object.fromEntries(Object.keys(counts).map((of) => [of, numbersNow(of)]));
  }

  const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

  test("renamed during writes, or copied and truncated", async () => {
    agent = await startHostAgent(place);
    const renamed: Record<string, string> = { x: "x.log.1", y: "y.log-20261123", z: "../../moved-out" };
    const write = (of: string, name: string, from: number, to: number): void => appendFileSync(log(`app/${name}`), lines(of, from, to));
    for (const of of Object.keys(renamed)) write(of, `${of}.log`, 0, 100);
    for (const of of Object.keys(renamed)) await arrives(`${of} 99`);
    for (const [of, name] of Object.entries(renamed)) {
      renameSync(log(`app/${of}.log`), log(`app/${name}`));
      write(of, `${of}.log`, 100, 200);
      write(of, name, 200, 300);
    }
    for (let rotation = 0; rotation < 3; rotation++) {
      write("copied", "copied.log", rotation * 100, rotation * 100 + 100);
      await arrives(`copied ${rotation * 100 + 99}`);
      copyFileSync(log("app/copied.log"), log("app/copied.log.1"));
      truncateSync(log("app/copied.log"));
      // Each rotation meets another phase of the passes over the files. The agent notices the new names meanwhile.
      await sleep(rotation * 1500);
    }
    for (const [of, name] of Object.entries(renamed)) write(of, name, 300, 310);
    expect(await numbersOf({ x: 310, y: 310, z: 310, copied: 300 })).toEqual({
      x: upTo(310),
      y: upTo(310),
      z: upTo(310),
      copied: upTo(300),
    });
  });

  test("removed before the agent is back", async () => {
    agent = await startHostAgent(place);
    sink.away = true;
    writeFileSync(log("app/x.log"), lines("x", 0, 1000));
    await eventually("it is open", async () => readdirSync(join(place.stateDir, "log-files")).length > 0);
    rmSync(log("app/x.log"));
    // The file stays open for longer than one pass.
    await sleep(3000);
    sink.away = false;
    expect(await numbersOf({ x: 1000 })).toEqual({ x: upTo(1000) });
    await eventually("it is closed", async () => readdirSync(join(place.stateDir, "log-files")).length === 0);
  });

  test("there before and after the agent alone was killed, whose collector ends immediately", async () => {
    writeFileSync(log("app/x.log"), lines("x", 0, 1000));
    agent = await startHostAgent(place);
    await arrives("x 999");
    const pid = collectorPid(place) ?? 0;
    await agent.end("SIGKILL");
    await eventually("its collector has ended", () => !isAlive(pid), 30_000);
    // The agent does not run for a while.
    await sleep(5000);
    appendFileSync(log("app/x.log"), lines("x", 1000, 1100));
    agent = await startHostAgent(place);
    expect(await numbersOf({ x: 1100 })).toEqual({ x: upTo(1100) });
  });
});

test("one of thirty, whose lines are sent together once a second", async () => {
  agent = await startHostAgent(place);
  const files = Array.from({ length: 30 }, (_, i) => log(`app/${i}.log`));
  const { requests } = sink;
  const startedAt = performance.now();
  let written = 0;
  // Lines come at a pace, so that a batch has those of several files.
  for (; written < 150; await sleep(200)) for (const file of files) appendFileSync(file, `line ${written++}\n`);
  await eventually("every line is there", () => compareLines(sink.lines, written).missing === 0, 90_000);
  expect(compareLines(sink.lines, written).doubled).toBe(0);
  // Each second one, and one for each 32 KiB.
  expect(sink.requests - requests).toBeLessThanOrEqual((performance.now() - startedAt) / 1000 + 3);
});

describe.skipIf(!canMount)("on a disk of 24 MiB (needs root) every line of 50 MB arrives without an operator", () => {
  const COUNT = 50_000;

  function write(from: number, to: number): void {
    for (let part = from; part < to; part += 1000)
      appendFileSync(log("app/x.log"), Array.from({ length: 1000 }, (_, i) => `x ${part + i} ${"x".repeat(1000)}\n`).join(""));
  }

  async function queueIsFilled(share: number): Promise<boolean> {
    const { text } = await call("GET", `${place.healthUrl}/metrics`);
    const value = (name: string): number =>
      Number(new RegExp(`otelcol_exporter_queue_${name}\\{[^}]*files[^}]*\\} (\\S+)`).exec(text)?.[1]);
    return value("size") > share * value("capacity");
  }

  const numbers = (): string[] => sink.lines.map((line) => line.slice(0, line.lastIndexOf(" ")));

  /** All lines that arrived, once each has. */
  async function allNumbers(): Promise<string[]> {
    await eventually("every line arrives", () => new Set(numbers()).size >= COUNT, 240_000);
    console.log({ written: COUNT, arrived: numbers().length, restarts: agent.log.split('"collector.started"').length - 2 });
    return numbers();
  }

  test("after an outage with more lines than the disk has space for: the queue never fills the disk", async () => {
    using disk = new SmallDisk(place.stateDir, "24m");
    place.env["QUEUE_MIB"] = "256";
    agent = await startHostAgent(place);
    sink.away = true;
    write(0, COUNT);
    await eventually("the queue is full", () => queueIsFilled(0.9), 120_000);
    const { bavail, bsize } = statfsSync(disk.path);
    expect(bavail * bsize).toBeGreaterThan(4 * 1024 * 1024);
    sink.away = false;
    expect(await allNumbers()).toHaveLength(COUNT);
    expect(agent.log).not.toContain("no space left");
  }, 400_000);

  test("after a queue that is configured too large filled the disk, once the disk has space", async () => {
    using disk = new SmallDisk(place.stateDir, "24m");
    const large = { sending_queue: { queue_size: 256 * 1024 * 1024 } };
    place.env["COLLECTOR_CONFIG_FILE"] = join(folder.path, "overlay.yaml");
    writeFileSync(
      place.env["COLLECTOR_CONFIG_FILE"],
      JSON.stringify({ exporters: { "otlp_http/files": large, "otlp_http/atherops": large } }),
    );
    agent = await startHostAgent(place);
    sink.away = true;
    write(0, COUNT);
    await eventually(
      "it is reported",
      async () => (await call("GET", `${place.healthUrl}/readyz`)).text.includes("no space left"),
      120_000,
    );
    sink.away = false;
    const goesOn = (): boolean => agent.log.includes("collector.waits_for_space") || new Set(numbers()).size >= COUNT;
    await eventually("the collector waits for space, or needs none", () => goesOn(), 120_000);
    disk.grow("64m");
    expect(await allNumbers()).toHaveLength(COUNT);
  }, 400_000);

  test("after another program filled the disk during the outage and freed it again: /readyz reports it meanwhile", async () => {
    using disk = new SmallDisk(place.stateDir, "24m");
    place.env["QUEUE_MIB"] = "256";
    agent = await startHostAgent(place);
    sink.away = true;
    write(0, 4000);
    await eventually("lines are queued", () => queueIsFilled(0.3), 120_000);
    disk.fill();
    write(4000, COUNT);
    await eventually(
      "it is reported",
      async () => (await call("GET", `${place.healthUrl}/readyz`)).text.includes("no space left"),
      120_000,
    );
    sink.away = false;
    // A collector that starts now could lose entries: time for one that does not wait.
    await sleep(5000);
    disk.free();
    expect(await allNumbers()).toHaveLength(COUNT);
  }, 400_000);
});
