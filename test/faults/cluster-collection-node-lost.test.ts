// The loss of the node that collects state and events of the cluster, with the timing of real agents: two agents as processes with the real
// collector, and a real kube-apiserver. The collecting agent is killed with its collector just after it renewed its Lease, which is the
// worst moment. Prints how long no agent collected. All phases of the other agents' checks, in virtual time:
// agent/collector/stand-by.test.ts.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { Sink } from "../../agent/collector/supervision/sink.fixture.ts";
import { CollectingAgent } from "../fixtures/collecting-agents.ts";
import { KubeApiServer } from "../fixtures/kube-apiserver.ts";
import { eventually, temporaryFolder } from "../fixtures/processes.ts";

const NAMESPACE = "collection";
const LEASE = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/cluster-agent-collection`;
const SAY_EVERY_MS = 500;
/** Maximum time until another agent collects (charts/cluster-agent/README.md). */
const TAKEOVER_MS = 30_000;
const within = (): AbortSignal => AbortSignal.timeout(60_000);

test("if the node that collects for the cluster is lost, another continues within 30 s, and stores every event once", async () => {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(temporaryFolder());
  const kube = stack.use(await KubeApiServer.start(folder.path));
  await kube.installChart(NAMESPACE);
  const kubernetes = await kube.agentAccess(NAMESPACE);
  // Stores a repeated body once, as the backend does.
  const sink = stack.use(await Sink.start());
  const start = async (name: string): Promise<CollectingAgent> =>
    stack.use(await CollectingAgent.start({ name, namespace: NAMESPACE, kubernetes, stateDir: join(folder.path, name), port: sink.port }));
  const first = await start("node-0");
  await eventually("the first one collects", () => first.status.isRunning, 120_000);
  const second = await start("node-1");

  const said: string[] = [];
  const stop = new AbortController();
  const saying = sayUntil(kube, said, stop.signal);
  stack.defer(() => stop.abort());
  const lease = (): Promise<LeaseSaid> => kube.admin.get<LeaseSaid>(LEASE, within());
  await eventually("the first one sends what is said", () => arrived(sink, said).length >= 5, 120_000);
  await eventually("the first one sends the state", () => hasState(sink.metrics), 60_000);
  const passesOn = async (): Promise<boolean> => (await lease()).metadata.annotations?.["atherops.io/events-delivered"] !== undefined;
  await eventually("the first one passes on how far it came", passesOn, 60_000);
  const isReady = async (): Promise<boolean> =>
    (await lease()).metadata.annotations?.["atherops.io/collection-candidates"]?.startsWith("node-1=") === true;
  await eventually("the second one is ready to take over", isReady, 60_000);
  expect([first.status.leads, second.status.leads]).toEqual([true, false]);

  const { renewTime } = (await lease()).spec;
  // Polls closely: the node is lost right after a renewal, the worst moment.
  while ((await lease()).spec.renewTime === renewTime) await sleep(20);
  await first.loseNode();
  const lostAt = Date.now();
  const statesBefore = sink.metrics.length;
  await eventually("the other one leads", () => second.status.leads, 120_000);
  const takenAfterMs = second.status.atMs - lostAt;
  await eventually("the other one sends the state", () => hasState(sink.metrics.slice(statesBefore)), 120_000);
  const stateAfterMs = Date.now() - lostAt;
  stop.abort();
  await saying;
  await eventually("the last of it arrives", () => arrivals(sink, said.at(-1) ?? "") > 0, 60_000);

  // A collector says that it runs a moment before it watches.
  const since = said.slice(said.findIndex((name) => arrivals(sink, name) > 0));
  const missing = () => since.filter((name) => arrivals(sink, name) === 0);
  // What never arrives is reported below.
  await eventually("all of it arrives", () => missing().length === 0).catch(() => undefined);
  const missed = missing();
  const doubled = since.filter((name) => arrivals(sink, name) > 1);
  const readTwice = sink.repeatedBodies;
  console.log("the node that collects is lost:", { takenAfterMs, stateAfterMs, said: since.length, missed, doubled, readTwice });
  expect(takenAfterMs).toBeLessThan(TAKEOVER_MS);
  expect({ missed, doubled }).toEqual({ missed: [], doubled: [] });
});

interface LeaseSaid {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
  readonly spec: { readonly renewTime: string };
}

function arrived(sink: Sink, said: readonly string[]): string[] {
  return said.filter((name) => arrivals(sink, name) > 0);
}

async function sayUntil(kube: KubeApiServer, said: string[], signal: AbortSignal): Promise<void> {
  for (let i = 0; !signal.aborted; i++) {
    const name = `said-${i}`;
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
    said.push(name);
    // Paces the events.
    await sleep(SAY_EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
}

function arrivals(sink: Sink, name: string): number {
  return sink.lines.filter((line) => line.startsWith(`${name}: `)).length;
}

function hasState(metrics: readonly string[]): boolean {
  return metrics.some((body) => body.includes('"k8s.namespace.phase"'));
}
