// Sends numbered log lines through the whole host agent while its collector is killed, the agent is killed and restarted, the backend is
// unavailable, and its disk queue is full. Counts the lines that arrive, and the requests. The sink stores a byte-identical repeated body
// once, as the backend does.
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { compareLines, Sink } from "../../agent/collector/supervision/sink.fixture.ts";
import { type AgentPlace, hostAgentPlace, startHostAgent } from "../fixtures/host-agent-process.ts";
import { call, eventually, temporaryFolder, type TestProcess } from "../fixtures/processes.ts";

let folder: ReturnType<typeof temporaryFolder>;
let sink: Sink;
let place: AgentPlace;
let agent: TestProcess | undefined;
let written: number;

beforeEach(async () => {
  folder = temporaryFolder();
  sink = await Sink.start();
  written = 0;
});
afterEach(async () => {
  await agent?.end();
  await sink[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

async function begin(env: NodeJS.ProcessEnv = {}): Promise<void> {
  place = await hostAgentPlace(folder.path, sink.url, { INSTALL_TOKEN: "it_of_the_sink", SIGNALS: "logs", ...env });
  agent = await startHostAgent(place);
}

function write(count: number, padding = ""): void {
  const lines = Array.from({ length: count }, () => `line ${written++}${padding}\n`);
  appendFileSync(`${place.logFolder}/sequence.log`, lines.join(""));
}

function losses(): { missing: number; doubled: number } {
  return compareLines(
    sink.lines.map((line) => line.trimEnd().replace(/ x+$/, "")),
    written,
  );
}

async function nothingMissing(): Promise<void> {
  await eventually("every line is there", () => losses().missing === 0, 90_000);
  // Data that is still under way could only arrive twice.
  await sleep(1500);
}

async function killCollector(): Promise<void> {
  const status = await call("GET", `${place.healthUrl}/status`);
  process.kill(status.json.collector.pid as number, "SIGKILL");
}

describe("10,000 numbered lines", () => {
  test("all arrive when the collector is killed three times while they are written", async () => {
    await begin();
    for (let round = 0; round < 4; round++) {
      for (let part = 0; part < 25; part++) {
        write(100);
        // Writes while the collector reads.
        await sleep(5);
      }
      if (round === 3) break;
      await killCollector();
      await eventually("it runs again", async () => (await call("GET", `${place.healthUrl}/readyz`)).status === 200);
    }
    await nothingMissing();
    const { missing, doubled } = losses();
    console.log({ killed: 3, written, missing, doubled, bodiesSentTwice: sink.repeatedBodies });
    expect(missing).toBe(0);
    // The last batch of the look at the file that a kill ended: read again, it is longer.
    expect(doubled).toBeLessThanOrEqual(3 * 100);
  });

  test("all arrive when the backend is away and the agent is killed and restarted meanwhile", async () => {
    await begin();
    write(2000);
    sink.away = true;
    write(3000);
    // The collector reads and queues meanwhile.
    await sleep(1000);
    await agent?.end("SIGKILL");
    write(2000);
    agent = await startHostAgent(place);
    // The collector reads and queues meanwhile.
    await sleep(1000);
    await agent.end("SIGTERM");
    write(1000);
    agent = await startHostAgent(place);
    write(2000);
    // The backend returns while the collector retries.
    await sleep(500);
    sink.away = false;
    await nothingMissing();
    expect(written).toBe(10_000);
    const { missing, doubled } = losses();
    console.log({ written, missing, doubled });
    expect(missing).toBe(0);
    expect(doubled).toBeLessThanOrEqual(2 * 100);
  });

  test("all arrive when the disk queue is full and the agent is stopped and started", async () => {
    await begin({ QUEUE_MIB: "16" });
    sink.away = true;
    for (let part = 0; part < 25; part++) write(1000, ` ${"x".repeat(1000)}`);
    await eventually("the queue is full", async () => {
      const metrics = (await call("GET", `${place.healthUrl}/metrics`)).text;
      return Number(/otelcol_exporter_queue_size\{[^}]*files[^}]*\} (\S+)/.exec(metrics)?.[1]) > 0.9 * 16 * 1024 * 1024;
    });
    await agent?.end("SIGTERM");
    agent = await startHostAgent(place);
    sink.away = false;
    await nothingMissing();
    const { missing, doubled } = losses();
    console.log({ written, missing, doubled });
    expect(missing).toBe(0);
    expect(doubled).toBeLessThanOrEqual(100);
  });
});

test("lines of thirty files go together, a request a second", async () => {
  await begin();
  const files = Array.from({ length: 30 }, (_, i) => `${place.logFolder}/${i}.log`);
  const { requests } = sink;
  const startedAt = performance.now();
  // Lines come at a pace, so that a batch has those of several files.
  for (; written < 150; await sleep(200)) for (const file of files) appendFileSync(file, `line ${written++}\n`);
  await eventually("every line is there", () => losses().missing === 0, 90_000);
  expect(losses().doubled).toBe(0);
  // Each second one, and one for each 32 KiB.
  expect(sink.requests - requests).toBeLessThanOrEqual((performance.now() - startedAt) / 1000 + 3);
});
