// `npm run bench -- api-server [--nodes 200] [--pods 10] [--seconds 120] [--churn 5] [--direct]`: measures the load of the agents of this
// number of nodes on a real kube-apiserver: open watches, requests, bytes, its memory and CPU, from its own metrics. It measures at rest,
// while `--churn` pods change per second, and during a rotation of the cluster's key. The agent's own code simulates the nodes
// (api-server/simulated-node.ts), with one list and watch of pods each; `--direct`: with six, as without the agent's relay. The API
// server's own requests are measured before and subtracted. Other load of the machine does not affect counts and bytes, and memory only
// little.
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { apiServerLoad, type ApiServerLoad } from "../fixtures/apiserver-load.ts";
import { KubeApiServer } from "../fixtures/kube-apiserver.ts";
import { report } from "../fixtures/measure.ts";
import { eventually, temporaryFolder } from "../fixtures/processes.ts";
import { requestRotation, type SimulatedNode, startNode } from "./api-server/simulated-node.ts";

const { values } = parseArgs({
  options: {
    nodes: { type: "string", default: "200" },
    pods: { type: "string", default: "10" },
    seconds: { type: "string", default: "120" },
    churn: { type: "string", default: "5" },
    direct: { type: "boolean", default: false },
  },
});
const [nodes, podsOfNode, seconds, churn] = [values.nodes, values.pods, values.seconds, values.churn].map(Number) as [
  number,
  number,
  number,
  number,
];
const NAMESPACE = "fleet";
const AT_ONCE = 8;

await using stack = new AsyncDisposableStack();
const folder = stack.use(temporaryFolder());
const kube = stack.use(await KubeApiServer.start(folder.path));
await kube.installChart(NAMESPACE);
const access = await kube.agentAccess(NAMESPACE);
await inParallel(nodes * podsOfNode, makePod);

const table: Record<string, Record<string, string>> = {};
const idle = await during(seconds, () => Promise.resolve());
table["the API server by itself"] = shown(idle, undefined);
const before = await apiServerLoad(kube.admin);
const fleet: SimulatedNode[] = [];
stack.defer(async () => void (await Promise.all(fleet.map((node) => node[Symbol.asyncDispose]()))));
await inParallel(nodes, async (n) => void fleet.push(await startNode(access, NAMESPACE, nodeName(n), values.direct)));
await eventually("all have a key and know their pods", () => fleet.every((node) => node.key() && node.knowsPods()), 600_000);
// What the starts left to collect.
await sleep(30_000);
const started = await apiServerLoad(kube.admin);
table["start, in all"] = {
  "pod watches": String(started.podWatches - before.podWatches),
  "Secret watches": String(started.secretWatches - before.secretWatches),
  "resident MiB, more": ((started.residentBytes - before.residentBytes) / 1024 ** 2).toFixed(0),
  "answers kB": ((started.answerBytes - before.answerBytes) / 1000).toFixed(0),
};
table["at rest"] = shown(await during(seconds, () => Promise.resolve()), idle);
table[`${churn} pods a second change`] = shown(await during(seconds, changePods), idle);
const keys = new Set(fleet.map((node) => node.key()));
const rotation = async (): Promise<void> => {
  await requestRotation(access, NAMESPACE);
  await eventually("all have the new key", () => fleet.every((node) => !keys.has(node.key())));
};
const rotated = await during(60, rotation);
table["a minute with a rotation"] = shown(rotated, idle);
report("api-server", values, table);

interface Span {
  readonly tookS: number;
  readonly from: ApiServerLoad;
  readonly to: ApiServerLoad;
}

/** The load over so many seconds at least, while `work` runs. */
async function during(leastS: number, work: (until: number) => Promise<void>): Promise<Span> {
  const from = await apiServerLoad(kube.admin);
  const startedAt = performance.now();
  const end = startedAt + leastS * 1000;
  await work(end);
  await sleep(Math.max(0, end - performance.now()));
  return { from, tookS: (performance.now() - startedAt) / 1000, to: await apiServerLoad(kube.admin) };
}

/** Figures per node and minute, without the API server's own requests. */
function shown(span: Span, idle: Span | undefined): Record<string, string> {
  const rate = (of: (load: ApiServerLoad) => number, digits = 1): string => {
    const perMinute = ({ from, to, tookS }: Span): number => ((of(to) - of(from)) / tookS) * 60;
    return ((perMinute(span) - (idle ? perMinute(idle) : 0)) / (idle ? nodes : 1)).toFixed(digits);
  };
  const requests = (wanted: (name: string) => boolean) => (load: ApiServerLoad) =>
    [...load.requests].reduce((sum, [name, count]) => sum + (wanted(name) ? count : 0), 0);
  return {
    "requests/min": rate(
      requests(() => true),
      2,
    ),
    "of Leases": rate(
      requests((name) => name.endsWith(" leases")),
      2,
    ),
    "of the Secret": rate(
      requests((name) => name.endsWith(" secrets")),
      2,
    ),
    "of pods": rate(
      requests((name) => name.endsWith(" pods")),
      2,
    ),
    "answers B/min": rate((load) => load.answerBytes, 0),
    "events B/min": rate((load) => load.eventBytes, 0),
    "CPU ms/min": rate((load) => load.cpuSeconds * 1000),
    "resident MiB": (span.to.residentBytes / 1024 ** 2).toFixed(0),
  };
}

function nodeName(n: number): string {
  return `node-${n % nodes}`;
}

/** A pod of a small service: some 4 kB as the API server returns it. */
async function makePod(n: number): Promise<void> {
  const env = Array.from({ length: 12 }, (_, i) => ({ name: `SETTING_${i}`, value: `value ${i} of this service` }));
  const container = { name: "app", image: "registry.example/app:1.2.3", env, ports: [{ containerPort: 8080 }] };
  const labels = { app: `app-${n % 50}`, "pod-template-hash": "7d9c5b6f4d" };
  const made = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: podName(n), labels },
    spec: { nodeName: nodeName(n), containers: [container, { ...container, name: "sidecar", ports: [] }] },
  };
  await kube.admin.post("/api/v1/namespaces/default/pods", made, AbortSignal.timeout(60_000));
}

function podName(n: number): string {
  return `app-7d9c5b6f4d-${n}`;
}

/** Changes pods like a kubelet when a probe fails or succeeds again. */
async function changePods(until: number): Promise<void> {
  for (let n = 0; performance.now() < until; n += 1) {
    const conditions = [{ type: "Ready", status: n % 2 === 0 ? "True" : "False" }];
    const path = `/api/v1/namespaces/default/pods/${podName((n * 97) % (nodes * podsOfNode))}/status`;
    await kube.admin.mergePatch(path, { status: { phase: "Running", conditions } }, AbortSignal.timeout(60_000));
    await sleep(1000 / churn);
  }
}

async function inParallel(count: number, work: (n: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
