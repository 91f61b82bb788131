// The disk of the whole host agent when it is full. What is lost is counted and printed. Real
// collector; the sink stores a body that comes twice byte for byte once, as the backend does.
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { judge, Sink } from "../../agent/collector/sink.fixture.ts";
import { canMount, SmallDisk } from "../../agent/collector/small-disk.fixture.ts";
import { type AgentPlace, call, eventually, hostAgentPlace, startHostAgent, temporaryFolder, TestProcess } from "../fixtures/processes.ts";

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
  test.skipIf(!canMount)("full (needs root): it says so, lives on, and sends every line once there is space", async () => {
    using disk = new SmallDisk(place.stateDir, "8m");
    agent = await startHostAgent(place);
    write(100);
    await eventually("the first lines arrive", async () => Promise.resolve(arrived().includes("line 99")));
    sink.away = true;
    disk.fill();
    for (let part = 0; part < 10; part++) write(500, ` ${"x".repeat(1000)}`);
    await eventually("it says so", async () => Promise.resolve(/no space left/.test(agent?.log ?? "")));
    expect((await call("GET", `${place.healthUrl}/healthz`)).status).toBe(200);
    expect(agent.ended).toBe(false);
    sink.away = false;
    disk.free();
    write(100);
    await eventually("what is new arrives", async () => Promise.resolve(arrived().includes(`line ${written - 1}`)), 90_000);
    await sleep(1500);
    const { missing, doubled } = judge(arrived(), written);
    console.log({ disk: "full", written, missing, doubled });
    await agent.end();
    expect(missing).toBe(0);
  });

  test.skipIf(!canMount)("full at the first start (needs root): one sentence with what to do, and no stack", async () => {
    using disk = new SmallDisk(place.stateDir, "64k");
    disk.fill();
    const started = new TestProcess(["agent/bin/atherops-otel-agent.ts", "run"], place.env, place.logFile);
    await eventually("it ends", async () => Promise.resolve(started.ended));
    expect(started.child.exitCode).toBe(1);
    expect(started.log).toContain(`STATE_DIR ${place.stateDir}: no space left on the device: free some\n`);
    expect(started.log).not.toMatch(/^\s+at /m);
  });
});
