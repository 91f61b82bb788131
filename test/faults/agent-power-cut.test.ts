// Power failures of a node with QUEUE_FSYNC=true while applications send OTLP to its collector: the backend gets every record that the
// collector acknowledged, and every line of the node's log files. The state directory is on the disk that loses what was not fsynced.
import { appendFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import type { Tenant } from "../fixtures/backend-process.ts";
import { type AgentPlace, collectorPid, hostAgentPlace, startHostAgent } from "../fixtures/host-agent-process.ts";
import { CuttableDisk, whyNoCuts } from "../fixtures/power-cut.ts";
import { halt } from "../fixtures/process-state.ts";
import { call, eventually, type TestProcess } from "../fixtures/processes.ts";
import { lossesOf, type Sent, type Signal, SIGNALS } from "../fixtures/senders.ts";

const CUTS = Number(process.env["POWER_CUTS"] ?? 3);
const DISK_MIB = 256;
const SENDERS_PER_SIGNAL = 2;
const RECORDS = 3;
/** Within this time after the first acknowledgement of each signal. */
const MOMENTS_MS = 1500;
const PATHS: Record<Signal, string> = { logs: "/v1/logs", spans: "/v1/traces", metrics: "/v1/metrics" };
const JSON_TYPE = { "content-type": "application/json" };
const RESOURCE = { attributes: [{ key: "service.name", value: { stringValue: "application" } }] };

const why = await whyNoCuts();
describe.skipIf(why !== undefined)(`after power cuts of a node${why === undefined ? "" : `: ${why}`}`, () => {
  const backend = backendOfFile({ JWT_TTL: "2h" });
  const sent: Sent[] = [];
  let tenant: Tenant;
  let disk: CuttableDisk;
  let place: AgentPlace;
  let agent: TestProcess | undefined;
  let number = 0;

  beforeAll(async () => {
    tenant = await backend.tenant("node");
    disk = new CuttableDisk(join(backend.folder, "disk"), DISK_MIB);
    const stateDir = join(disk.path, "agent");
    mkdirSync(stateDir);
    const env = {
      INSTALL_TOKEN: await backend.installToken(tenant.token),
      STATE_DIR: stateDir,
      CREDENTIALS_FILE: join(stateDir, "credentials.json"),
    };
    place = { ...(await hostAgentPlace(backend.folder, backend.apiUrl, env)), stateDir };
    agent = await startHostAgent(place);
  });
  afterAll(async () => {
    await agent?.end();
    await disk?.[Symbol.asyncDispose]();
  });

  function pids(): number[] {
    return [agent?.child.pid, collectorPid(place)].filter((pid) => pid !== undefined);
  }

  async function kill(): Promise<void> {
    for (const pid of pids()) process.kill(pid, "SIGKILL");
    await agent?.end("SIGKILL");
  }

  /** Returns whether the collector acknowledged the request. */
  async function send(signal: Signal): Promise<boolean> {
    number += 1;
    const request: Sent = { signal, ...MAKE[signal](number), attempts: 1 };
    sent.push(request);
    const answer = await call("POST", `${place.otlpHttp}${PATHS[signal]}`, { body: request.body, headers: JSON_TYPE }).catch(
      () => undefined,
    );
    if (answer?.status === 200) request.acknowledgedMs = Date.now();
    return answer?.status === 200;
  }

  async function sendUntilCut(signal: Signal): Promise<void> {
    while (await send(signal));
  }

  /** Lines are written by a program on another disk, which loses none. */
  async function writeLinesUntil(ended: Promise<unknown>): Promise<void> {
    const over = new AbortController();
    void ended.then(() => over.abort());
    while (!over.signal.aborted) {
      number += 1;
      const ids = Array.from({ length: 20 }, (_, index) => `line ${number} ${index}`);
      appendFileSync(join(place.logFolder, "app.log"), ids.map((id) => `${id}\n`).join(""));
      sent.push({ signal: "logs", body: "", ids, attempts: 1, acknowledgedMs: Date.now() });
      // The pace of the program.
      await sleep(20);
    }
  }

  /** Cuts the power under load. Returns the number of acknowledged requests. */
  async function cut(): Promise<number> {
    const before = sent.length;
    const acknowledged = (signal: Signal): number =>
      sent.slice(before).filter((request) => request.signal === signal && request.body !== "" && request.acknowledgedMs !== undefined)
        .length;
    const senders = Promise.all(SIGNALS.flatMap((signal) => Array.from({ length: SENDERS_PER_SIGNAL }, () => sendUntilCut(signal))));
    const lines = writeLinesUntil(senders);
    for (const signal of SIGNALS) await eventually(`${signal} are acknowledged`, async () => acknowledged(signal) > 0);
    // Lets each power cut hit another moment of the load.
    await sleep(Math.random() * MOMENTS_MS);
    await disk.cut(pids(), kill);
    await senders;
    await lines;
    return SIGNALS.reduce((sum, signal) => sum + acknowledged(signal), 0);
  }

  /** Waits until all acknowledged records and lines are stored, or a minute. Returns the number of lost ones of each signal. */
  async function countLost(): Promise<number[]> {
    const read = () => Promise.all(SIGNALS.map((signal) => lossesOf(backend.apiUrl, tenant.token, signal, sent)));
    const isComplete = async (): Promise<boolean> => (await read()).every(({ lost }) => lost.length === 0);
    await eventually("all are stored", isComplete).catch(() => undefined);
    const losses = await read();
    for (const [index, { lost, twice }] of losses.entries()) {
      const [lostLines, linesTwice] = [lost.filter(isLine).length, twice.filter(isLine).length];
      const records = `${lost.length - lostLines} records lost, ${twice.length - linesTwice} stored twice`;
      console.log(`${SIGNALS[index]}: ${records}; ${lostLines} lines lost, ${linesTwice} stored twice`);
    }
    return losses.map(({ lost }) => lost.length);
  }

  test("the queue is kept if QUEUE_FSYNC is turned on", async () => {
    await halt(backend.pid);
    try {
      for (const signal of SIGNALS) expect(await send(signal)).toBe(true);
      await kill();
    } finally {
      process.kill(backend.pid, "SIGCONT");
    }
    place.env["QUEUE_FSYNC"] = "true";
    agent = await startHostAgent(place);
    expect(await countLost()).toEqual([0, 0, 0]);
  }, 180_000);

  test(
    `the backend gets all acknowledged records of applications and all lines of files (${CUTS} cuts)`,
    async () => {
      for (let at = 1; at <= CUTS; at++) {
        const isAway = at % 2 === 1;
        if (isAway) await halt(backend.pid);
        const acknowledged = await cut().finally(() => process.kill(backend.pid, "SIGCONT"));
        agent = await startHostAgent(place);
        console.log(`cut ${at}, the backend ${isAway ? "does not respond" : "responds"}: ${acknowledged} requests were acknowledged`);
      }
      expect(await countLost()).toEqual([0, 0, 0]);
    },
    120_000 * CUTS,
  );
});

const MAKE: Record<Signal, (number: number) => Pick<Sent, "body" | "ids">> = {
  logs(number) {
    const ids = Array.from({ length: RECORDS }, (_, index) => `record ${number} ${index}`);
    const logRecords = ids.map((id) => ({ timeUnixNano: nanoseconds(Date.now()), body: { stringValue: id } }));
    return { ids, body: JSON.stringify({ resourceLogs: [{ resource: RESOURCE, scopeLogs: [{ logRecords }] }] }) };
  },
  spans(number) {
    const ids = Array.from({ length: RECORDS }, (_, index) => (number * 1000 + index + 1).toString(16).padStart(16, "0"));
    const traceId = number.toString(16).padStart(32, "0");
    const time = nanoseconds(Date.now());
    const spans = ids.map((spanId) => ({ traceId, spanId, name: "work", startTimeUnixNano: time, endTimeUnixNano: time }));
    return { ids, body: JSON.stringify({ resourceSpans: [{ resource: RESOURCE, scopeSpans: [{ spans }] }] }) };
  },
  metrics(number) {
    const times = Array.from({ length: RECORDS }, (_, index) => Date.now() - index);
    const attributes = [{ key: "body", value: { stringValue: String(number) } }];
    const dataPoints = times.map((timeMs) => ({ timeUnixNano: nanoseconds(timeMs), asDouble: number, attributes }));
    const metrics = [{ name: "under_load", gauge: { dataPoints } }];
    return {
      ids: times.map((timeMs) => `sample ${number} ${timeMs}`),
      body: JSON.stringify({ resourceMetrics: [{ resource: RESOURCE, scopeMetrics: [{ metrics }] }] }),
    };
  },
};

function isLine(id: string): boolean {
  return id.startsWith("line");
}

function nanoseconds(ms: number): string {
  return `${ms}000000`;
}
