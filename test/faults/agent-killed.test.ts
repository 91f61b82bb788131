// Reads two files with the whole host agent, which is ended in the middle of its work repeatedly, in several ways: each line arrives once.
// Real collector; the sink stores a byte-identical repeated body once, as the backend does.
import { appendFileSync, existsSync, renameSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Sink } from "../../agent/collector/supervision/sink.fixture.ts";
import { canMount, SmallDisk } from "../../agent/collector/supervision/small-disk.fixture.ts";
import { type AgentPlace, collectorPid, hostAgentPlace, startHostAgent } from "../fixtures/host-agent-process.ts";
import { call, eventually, ROOT, temporaryFolder, TestProcess } from "../fixtures/processes.ts";

/** KILLS=10 for more of each kind, and for kinds that the suites of enrolment, configuration and disks test with fewer lines. */
const KILLS = Number(process.env["KILLS"] ?? 2);
/** The longest time from the start of an agent to its kill: it enrols, applies a configuration and starts its collector in it. */
const LONGEST_START_MS = 4000;
/** UPGRADE_FROM=FOLDER: a checkout of another commit (test/fixtures/host-agent-process.ts), whose agent fills the queue. */
const UPGRADE_FROM = process.env["UPGRADE_FROM"];
const FILES = ["one", "two"];
const QUEUE_MIB = 16;
/** Lines of each file before each end of the agent. */
const LINES = 8000;

let folder: ReturnType<typeof temporaryFolder>;
let sink: Sink;
let place: AgentPlace;
let agent: TestProcess;
/** Lines written to each file so far. */
let written: number;
let came: Record<string, Came>;
let counted: number;

beforeEach(async () => {
  folder = temporaryFolder();
  sink = await Sink.start();
  written = 0;
  came = {};
  counted = 0;
  place = await placeIn(folder.path);
  agent = await startHostAgent(place);
});

function placeIn(path: string): Promise<AgentPlace> {
  const env = { INSTALL_TOKEN: "it_of_the_sink", SIGNALS: "logs", QUEUE_MIB: String(QUEUE_MIB), LOG_LEVEL: "debug" };
  return hostAgentPlace(path, sink.url, env);
}

afterEach(async () => {
  await agent.end();
  await sink[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

/** To each file. */
function write(count: number, lengthBytes = 0): void {
  for (const file of FILES) {
    const lines = Array.from({ length: count }, (_, i) => `${file} ${written + i} ${"x".repeat(lengthBytes)}\n`);
    appendFileSync(`${place.logFolder}/${file}.log`, lines.join(""));
  }
  written += count;
}

/** The lines of a file that have arrived, and how many arrived again; reads the sink's lines up to `counted`. */
interface Came {
  readonly numbers: Set<string>;
  again: number;
}

/** How many lines of a file never arrived, and how many arrived again. */
function lossesOf(file: string): { missing: number; doubled: number } {
  for (; counted < sink.lines.length; counted++) {
    const [of = "", number = ""] = sink.lines[counted]?.split(" ", 2) ?? [];
    const { numbers } = came[of] ?? (came[of] = { numbers: new Set(), again: 0 });
    if (numbers.has(number)) came[of].again += 1;
    numbers.add(number);
  }
  const { numbers, again } = came[file] ?? { numbers: new Set(), again: 0 };
  return { missing: written - numbers.size, doubled: again };
}

async function allThere(): Promise<void> {
  const isThere = (): boolean => FILES.every((file) => lossesOf(file).missing === 0);
  await eventually("every line is there", () => isThere(), 200_000);
  // Lines that were read again are in the queue and take the same path, so a line that is written now arrives last.
  write(1);
  await eventually("and nothing is under way", async () => isThere() && (await queuedBytes()) === 0, 200_000);
}

/** Batches with lines that were read twice, and left out the second time. */
function leftOut(): number {
  return agent.log.split("the collector read them again").length - 1;
}

async function queuedBytes(): Promise<number> {
  const { text } = await call("GET", `${place.healthUrl}/metrics`);
  return Number(/otelcol_exporter_queue_size\{[^}]*files[^}]*\} (\S+)/.exec(text)?.[1]);
}

/** After some ends in a row the agent waits up to a minute before the next start. */
async function untilReady(): Promise<void> {
  await eventually("it runs again", async () => (await call("GET", `${place.healthUrl}/readyz`)).status === 200, 120_000);
}

/** Writes, and waits until the collector reads it, at another moment each time: it queues faster than what it queued arrives. */
async function inTheMiddle(): Promise<void> {
  const upTo = sink.lines.length + Math.random() * LINES * 0.2;
  write(LINES, 300);
  while (sink.lines.length <= upTo) await nextTurn();
}

/** Kills the collector, if there is one, and the agent, as when their container ends. */
async function killBoth(): Promise<void> {
  const pid = collectorPid(place);
  if (pid !== undefined && existsSync(`/proc/${pid}`)) process.kill(pid, "SIGKILL");
  await agent.end("SIGKILL");
}

/** An agent on another host, that has not run yet: its lines follow those of the one before. */
async function newHost(): Promise<void> {
  await agent.end();
  place = await placeIn(join(folder.path, `host-${written}`));
}

const KINDS: Record<string, () => Promise<void>> = {
  "the collector is killed": async () => {
    await inTheMiddle();
    process.kill(collectorPid(place) ?? 0, "SIGKILL");
    await eventually("it is seen", async () => (await call("GET", `${place.healthUrl}/readyz`)).status !== 200);
    await untilReady();
  },
  "agent and collector are killed, as with their container": async () => {
    await inTheMiddle();
    process.kill(collectorPid(place) ?? 0, "SIGKILL");
    await agent.end("SIGKILL");
    agent = await startHostAgent(place);
  },
  "agent and collector are killed, and the files rotated before they run again": async () => {
    await inTheMiddle();
    process.kill(collectorPid(place) ?? 0, "SIGKILL");
    await agent.end("SIGKILL");
    for (const file of FILES) renameSync(`${place.logFolder}/${file}.log`, `${place.logFolder}/${file}.log.1`);
    write(10);
    agent = await startHostAgent(place);
  },
  "the agent alone is killed": async () => {
    await inTheMiddle();
    await agent.end("SIGKILL");
    agent = await startHostAgent(place);
  },
  "agent and collector are killed while the backend is away": async () => {
    sink.away = true;
    write(LINES, 300);
    await eventually("lines are in the queue", async () => (await queuedBytes()) > 0);
    process.kill(collectorPid(place) ?? 0, "SIGKILL");
    await agent.end("SIGKILL");
    agent = await startHostAgent(place);
    sink.away = false;
  },
  "the agent is stopped while its queue is full": async () => {
    await fillQueue();
    expect(await agent.end("SIGTERM")).toBe(0);
    agent = await startHostAgent(place);
    sink.away = false;
  },
  ...(UPGRADE_FROM !== undefined && {
    "the agent of another release is upgraded while its queue is full": async () => {
      // A new host each time: after this agent, one of another release (as 0244d6ed) may read the files from their start again.
      await newHost();
      agent = await startHostAgent(place, UPGRADE_FROM);
      await inTheMiddle();
      await fillQueue();
      await agent.end();
      agent = await startHostAgent(place);
      sink.away = false;
    },
    "the agent of another release is upgraded, whose queue filled up while the backend was away": async () => {
      await newHost();
      agent = await startHostAgent(place, UPGRADE_FROM);
      write(LINES, 300);
      await allThere();
      await fillQueue();
      await agent.end();
      agent = await startHostAgent(place);
      sink.away = false;
    },
  }),
  ...(process.env["KILLS"] !== undefined && {
    "agent and collector are killed in the first seconds of a new host, as while it enrols": async () => {
      await newHost();
      write(LINES, 300);
      agent = new TestProcess([join(ROOT, "agent/bin/atherops-otel-agent.ts"), "run"], place.env, place.logFile);
      // The kill meets another step of the start each time.
      await sleep(Math.random() * LONGEST_START_MS);
      await killBoth();
      agent = await startHostAgent(place);
    },
    "agent and collector are killed while they apply a remote configuration": async () => {
      await agent.end();
      place.env["REMOTE_CONFIG_INTERVAL"] = "1s";
      agent = await startHostAgent(place);
      await inTheMiddle();
      const version = `${written}`;
      sink.config = { version, config: { log_paths: [`${place.logFolder}/*.log`, `${place.logFolder}/${version}/*.log`] } };
      // The agent fetches the configuration, and restarts its collector with it.
      await sleep(Math.random() * LONGEST_START_MS);
      await killBoth();
      agent = await startHostAgent(place);
      await eventually("the configuration is in force", () => agent.log.includes(`"version":"${version}"`));
    },
    ...(canMount && {
      "agent and collector are killed while the disk is full": async () => {
        await newHost();
        using disk = new SmallDisk(place.stateDir, "64m");
        agent = await startHostAgent(place);
        await inTheMiddle();
        sink.away = true;
        disk.fill();
        write(LINES, 300);
        // The collector reads, and cannot write what it reads.
        await sleep(Math.random() * LONGEST_START_MS);
        await killBoth();
        disk.free();
        sink.away = false;
        agent = await startHostAgent(place);
        await allThere();
        await agent.end();
        await newHost();
        agent = await startHostAgent(place);
      },
    }),
  }),
  "the agent alone is killed while its queue is full": async () => {
    await fillQueue();
    await agent.end("SIGKILL");
    agent = await startHostAgent(place);
    sink.away = false;
  },
};

async function fillQueue(): Promise<void> {
  sink.away = true;
  write(6000, 2000);
  await eventually("the queue is full", async () => (await queuedBytes()) > 0.95 * QUEUE_MIB * 2 ** 20);
}

test.each(Object.keys(KINDS))(
  `loses no line and repeats none when %s (${KILLS} times)`,
  async (kind) => {
    for (let kill = 1; kill <= KILLS; kill++) {
      const before = FILES.map((file) => lossesOf(file).doubled);
      const leftOutBefore = leftOut();
      await KINDS[kind]?.();
      await allThere();
      const after = FILES.map((file) => lossesOf(file));
      const doubled = after.map((each, i) => each.doubled - (before[i] ?? 0));
      const losses = `${after.map((each) => each.missing).join(" and ")} missing, ${doubled.join(" and ")} doubled`;
      console.log(`${kind}, ${kill}: ${written} lines of each file written, ${losses}; ${leftOut() - leftOutBefore} batches left out`);
      expect(after.map((each) => each.missing)).toEqual([0, 0]);
      expect(doubled).toEqual([0, 0]);
    }
    const names = new Set(sink.records.flatMap(({ attributes, resource }) => Object.keys({ ...attributes, ...resource })));
    expect([...names], "a line's place stays on the node").not.toContain("log.file.record_offset");
  },
  200_000 * KILLS,
);
