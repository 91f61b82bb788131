// The Lease under which the cluster's agents enrol and rotate, with a real kube-apiserver and the chart's permissions: which agent may act
// when, and that one term ends before another can begin.
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { Lease, LeaseLostError } from "../../agent/identity/lease.ts";
import { KubernetesApi } from "../../agent/kubernetes/api.ts";
import { KubeApiServer } from "../fixtures/kube-apiserver.ts";
import { temporaryFolder } from "../fixtures/processes.ts";

const NEVER = new AbortController().signal;
const TIMING = { durationMs: 20_000, renewDeadlineMs: 10_000, renewEveryMs: 100 };
const log = pino({ level: "silent" });
const folder = temporaryFolder();
let kube: KubeApiServer;
let api: KubernetesApi;
let path: string;

beforeAll(async () => {
  kube = await KubeApiServer.start(folder.path);
  await kube.installChart("lease");
  api = new KubernetesApi(await kube.agentAccess("lease"));
  path = "/apis/coordination.k8s.io/v1/namespaces/lease/leases/cluster-agent";
});

beforeEach(async () => {
  await kube.admin.mergePatch(path, { spec: null }, AbortSignal.timeout(60_000));
});

afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await kube[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

function contender(identity: string): Lease {
  return new Lease(api, { namespace: "lease", name: "cluster-agent", identity, timing: TIMING, log });
}

async function spec(): Promise<Record<string, string | number> | undefined> {
  return (await kube.admin.get<{ spec?: Record<string, string | number> }>(path, NEVER)).spec;
}

it("is acquired by one of many, renewed in microseconds, and available immediately after its release", async () => {
  const terms = await Promise.all(["a", "b", "c", "d", "e"].map((name) => contender(name).tryAcquire(NEVER)));
  const held = terms.filter((term) => term !== undefined);
  expect(held).toHaveLength(1);
  const first = await spec();
  await vi.waitFor(async () => expect((await spec())?.["renewTime"]).not.toBe(first?.["renewTime"]), 60_000);
  expect(String(first?.["renewTime"])).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  await held[0]![Symbol.asyncDispose]();
  expect(held[0]!.signal.aborted).toBe(true);
  await using next = await contender("f").tryAcquire(NEVER);
  expect(next?.signal.aborted).toBe(false);
});

it("of a dead holder is acquired after it was unchanged for its duration, whatever its times are", async () => {
  const dead = { holderIdentity: "dead", leaseDurationSeconds: 1, renewTime: "2001-01-01T00:00:00.000000Z" };
  await kube.admin.mergePatch(path, { spec: dead }, NEVER);
  const heir = contender("heir");
  expect(await heir.tryAcquire(NEVER)).toBeUndefined();
  expect(await heir.tryAcquire(NEVER)).toBeUndefined();
  // The Lease has to be seen unchanged for its whole duration.
  await sleep(TIMING.durationMs + 100);
  await using term = await heir.tryAcquire(NEVER);
  expect(term?.signal.aborted).toBe(false);
});

it("is acquired again immediately by the same pod after a crash", async () => {
  const crash = new AbortController();
  await contender("pod").tryAcquire(crash.signal);
  crash.abort();
  await using term = await contender("pod").tryAcquire(NEVER);
  expect(term?.signal.aborted).toBe(false);
});

it("stays with its holder if others change its labels", async () => {
  await using term = await contender("holder").tryAcquire(NEVER);
  await kube.admin.mergePatch(path, { metadata: { labels: { upgraded: String(Date.now()) } } }, NEVER);
  // Proves an absence: the term outlasts the deadline of a renewal.
  await sleep(TIMING.renewDeadlineMs + 300);
  expect(() => term?.assertHeld()).not.toThrow(LeaseLostError);
});

it("is created by an agent if it is missing, as with Argo CD, and then acquired", async () => {
  await kube.admin.delete(path, NEVER);
  const first = contender("first");
  expect(await first.tryAcquire(NEVER)).toBeUndefined();
  expect(await spec()).toMatchObject({ holderIdentity: "unknown-before-creation" });
  // An agent may still hold the one that is gone: its term has to pass.
  await sleep(TIMING.durationMs + 100);
  await using term = await first.tryAcquire(NEVER);
  expect(term?.signal.aborted).toBe(false);
});

it("ends a term if another holder wrote itself in", async () => {
  await using term = await contender("holder").tryAcquire(NEVER);
  await kube.admin.mergePatch(path, { spec: { holderIdentity: "usurper" } }, NEVER);
  await vi.waitFor(() => expect(term?.signal.aborted).toBe(true), 60_000);
  expect(() => term?.assertHeld()).toThrow("another agent holds it");
});

it("ends a term before any other can begin if the API server is silent", async () => {
  await using term = await contender("holder").tryAcquire(NEVER);
  await kube.pauseServer();
  const silentAt = performance.now();
  try {
    await vi.waitFor(() => expect(term?.signal.aborted).toBe(true), 60_000);
  } finally {
    kube.resumeServer();
  }
  expect(performance.now() - silentAt).toBeLessThan(TIMING.durationMs);
  expect(() => term?.assertHeld()).toThrow("not renewed in time");
});
