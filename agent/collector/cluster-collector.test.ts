// The terms of the agent that collects for its cluster, with a variable as the Lease, and no collector or a script in its place. With a
// real Lease and collector: test/faults/cluster-collection.test.ts.
import { execFileSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pino } from "pino";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { LeaseInMemory } from "../identity/lease.fixture.ts";
import { Lease, type LeaseTerm } from "../identity/lease.ts";
import { ClusterCollector } from "./cluster-collector.ts";
import { EventsCheckpoint } from "./events-checkpoint.ts";
import { Supervisor } from "./supervision/supervisor.ts";
import { stub } from "../../test/fixtures/stub.ts";

const PLACE = "atherops.io/events-delivered";
const TIMING = { durationMs: 10_000, renewDeadlineMs: 7_000, renewEveryMs: 20 };
const log = pino({ level: "silent" });

test("a new leader continues from its predecessor's checkpoint and never overwrites it with an older one", async () => {
  const api = new LeaseInMemory();
  const starts: string[] = [];
  const written: string[] = [];
  const replace = api.replaceLease.bind(api);
  api.replaceLease = async (...args) => {
    written.push(args[1].metadata?.annotations?.[PLACE] ?? "");
    return replace(...args);
  };
  const events = new EventsCheckpoint({ newestOfEvents: () => Promise.resolve("1000") });
  const supervisor = (): Supervisor =>
    stub<Supervisor>({
      start: () => Promise.resolve(void starts.push(events.version)),
      status: () => ({ pid: null }),
      metricsUrl: undefined,
      [Symbol.asyncDispose]: () => Promise.resolve(),
    });
  const lease = new Lease(api, { namespace: "n", name: "l", identity: "a", timing: TIMING, log });
  api.lease = { metadata: { resourceVersion: "1", annotations: { [PLACE]: "100" } } };
  await using collector = new ClusterCollector({ lease, name: "a", supervisor, config: "", events, log });
  await expect.poll(() => starts).toEqual(["100"]);
  expect(collector.status().leads).toBe(true);

  // Another took it, came further, and gave it back.
  const resourceVersion = String(Number(api.lease.metadata?.resourceVersion) + 1);
  api.lease = { metadata: { resourceVersion, annotations: { [PLACE]: "200" } }, spec: { holderIdentity: "b" } };
  await expect.poll(() => collector.status().leads).toBe(false);
  written.length = 0;
  api.lease = { ...api.lease, spec: {} };
  await expect.poll(() => starts, { timeout: 50_000 }).toEqual(["100", "200"]);
  expect(new Set(written)).toEqual(new Set(["200"]));
});

test("releases the Lease if the collector cannot start, so that another agent can try", async () => {
  const api = new LeaseInMemory();
  const supervisor = (): Supervisor =>
    stub<Supervisor>({ start: () => Promise.reject(new Error("no disk")), [Symbol.asyncDispose]: () => Promise.resolve() });
  const lease = new Lease(api, { namespace: "n", name: "l", identity: "a", timing: TIMING, log });
  await using collector = new ClusterCollector({ lease, name: "a", supervisor, config: "", log });
  await expect.poll(() => api.writes >= 2 && api.lease.spec?.holderIdentity === undefined).toBe(true);
  expect(collector.status().leads).toBe(false);
});

test("logs that collection works again once the collector has started, not only at the end of the term", async () => {
  const api = new LeaseInMemory();
  let starts = 0;
  const supervisor = (): Supervisor =>
    stub<Supervisor>({
      start: () => (++starts === 1 ? Promise.reject(new Error("no disk")) : Promise.resolve()),
      status: () => ({ pid: null }),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    });
  const logged: string[] = [];
  const recordingLog = pino({}, { write: (line: string) => void logged.push((JSON.parse(line) as { event: string }).event) });
  const lease = new Lease(api, { namespace: "n", name: "l", identity: "a", timing: TIMING, log });
  await using collector = new ClusterCollector({ lease, name: "a", supervisor, config: "", log: recordingLog });
  await expect.poll(() => logged, { timeout: 50_000 }).toContain("cluster_collector.recovered");
  expect(collector.status().leads).toBe(true);
});

test("without a standby, collects again within seconds after the API server recovers", async () => {
  const api = new LeaseInMemory();
  const supervisor = (): Supervisor =>
    stub<Supervisor>({
      start: () => Promise.resolve(),
      status: () => ({ pid: null }),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    });
  const timing = { ...TIMING, renewDeadlineMs: 200 };
  const lease = new Lease(api, { namespace: "n", name: "l", identity: "a", timing, log });
  await using collector = new ClusterCollector({ lease, name: "a", supervisor, config: "", log });
  await expect.poll(() => collector.status().leads).toBe(true);
  api.refusal = new Error("away");
  await expect.poll(() => collector.status().leads).toBe(false);
  const { reads } = api;
  await expect.poll(() => api.reads).toBeGreaterThan(reads);
  api.refusal = undefined;
  await expect.poll(() => collector.status().leads, { timeout: 50_000 }).toBe(true);
});

test("starts no collector if the term ends while the configuration is validated", async () => {
  using folder = temporaryFolder();
  const [program, validating, goOn, ran] = ["otelcol", "validating", "go-on", "ran"].map((name) => join(folder.path, name)) as [
    string,
    string,
    string,
    string,
  ];
  execFileSync("mkfifo", [goOn]);
  const validates = `if [ "$1" = validate ]; then : > "${validating}"; read _ < "${goOn}"; exit 0; fi`;
  writeFileSync(program, `#!/bin/sh\n${validates}\n: > "${ran}"\nexec /bin/sleep 60\n`, { mode: 0o755 });
  const supervisor = (): Supervisor => new Supervisor({ program, stateDir: folder.path, memoryMib: 100, stopGraceMs: 1000, env: {}, log });

  const api = new LeaseInMemory();
  const lease = new Lease(api, { namespace: "n", name: "l", identity: "a", timing: TIMING, log });
  const terms: LeaseTerm[] = [];
  const tryAcquire: Lease["tryAcquire"] = async (...args) => {
    const term = await lease.tryAcquire(...args);
    if (term) terms.push(term);
    return term;
  };
  const watched = { tryAcquire, view: undefined, annotate: lease.annotate.bind(lease) };
  await using collector = new ClusterCollector({ lease: watched, name: "a", supervisor, config: "receivers:\n", log });
  await expect.poll(() => existsSync(validating), { timeout: 50_000 }).toBe(true);
  const resourceVersion = String(Number(api.lease.metadata?.resourceVersion) + 1);
  api.lease = { metadata: { resourceVersion }, spec: { holderIdentity: "b", leaseDurationSeconds: 10 } };
  await expect.poll(() => terms[0]?.signal.aborted, { timeout: 50_000 }).toBe(true);
  await writeFile(goOn, "\n");
  await expect.poll(() => collector.status().leads, { timeout: 50_000 }).toBe(false);
  expect(terms).toHaveLength(1);
  expect(existsSync(ran)).toBe(false);
});
