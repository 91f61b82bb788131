// Collection for a whole cluster by two agents with the real collector and a real kube-apiserver, with the chart's permissions: state and
// events arrive, one agent at a time collects them, and the other continues if this agent loses the API server.
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ClusterCollector, COLLECTION_LEASE, STOP_GRACE_MS } from "../../agent/collector/cluster-collector.ts";
import { EVENTS_FROM_VARIABLE } from "../../agent/collector/config/collector-config.ts";
import { EventsCheckpoint } from "../../agent/collector/events-checkpoint.ts";
import { Sink, type SinkPoint } from "../../agent/collector/supervision/sink.fixture.ts";
import { Supervisor } from "../../agent/collector/supervision/supervisor.ts";
import { collectionLease, Lease } from "../../agent/identity/lease.ts";
import { clusterPermissions, missingPermissions } from "../../agent/identity/permissions.ts";
import { KubernetesApi } from "../../agent/kubernetes/api.ts";
import { toolPath } from "../../hack/fetch-tools.ts";
import { collectionOf } from "../fixtures/collecting-agents.ts";
import { KubeApiServer } from "../fixtures/kube-apiserver.ts";
import { eventually, temporaryFolder } from "../fixtures/processes.ts";

const NAMESPACE = "collection";
const LEASE = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/cluster-agent-collection`;
const PLACE = "atherops.io/events-delivered";
const within = (): AbortSignal => AbortSignal.timeout(60_000);
const folder = temporaryFolder();
let kube: KubeApiServer;
let sink: Sink;

beforeAll(async () => {
  sink = await Sink.start();
  kube = await KubeApiServer.start(folder.path);
  await kube.installChart(NAMESPACE);
});
afterAll(async () => {
  await kube[Symbol.asyncDispose]();
  await sink[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

interface Agent extends AsyncDisposable {
  readonly collector: ClusterCollector;
  /** Makes its requests to the API server fail from now on. */
  cutOff(): void;
}

class CuttableApi extends KubernetesApi {
  isCut = false;
  override async readLease(...args: Parameters<KubernetesApi["readLease"]>): ReturnType<KubernetesApi["readLease"]> {
    this.#goOrThrow();
    return super.readLease(...args);
  }
  override async replaceLease(...args: Parameters<KubernetesApi["replaceLease"]>): ReturnType<KubernetesApi["replaceLease"]> {
    this.#goOrThrow();
    return super.replaceLease(...args);
  }
  #goOrThrow(): void {
    if (this.isCut) throw new Error("no route to host");
  }
}

async function agent(name: string): Promise<Agent> {
  const access = await kube.agentAccess(NAMESPACE);
  const api = new CuttableApi(access);
  const stateDir = join(folder.path, name);
  const place = { name, namespace: NAMESPACE, kubernetes: access, stateDir, port: sink.port, env: { METRICS_INTERVAL: "1s" } };
  const { config, env } = collectionOf(place);
  const log = pino({ level: "warn" });
  const program = await toolPath("otelcol-contrib");
  const lease = new Lease(api, {
    namespace: NAMESPACE,
    name: collectionLease("cluster-agent"),
    identity: name,
    timing: COLLECTION_LEASE,
    log,
  });
  const events = new EventsCheckpoint(api);
  const variables = {
    ...env,
    get [EVENTS_FROM_VARIABLE]() {
      return events.version;
    },
  };
  const supervisor = (): Supervisor =>
    new Supervisor({ program, stateDir, memoryMib: 200, stopGraceMs: STOP_GRACE_MS, env: variables, log });
  const collector = new ClusterCollector({ lease, name, supervisor, config, events, log });
  const dispose = async (): Promise<void> => {
    await collector[Symbol.asyncDispose]();
    await api[Symbol.asyncDispose]();
  };
  return { collector, cutOff: () => void (api.isCut = true), [Symbol.asyncDispose]: dispose };
}

async function untilRunning({ collector }: Agent): Promise<void> {
  await eventually("its collector runs", () => collector.status().collector?.state === "running", 120_000);
}

async function say(name: string, more: object = {}): Promise<void> {
  const now = new Date().toISOString();
  const event = {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name, namespace: "default" },
    involvedObject: { kind: "Pod", namespace: "default", name: "checkout-1", uid: "0b5a3c1e-0000-4000-8000-000000000001" },
    reason: "FailedScheduling",
    message: `${name}: 0/3 nodes are available`,
    type: "Warning",
    source: { component: "default-scheduler" },
    firstTimestamp: now.replace(/\.\d+/, ""),
    lastTimestamp: now.replace(/\.\d+/, ""),
    count: 1,
    ...more,
  };
  await kube.admin.post("/api/v1/namespaces/default/events", event, within());
}

/** A collector says that it runs before it watches; what it does not see yet is said again, under another name. */
async function sayUntilSeen(name: string): Promise<string> {
  for (let i = 0; ; i++) {
    await say(`${name}-${i}`);
    const arrives = eventually("it is seen", () => arrivals(`${name}-${i}`) > 0, 10_000);
    if (
      await arrives.then(
        () => true,
        () => false,
      )
    )
      return `${name}-${i}`;
  }
}

function arrivals(name: string): number {
  return sink.lines.filter((line) => line.startsWith(`${name}: `)).length;
}

test("the chart grants the needed permissions", async () => {
  await using api = new KubernetesApi(await kube.agentAccess(NAMESPACE));
  const wanted = clusterPermissions({ podNamespace: NAMESPACE, leaseName: "cluster-agent", clusterState: true, kubernetesEvents: true });
  expect(wanted.length).toBeGreaterThan(20);
  expect(await missingPermissions(api, wanted, within())).toEqual([]);
});

test("one agent collects state and events; if it loses the API server it stops, and another continues", { timeout: 300_000 }, async () => {
  const deployment = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "checkout" },
    spec: {
      replicas: 3,
      selector: { matchLabels: { app: "checkout" } },
      template: { metadata: { labels: { app: "checkout" } }, spec: { containers: [{ name: "server", image: "example.com/checkout" }] } },
    },
  };
  await kube.admin.post("/apis/apps/v1/namespaces/default/deployments", deployment, within());
  await say("before");
  // So long ago that the API server does not remember: the first one begins with what happens from now on.
  await kube.admin.mergePatch(LEASE, { metadata: { annotations: { [PLACE]: "1" } } }, within());
  await kube.forgetChanges();
  await using first = await agent("first");
  await untilRunning(first);
  await using second = await agent("second");
  const seen = await sayUntilSeen("with-the-first");
  await eventually("the deployment's state is there", desired, 120_000);
  expect(desired()).toMatchObject({ resource: { "k8s.cluster.name": "north", "k8s.namespace.name": "default" }, value: 3 });
  // The node of an agent is none of the deployment's.
  expect(desired()?.resource).not.toHaveProperty("k8s.node.name");
  const record = sink.records.find(({ body }) => body.startsWith(`${seen}: `));
  expect(record).toMatchObject({
    body: `${seen}: 0/3 nodes are available`,
    severityText: "WARN",
    resource: { "service.name": "kubernetes-events", "k8s.namespace.name": "default", "k8s.cluster.name": "north" },
    attributes: {
      "k8s.event.reason": "FailedScheduling",
      "k8s.event.component": "default-scheduler",
      "k8s.object.kind": "Pod",
      "k8s.pod.name": "checkout-1",
    },
  });
  expect(Date.now() - Number(record?.timeUnixNano) / 1e6).toBeLessThan(60_000);
  expect([first.collector.status().leads, second.collector.status().leads]).toEqual([true, false]);

  const isPassedOn = async (): Promise<boolean> =>
    Number((await kube.admin.get<{ metadata: { annotations: Record<string, string> } }>(LEASE, within())).metadata.annotations[PLACE]) > 1;
  await eventually("how far the first one came is passed on", isPassedOn, 60_000);
  const pid = first.collector.status().collector?.pid ?? 0;
  first.cutOff();
  await eventually("the first one has stopped", () => !first.collector.status().leads, 60_000);
  await say("in-between");
  await eventually("another agent leads", () => second.collector.status().leads, 60_000);
  expect(first.collector.status().leads).toBe(false);
  expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  await untilRunning(second);
  const later = await sayUntilSeen("with-the-second");
  await eventually("what happened in between arrives", () => arrivals("in-between") > 0);
  // What no agent saw happen is read by the second one, and what both have read is the same bytes, which are stored once.
  expect([arrivals("before"), arrivals(seen), arrivals("in-between"), arrivals(later)]).toEqual([0, 1, 1, 1]);
});

const desired = (): SinkPoint | undefined =>
  sink.points.find(({ metric, resource }) => metric === "k8s.deployment.desired" && resource["k8s.deployment.name"] === "checkout");
