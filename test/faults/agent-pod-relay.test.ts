// The agent's relay of pods with a real kube-apiserver: a collector that uses the relay adds the same attributes as one that uses the API
// server, with one watch instead of six, also for pods that are created, changed and deleted, and it starts while the API server is
// unavailable.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { keptPodFields } from "../../agent/commands/start-parts.ts";
import { KubernetesApi } from "../../agent/kubernetes/api.ts";
import { NodePods } from "../../agent/pods/node-pods.ts";
import { PodRelay } from "../../agent/pods/relay.ts";
import { type AskingCollector, kubeconfigOf, startAskingCollector } from "../fixtures/asking-collector.ts";
import { podWatches } from "../fixtures/apiserver-load.ts";
import { KubeApiServer } from "../fixtures/kube-apiserver.ts";
import { eventually, temporaryFolder } from "../fixtures/processes.ts";

const NAMESPACE = "relaying";
/** Address of the scraped pod, which also serves cAdvisor's page. */
const SCRAPED = "127.0.0.65";
const stack = new AsyncDisposableStack();
const folder = stack.use(temporaryFolder());
const within = (): AbortSignal => AbortSignal.timeout(60_000);
let kube: KubeApiServer;
let relay: PodRelay;
let asksAgent: AskingCollector;
let asksServer: AskingCollector;
let page: string;
let watchesAtFirst: number;
let watchesOfAgent: number;

beforeAll(async () => {
  kube = stack.use(await KubeApiServer.start(folder.path));
  await kube.installChart(NAMESPACE);
  const server = createServer((request, response) => {
    const ofPod = request.url === "/stats" ? "orders_total 7\n" : `${PODS.map(usageOf).join("")}machine_cpu_cores 2\n`;
    response.writeHead(200, { "content-type": "text/plain; version=0.0.4" }).end(ofPod);
  });
  server.listen(0, SCRAPED);
  await once(server, "listening");
  stack.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  page = `${SCRAPED}:${(server.address() as AddressInfo).port}`;
  for (const each of PODS) await make(each);
  const access = await kube.agentAccess(NAMESPACE);
  const api = stack.use(new KubernetesApi(access));
  const keptFields = keptPodFields({ podLabels: ["team"], podAnnotations: ["example.com/owner"] });
  const pods = stack.use(new NodePods({ api, nodeName: "node-1", keptFields, log: pino({ level: "silent" }) }));
  relay = stack.use(await PodRelay.start({ pods, nodeName: "node-1" }));
  watchesAtFirst = await podWatches(kube.admin);
  asksAgent = await startAskingCollector(join(folder.path, "agent"), { kubeconfig: relay.kubeconfig, page }, stack);
  watchesOfAgent = (await podWatches(kube.admin)) - watchesAtFirst;
  asksServer = await startAskingCollector(join(folder.path, "server"), { kubeconfig: kubeconfigOf(access), page }, stack);
}, 240_000);
afterAll(() => stack[Symbol.asyncDispose]());

const owner = (kind: string, name: string): object => ({
  apiVersion: kind === "Job" ? "batch/v1" : "apps/v1",
  kind,
  name,
  uid: "0b5a3c1e-0000-4000-8000-00000000000a",
  controller: true,
});

interface PodOfTest {
  readonly name: string;
  readonly ip: string;
  readonly owner?: object;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly hostNetwork?: boolean;
  readonly phase?: string;
}

const PODS: readonly PodOfTest[] = [
  { name: "web-7d9c5b6f4d-abcde", ip: "127.0.0.61", owner: owner("ReplicaSet", "web-7d9c5b6f4d"), labels: { team: "a", other: "x" } },
  {
    name: "db-0",
    ip: "127.0.0.62",
    owner: owner("StatefulSet", "db"),
    annotations: { "example.com/owner": "ann", "example.com/other": "y" },
  },
  { name: "agent-x1", ip: "127.0.0.63", owner: owner("DaemonSet", "agent"), annotations: { "atherops.io/logs": "false" } },
  // A hash of nine characters, as a quarter of all Deployments have, and a name that only looks like one.
  {
    name: "web-shop-7d9c5b6f4-vwxyz",
    ip: "127.0.0.70",
    owner: owner("ReplicaSet", "web-shop-7d9c5b6f4"),
    labels: { "pod-template-hash": "7d9c5b6f4" },
  },
  { name: "bare-2-vwxyz", ip: "127.0.0.71", owner: owner("ReplicaSet", "bare-2") },
  { name: "report-28", ip: "127.0.0.64", owner: owner("Job", "report"), phase: "Succeeded" },
  { name: "bare", ip: SCRAPED, annotations: { "prometheus.io/scrape": "true", "prometheus.io/path": "/stats" } },
  { name: "on-the-host", ip: "127.0.0.67", hostNetwork: true, labels: { team: "b" } },
  { name: "waiting", ip: "", labels: { team: "c" }, phase: "Pending" },
];

function usageOf({ name }: PodOfTest): string {
  return `container_memory_working_set_bytes{container="app",namespace="default",pod="${name}"} 7\n`;
}

/** Uids by name, as the API server gave them. */
const uids = new Map<string, string>();

async function make({ name, ip, owner: by, labels, annotations, hostNetwork, phase = "Running" }: PodOfTest): Promise<void> {
  const port = { "prometheus.io/port": page.split(":")[1] ?? "" };
  const env = [{ name: "PASSWORD", value: "hunter2" }];
  const made = await kube.admin.post<{ metadata: { uid: string } }>(
    "/api/v1/namespaces/default/pods",
    {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, labels, annotations: { ...annotations, ...port }, ...(by && { ownerReferences: [by] }) },
      spec: { nodeName: "node-1", hostNetwork, containers: [{ name: "app", image: "x", env }] },
    },
    within(),
  );
  uids.set(name, made.metadata.uid);
  const status = { phase, ...(ip !== "" && { podIP: ip, podIPs: [{ ip }] }) };
  await kube.admin.mergePatch(`/api/v1/namespaces/default/pods/${name}/status`, { status }, within());
}

const collectors = (): AskingCollector[] => [asksAgent, asksServer];

/** Attributes that a collector adds to telemetry and logs of a pod; the two collectors may learn of the pod at different times. */
async function addedBy(collector: AskingCollector, { name, ip }: Pick<PodOfTest, "name" | "ip">, run: string): Promise<string[]> {
  const service = `${name}-${run}`;
  const signals = ["logs", "metrics", "traces"] as const;
  const answers = await Promise.all(ip === "" ? [] : signals.map((signal) => collector.send(signal, service, ip)));
  expect(answers.filter((status) => status !== 200)).toEqual([]);
  // Files that begin alike, written in the same millisecond, are one file for the collector.
  collector.write(`default_${name}_${uids.get(name)}`, `line of ${service}`);
  const sent = (resource: Readonly<Record<string, string>>): boolean => resource["service.name"] === service;
  const found = (): string[] => signals.flatMap((signal) => collector.resources(signal, sent));
  await eventually(`${service} is there`, () => ip === "" || found().length >= 3);
  return found();
}

test("one watch of the API server serves all components", async () => {
  expect(watchesOfAgent).toBe(1);
  await eventually("the other has six", async () => (await podWatches(kube.admin)) === watchesAtFirst + watchesOfAgent + 6);
});

test("pods of every kind get the same attributes from agent and API server", async () => {
  const added = (pod: PodOfTest) => Promise.all(collectors().map((collector) => addedBy(collector, pod, "first")));
  for (const [agent, server] of await Promise.all(PODS.map(added))) expect(agent).toEqual(server);
  const ofFiles = (collector: AskingCollector) => collector.resources("logs", (resource) => resource["k8s.container.name"] !== undefined);
  const ofUsage = (collector: AskingCollector) => collector.resources("metrics", (resource) => resource["service.name"] === "cadvisor");
  const scraped = (collector: AskingCollector) =>
    collector.resources("metrics", (resource) => resource["service.name"] === "kubernetes-pods");
  for (const [of, least] of [
    [ofFiles, PODS.length - 1],
    [ofUsage, PODS.length],
    [scraped, 1],
  ] as const) {
    for (const collector of collectors()) await eventually(of.name, () => of(collector).length >= least);
    expect(of(asksAgent)).toEqual(of(asksServer));
  }
  expect(ofFiles(asksAgent).join()).not.toContain("agent-x1");
  expect(ofFiles(asksAgent).join()).toContain('["k8s.deployment.name","web"],');
  expect(ofFiles(asksAgent).join()).toContain('["k8s.pod.label.team","a"]');
  expect(ofUsage(asksAgent).join()).toContain('["k8s.statefulset.name","db"]');
  expect(ofUsage(asksAgent).find((resource) => resource.includes('"web-shop-'))).toContain('["k8s.deployment.name","web-shop"]');
  expect(ofUsage(asksAgent).find((resource) => resource.includes('"bare-2-'))).not.toContain("k8s.deployment.name");
  expect(ofFiles(asksAgent).find((resource) => resource.includes('"db-0"'))).toContain('["k8s.pod.annotation.example.com/owner","ann"]');
  const all = (["logs", "metrics"] as const).flatMap((signal) => asksAgent.resources(signal, () => true)).join();
  expect(all).not.toMatch(/template.hash|label\.other|example\.com\/other/);
  expect(ofUsage(asksAgent).filter((resource) => !resource.includes("k8s.pod.name"))).toHaveLength(1);
});

test("a pod that is created, changes, or reuses another's name and address, soon has its attributes from both", async () => {
  const path = "/api/v1/namespaces/default/pods";
  await kube.admin.delete(`${path}/db-0?gracePeriodSeconds=0`, within());
  const next = { name: "db-0", ip: "127.0.0.62", owner: owner("StatefulSet", "db"), labels: { team: "next" } };
  await make(next);
  await make({ name: "late", ip: "127.0.0.68", owner: owner("DaemonSet", "late"), labels: { team: "late" } });
  await kube.admin.mergePatch(`${path}/web-7d9c5b6f4d-abcde`, { metadata: { labels: { team: "moved" } } }, within());
  const changed = { name: "web-7d9c5b6f4d-abcde", ip: "127.0.0.61" };
  for (const [pod, team] of [
    [next, "next"],
    [{ name: "late", ip: "127.0.0.68" }, "late"],
    [changed, "moved"],
  ] as const) {
    let tries = 0;
    const both = await eventually(`${pod.name} is known`, async () => {
      tries += 1;
      const added = await Promise.all(collectors().map((collector) => addedBy(collector, pod, `${team}-${tries}`)));
      return added.every((resources) => resources.every((resource) => resource.includes(`"k8s.pod.label.team","${team}"`))) && added;
    });
    expect(both[0]).toEqual(both[1]);
  }
});

test("a collector that starts while the API server is unavailable knows the pods, and afterwards one watch is enough again", async () => {
  await kube.stopServer();
  const late = await startAskingCollector(join(folder.path, "late"), { kubeconfig: relay.kubeconfig, page }, stack);
  const pod = { name: "on-the-host", ip: "127.0.0.61" };
  const [before, after] = await Promise.all([asksAgent, late].map((collector) => addedBy(collector, pod, "away")));
  expect(after).toEqual(before);
  expect(after?.join()).toContain('["k8s.pod.label.team","moved"]');
  await kube.startServer();
  // The one that asks the API server has six.
  await eventually("all watch again", async () => (await podWatches(kube.admin)) === watchesAtFirst + 7);
  await make({ name: "after", ip: "127.0.0.69", labels: { team: "after" } });
  let tries = 0;
  await eventually("a pod that came after the outage has its names", async () => {
    const found = await addedBy(late, { name: "after", ip: "127.0.0.69" }, `after-${(tries += 1)}`);
    return found.every((resource) => resource.includes('"k8s.pod.label.team","after"'));
  });
});

test("sends no arguments of containers to the agent's collector", async () => {
  const { username, password, origin } = new URL(relay.url);
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
  const answer = await fetch(`${origin}/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1`, { headers: { authorization } });
  const text = await answer.text();
  expect(text).toContain("on-the-host");
  expect(text).not.toContain("hunter2");
});
