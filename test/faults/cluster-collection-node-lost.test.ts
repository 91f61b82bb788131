// The loss of the node that collects state and events of the cluster, with the timing of real agents: two of them as processes with the real
// collector, against a real kube-apiserver; the one that collects is killed with its collector. Prints how long nobody collected.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { Sink } from "../../agent/collector/sink.fixture.ts";
import { CollectingAgent } from "../fixtures/collecting-agents.ts";
import { KubeApiServer } from "../fixtures/kube-apiserver.ts";
import { eventually, temporaryFolder } from "../fixtures/processes.ts";

const NAMESPACE = "collection";
const TELL_EVERY_MS = 500;
/** What decisions promise of an elected part. */
const TAKEOVER_MS = 30_000;
const within = (): AbortSignal => AbortSignal.timeout(10_000);

test("where the node that collects for the cluster is lost, another goes on within 30 s: nothing twice, and no gap but that one", async () => {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(temporaryFolder());
  const kube = stack.use(await KubeApiServer.start(folder.path));
  await kube.installChart(NAMESPACE);
  const kubernetes = await kube.agentAccess(NAMESPACE);
  const sinks = [stack.use(await Sink.start()), stack.use(await Sink.start())] as const;
  const start = async (index: 0 | 1): Promise<CollectingAgent> => {
    const name = `node-${index}`;
    const place = { name, namespace: NAMESPACE, kubernetes, stateDir: join(folder.path, name), port: sinks[index].port };
    return stack.use(await CollectingAgent.start(place));
  };
  const first = await start(0);
  await eventually("the first one collects", async () => Promise.resolve(first.status.isRunning), 120_000);
  const second = await start(1);

  const said: { name: string; atMs: number }[] = [];
  const stop = new AbortController();
  const saying = sayUntil(kube, said, stop.signal);
  stack.defer(() => stop.abort());
  const heardBy = (sink: Sink): string[] => said.map(({ name }) => name).filter((name) => told(sink, name) > 0);
  await eventually("the first one tells what is said", async () => Promise.resolve(heardBy(sinks[0]).length >= 5), 120_000);
  await eventually("the first one tells the state", async () => Promise.resolve(hasState(sinks[0])), 60_000);
  expect([first.status.leads, second.status.leads]).toEqual([true, false]);

  await first.loseNode();
  const lostAt = Date.now();
  await eventually("the other one leads", async () => Promise.resolve(second.status.leads), 120_000);
  const takenAfterMs = second.status.atMs - lostAt;
  await eventually("the other one tells the state", async () => Promise.resolve(hasState(sinks[1])), 120_000);
  const stateAfterMs = Date.now() - lostAt;
  await eventually("the other one tells what is said", async () => Promise.resolve(heardBy(sinks[1]).length >= 5), 120_000);
  stop.abort();
  await saying;
  const last = said.at(-1)?.name ?? "";
  await eventually("the last of it is told", async () => Promise.resolve(told(sinks[1], last) > 0), 60_000);

  // A collector says that it runs a moment before it watches.
  const begun = said.findIndex(({ name }) => told(sinks[0], name) > 0);
  const times = said.slice(begun).map(({ name, atMs }) => ({ atMs, count: told(sinks[0], name) + told(sinks[1], name) }));
  const [heard, missed] = [times.filter(({ count }) => count > 0), times.filter(({ count }) => count === 0)];
  const doubled = heard.filter(({ count }) => count > 1).length;
  const afterGap = heard.find(({ atMs }) => atMs > (missed.at(-1)?.atMs ?? 0))?.atMs ?? 0;
  const gapMs = afterGap - (heard.findLast(({ atMs }) => atMs < (missed[0]?.atMs ?? 0))?.atMs ?? 0);
  console.log("the node that collects is lost:", {
    takenAfterMs,
    stateAfterMs,
    said: times.length,
    missed: missed.length,
    doubled,
    gapOfEventsMs: missed.length === 0 ? 0 : gapMs,
  });
  expect(takenAfterMs).toBeLessThan(TAKEOVER_MS);
  expect(doubled).toBe(0);
  // One gap, which the loss began: what was said before it or after it is there.
  const isMissed = times.map(({ count }) => count === 0);
  expect(isMissed.slice(isMissed.indexOf(true), isMissed.lastIndexOf(true) + 1).every(Boolean)).toBe(true);
  expect(heardBy(sinks[0]).filter((name) => told(sinks[1], name) > 0)).toEqual([]);
});

async function sayUntil(kube: KubeApiServer, said: { name: string; atMs: number }[], signal: AbortSignal): Promise<void> {
  for (let i = 0; !signal.aborted; i++) {
    const name = `said-${i}`;
    const atMs = Date.now();
    const event = {
      apiVersion: "v1",
      kind: "Event",
      metadata: { name, namespace: "default" },
      involvedObject: { kind: "Pod", namespace: "default", name: "checkout-1" },
      reason: "Said",
      message: `${name}: by this test`,
      type: "Normal",
      source: { component: "test" },
      count: 1,
    };
    await kube.admin.post("/api/v1/namespaces/default/events", event, within());
    said.push({ name, atMs });
    await sleep(TELL_EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
}

function told(sink: Sink, name: string): number {
  return sink.lines.filter((line) => line.startsWith(`${name}: `)).length;
}

function hasState(sink: Sink): boolean {
  return sink.metrics.some((body) => body.includes('"k8s.namespace.phase"'));
}
