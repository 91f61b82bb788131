// The whole host agent with a full disk, and with a disk that returns other bytes than were written. Lost records are counted and printed.
// Real collector; the sink stores a byte-identical repeated body once, as the backend does.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { appendFileSync, closeSync, openSync, readdirSync, statSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { findDamage } from "../../agent/collector/supervision/bbolt-file.ts";
import { compareLines, Sink } from "../../agent/collector/supervision/sink.fixture.ts";
import { canMount, SmallDisk } from "../../agent/collector/supervision/small-disk.fixture.ts";
import { type AgentPlace, collectorPid, hostAgentPlace, startHostAgent } from "../fixtures/host-agent-process.ts";
import { call, eventually, temporaryFolder, TestProcess } from "../fixtures/processes.ts";

let folder: ReturnType<typeof temporaryFolder>;
let sink: Sink;
let place: AgentPlace;
let agent: TestProcess | undefined;
let written: number;

beforeEach(async () => {
  folder = temporaryFolder();
  sink = await Sink.start();
  written = 0;
  place = await hostAgentPlace(folder.path, sink.url, { INSTALL_TOKEN: "it_of_the_sink", SIGNALS: "logs", QUEUE_MIB: "16" });
});
afterEach(async () => {
  await agent?.end();
  await sink[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

function write(count: number, padding = ""): void {
  const lines = Array.from({ length: count }, () => `line ${written++}${padding}\n`);
  appendFileSync(`${place.logFolder}/sequence.log`, lines.join(""));
}

function arrived(): string[] {
  return sink.lines.map((line) => line.trimEnd().replace(/ x+$/, ""));
}

describe("the agent's disk", () => {
  test.skipIf(!canMount)("that is full (needs root): reports it, keeps running, and sends every line once there is space", async () => {
    using disk = new SmallDisk(place.stateDir, "8m");
    agent = await startHostAgent(place);
    write(100);
    await eventually("the first lines arrive", () => arrived().includes("line 99"));
    sink.away = true;
    disk.fill();
    for (let part = 0; part < 10; part++) write(500, ` ${"x".repeat(1000)}`);
    await eventually("it says so", () => /no space left/.test(agent?.log ?? ""));
    expect((await call("GET", `${place.healthUrl}/healthz`)).status).toBe(200);
    expect(agent.ended).toBe(false);
    sink.away = false;
    disk.free();
    write(100);
    await eventually("what is new arrives", () => arrived().includes(`line ${written - 1}`), 90_000);
    // Proves an absence: what is still under way could only arrive twice.
    await sleep(1500);
    const { missing, doubled } = compareLines(arrived(), written);
    console.log({ disk: "full", written, missing, doubled });
    await agent.end();
    expect(missing).toBe(0);
  });

  test.skipIf(!canMount)("that is full at the first start (needs root): reports one sentence with what to do, and no stack", async () => {
    using disk = new SmallDisk(place.stateDir, "64k");
    disk.fill();
    const started = new TestProcess(["agent/bin/atherops-otel-agent.ts", "run"], place.env, place.logFile);
    await eventually("it ends", () => started.ended);
    expect(started.child.exitCode).toBe(1);
    expect(started.log).toContain(`STATE_DIR ${place.stateDir}: no space left on the device: free some\n`);
    expect(started.log).not.toMatch(/^\s+at /m);
  });
});

describe("the disk queue", () => {
  test("keeps its entries when another process stops the collector, and reports no drop", async () => {
    agent = await startHostAgent(place);
    sink.away = true;
    write(500);
    const records = Array.from({ length: 10 }, (_, i) => `records ${i}`);
    await sendRecords(records);
    for (const exporter of ["otlp_http/files", "otlp_http/atherops"]) await eventually(`${exporter} queues`, () => queued(exporter));
    const refused = sink.requests;
    await eventually("an attempt fails", () => sink.requests > refused);
    process.kill(collectorPid(place) ?? 0, "SIGTERM");
    await eventually("it says so", () => saidOf(/they stay in the disk queue/).length > 0);
    sink.away = false;
    await eventually("all arrives", () => arrived().includes("records 9") && arrived().includes("line 499"));
    // Proves an absence: what is still under way could only arrive twice.
    await sleep(1500);
    expect(compareLines(arrived(), written)).toEqual({ missing: 0, doubled: 0 });
    expect(
      arrived()
        .filter((line) => line.startsWith("records"))
        .toSorted(),
    ).toEqual(records);
    expect(agent.log).not.toContain("Dropping data");
  });
});

/** One line of the agent's log. */
interface Said {
  level: string;
  msg: string;
}

function saidOf(pattern: RegExp): Said[] {
  return (agent?.log ?? "")
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Said)
    .filter(({ msg }) => pattern.test(msg));
}

async function queued(exporter: string): Promise<boolean> {
  const { text } = await call("GET", `${place.healthUrl}/metrics`);
  const line = text.split("\n").find((each) => each.startsWith("otelcol_exporter_queue_size{") && each.includes(`"${exporter}"`));
  return Number(line?.split(" ").at(-1)) > 0;
}

/** Sends log records of an application, which have a separate queue. */
async function sendRecords(bodies: string[]): Promise<void> {
  const logRecords = bodies.map((stringValue) => ({ timeUnixNano: `${Date.now()}000000`, body: { stringValue } }));
  const body = { resourceLogs: [{ resource: {}, scopeLogs: [{ scope: {}, logRecords }] }] };
  expect((await call("POST", `${place.otlpHttp}/v1/logs`, { body })).status).toBe(200);
}

const PAGE = 4096;
/** One for each that the supervisor handles differently; bbolt-file.test.ts has all that are noticed. */
const DAMAGES: [string, RegExp, (file: string, size: number) => void][] = [
  ["overwritten as a whole", /is damaged \(neither of/, (file, size) => writeFileSync(file, randomBytes(size))],
  ["overwritten behind its head", /is damaged \(page \d+ is/, (file, size) => overwrite(file, randomBytes(size - 2 * PAGE), 2 * PAGE)],
  ["cut to nothing", /is empty, as after a power failure/, (file) => truncateSync(file, 0)],
];

function overwrite(file: string, bytes: Buffer, at: number): void {
  const opened = openSync(file, "r+");
  writeSync(opened, bytes, 0, bytes.length, at);
  closeSync(opened);
}

/** A probe: whether the file was written to since the five probes before. */
function standingStill(file: string): () => Promise<boolean> {
  const seen: number[] = [];
  return async () => {
    seen.push(statSync(file).mtimeMs);
    return new Set(seen.slice(-6)).size === 1 && seen.length > 5;
  };
}

describe("a damaged file of the agent", () => {
  test.each(DAMAGES)("a disk queue %s: keeps the rest, and logs what is lost", async (damage, words, harm) => {
    agent = await startHostAgent(place);
    write(100);
    await eventually("the first lines arrive", () => arrived().includes("line 99"));
    sink.away = true;
    write(500);
    const records = Array.from({ length: 10 }, (_, i) => `records ${i}`);
    await sendRecords(records);
    for (const exporter of ["otlp_http/files", "otlp_http/atherops"]) await eventually(`${exporter} queues`, () => queued(exporter));
    await agent.end();
    const file = `${place.stateDir}/queue/exporter_otlp_http_files_logs`;
    expect(await findDamage(file)).toBeUndefined();
    harm(file, statSync(file).size);
    sink.away = false;
    const started = Date.now();
    agent = await startHostAgent(place);
    const readyMs = Date.now() - started;
    write(100);
    await eventually("what is new arrives", () => arrived().includes(`line ${written - 1}`));
    await eventually("what the other queue held arrives", () => arrived().includes("records 9"));
    // Proves an absence: what is still under way could only arrive twice.
    await sleep(1500);
    const { missing, doubled } = compareLines(arrived(), written);
    console.log({ queue: damage, written, missing, doubled, readyMs });
    expect(
      arrived()
        .filter((line) => line.startsWith("records"))
        .toSorted(),
    ).toEqual(records);
    expect(compareLines(arrived(), 100)).toEqual({ missing: 0, doubled: 0 });
    expect(missing).toBeLessThanOrEqual(500);
    expect(new Set(arrived())).toContain("line 600");
    const lines = saidOf(words);
    expect(lines).toHaveLength(1);
    expect(lines[0]?.level).toBe("error");
    expect(lines[0]?.msg).toContain(file);
    expect(lines[0]?.msg).toContain("Undelivered logs in the disk queue of otlp_http/files are lost");
    const { collector } = (await call("GET", `${place.healthUrl}/status`)).json as { collector: Record<string, unknown> };
    const isSeen = damage !== "cut to nothing";
    expect(collector).toMatchObject(isSeen ? { restarts: 1, lastError: lines[0]?.msg } : { restarts: 0, lastError: null });
    expect(readdirSync(`${place.stateDir}/queue`).includes("exporter_otlp_http_files_logs.damaged")).toBe(isSeen);
    expect(saidOf(/collector exited, restarting it/)).toHaveLength(0);
  });

  test("a disk queue that is overwritten under the running collector: the same", async () => {
    agent = await startHostAgent(place);
    write(100);
    await eventually("the first lines arrive", () => arrived().includes("line 99"));
    sink.away = true;
    write(500);
    await eventually("they queue", () => queued("otlp_http/files"));
    const file = `${place.stateDir}/queue/exporter_otlp_http_files_logs`;
    // A commit that is under way would write its pages, and a whole new tree, over the damage.
    await eventually("nothing is written to it any more", standingStill(file));
    overwrite(file, randomBytes(statSync(file).size - 2 * PAGE), 2 * PAGE);
    sink.away = false;
    write(100);
    await eventually("what is new arrives", () => arrived().includes(`line ${written - 1}`));
    const { missing, doubled } = compareLines(arrived(), written);
    console.log({ queue: "overwritten while in use", written, missing, doubled });
    expect(compareLines(arrived(), 100)).toEqual({ missing: 0, doubled: 0 });
    expect(missing).toBeLessThanOrEqual(500);
    expect(saidOf(/is damaged .* Undelivered logs in the disk queue of otlp_http\/files/)).toHaveLength(1);
  });

  // The kinds are told apart by the same code for every store.
  test.each(DAMAGES.filter(([damage]) => damage === "overwritten as a whole" || damage === "cut to nothing"))(
    "file offsets %s: loses no line, and logs that lines are repeated",
    async (damage, words, harm) => {
      agent = await startHostAgent(place);
      write(100);
      await eventually("the first lines arrive", () => arrived().includes("line 99"));
      await agent.end();
      const file = `${place.stateDir}/checkpoints/receiver_filelog_files`;
      expect(await findDamage(file)).toBeUndefined();
      harm(file, statSync(file).size);
      write(100);
      agent = await startHostAgent(place);
      write(100);
      await eventually("what is new arrives", () => arrived().includes(`line ${written - 1}`));
      // Proves an absence: what is still under way could only arrive twice.
      await sleep(1500);
      const { missing, doubled } = compareLines(arrived(), written);
      console.log({ places: damage, written, missing, doubled });
      expect(missing).toBe(0);
      const lines = saidOf(words);
      expect(lines).toHaveLength(1);
      expect(lines[0]?.msg).toContain(file);
      expect(lines[0]?.msg).toContain("no line is lost, and lines that were sent before arrive twice");
    },
  );

  test("intact, but locked by another process: is not changed, and used once it is released", async () => {
    agent = await startHostAgent(place);
    write(100);
    await eventually("the first lines arrive", () => arrived().includes("line 99"));
    await agent.end();
    const file = `${place.stateDir}/queue/exporter_otlp_http_files_logs`;
    const holder = spawn("flock", ["--no-fork", file, "sh", "-c", "echo held; exec sleep 600"], { stdio: ["ignore", "pipe", "ignore"] });
    await once(holder.stdout, "data");
    agent = new TestProcess(["agent/bin/atherops-otel-agent.ts", "run"], place.env, place.logFile);
    await eventually("it says why", () => saidOf(/collector exited, restarting it/).length > 0);
    expect(agent.log).toMatch(/failed to start \\?"otlp_http\/files\\?" exporter: timeout/);
    expect(readdirSync(`${place.stateDir}/queue`).filter((name) => name.endsWith(".damaged"))).toEqual([]);
    holder.kill();
    await agent.ready(`${place.healthUrl}/readyz`);
    write(100);
    await eventually("what is new arrives", () => arrived().includes(`line ${written - 1}`));
    expect(compareLines(arrived(), written)).toEqual({ missing: 0, doubled: 0 });
  });
});
