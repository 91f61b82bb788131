// Two agents with the real collector scrape annotated pods, which they find through a real kube-apiserver with the chart's permissions.
// Each pod is scraped only by the agent of its node, and its page cannot pretend to be another pod. There is no kubelet: the pods'
// addresses are those of pages that this test serves.
import { afterAll, beforeAll, expect, test } from "vitest";
import type { SinkPoint } from "../../agent/collector/supervision/sink.fixture.ts";
import { KubeApiServer } from "../fixtures/kube-apiserver.ts";
import { eventually, temporaryFolder } from "../fixtures/processes.ts";
import { ScrapingNode, servePage } from "../fixtures/scraping-node.ts";

const NAMESPACE = "scraping";
const PAGE = `# TYPE orders_total counter
orders_total{k8s_pod_name="another",shop="north"} 7
# TYPE k8s_node_cpu_usage gauge
k8s_node_cpu_usage 1
# TYPE up gauge
up 42
# TYPE target_info gauge
target_info{"k8s.pod.name"="another","k8s.namespace.name"="theirs",k8s_node_name="theirs",team="north"} 1
`;
const within = (): AbortSignal => AbortSignal.timeout(60_000);
const stack = new AsyncDisposableStack();
const folder = stack.use(temporaryFolder());
const nodes: Record<string, ScrapingNode> = {};
/** Requested pages by pod. */
const asked: Record<string, string[]> = { "web-1": [], "web-2": [], quiet: [] };
let kube: KubeApiServer;

beforeAll(async () => {
  kube = stack.use(await KubeApiServer.start(folder.path));
  await kube.installChart(NAMESPACE);
  await pod("web-1", "node-1", "127.0.0.51", { scrape: "true", path: "/stats" });
  await pod("web-2", "node-2", "127.0.0.52", { scrape: "true" }, "shop-frontend");
  await pod("quiet", "node-1", "127.0.0.53", {});
  await Promise.all(["node-1", "node-2"].map((node) => agent(node)));
}, 180_000);
afterAll(() => stack[Symbol.asyncDispose]());

async function pod(
  name: string,
  nodeName: string,
  podIP: string,
  annotations: Record<string, string>,
  replicaSet = "web-7d9c5b6f4d",
): Promise<void> {
  const port = await servePage(stack, podIP, PAGE, (path) => asked[name]?.push(path));
  const all = Object.entries({ ...annotations, port: String(port) }).map(([key, value]) => [`prometheus.io/${key}`, value]);
  const owner = {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    name: replicaSet,
    uid: "0b5a3c1e-0000-4000-8000-00000000000a",
    controller: true,
  };
  const containers = ["app", "sidecar"].map((container, i) => ({ name: container, image: "x", ports: [{ containerPort: 8000 + i }] }));
  const made = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default", annotations: Object.fromEntries(all), ownerReferences: [owner] },
    spec: { nodeName, containers },
  };
  await kube.admin.post("/api/v1/namespaces/default/pods", made, within());
  await kube.admin.mergePatch(
    `/api/v1/namespaces/default/pods/${name}/status`,
    { status: { phase: "Running", podIP, podIPs: [{ ip: podIP }] } },
    within(),
  );
}

async function agent(node: string): Promise<void> {
  const env = { METRICS_INTERVAL: "1s", SCRAPE_PODS: "true" };
  const common = { kube, namespace: NAMESPACE, folder: folder.path };
  nodes[node] = stack.use(await ScrapingNode.start({ ...common, node, env }));
}

const points = (node: string): SinkPoint[] => nodes[node]?.points() ?? [];

test("only the agent of its node scrapes an annotated pod, at the annotated path and port", async () => {
  for (const node of ["node-1", "node-2"]) {
    await eventually(`a pod of ${node} is scraped twice`, () => points(node).filter(({ metric }) => metric === "up").length >= 2, 60_000);
  }
  expect(new Set(asked["web-1"])).toEqual(new Set(["/stats"]));
  expect(new Set(asked["web-2"])).toEqual(new Set(["/metrics"]));
  expect(asked["quiet"]).toEqual([]);
  expect(new Set(points("node-1").map(({ resource }) => resource["k8s.pod.name"]))).toEqual(new Set(["web-1"]));
  expect(new Set(points("node-2").map(({ resource }) => resource["k8s.pod.name"]))).toEqual(new Set(["web-2"]));
});

test("its series have the pod and the workload that the API server knows, whatever its page contains", async () => {
  await eventually("its metric is there", () => points("node-1").some(({ metric }) => metric.startsWith("orders")), 60_000);
  const order = points("node-1").find(({ metric }) => metric.startsWith("orders"));
  expect(order?.resource).toMatchObject({
    "service.name": "kubernetes-pods",
    "k8s.namespace.name": "default",
    "k8s.pod.name": "web-1",
    "k8s.deployment.name": "web",
    "k8s.node.name": "node-1",
    "k8s.cluster.name": "north",
  });
  expect(order?.attributes).toEqual({ "exported.k8s_pod_name": "another", shop: "north" });
  expect(order?.value).toBe(7);
  const claimed = points("node-1").filter(({ metric }) => metric === "k8s_node_cpu_usage");
  expect(claimed.map(({ attributes }) => attributes["atherops.reported_by"])).toContain("application");
  expect(new Set(claimed.map(({ attributes }) => attributes["atherops.reported_by"])).size).toBe(1);
  expect(
    new Set(
      points("node-1")
        .filter(({ metric }) => metric === "up")
        .map(({ value }) => value),
    ),
  ).toEqual(new Set([1]));
});

test("a pod of a ReplicaSet without a Deployment belongs to no Deployment", async () => {
  const order = await eventually("its metric is there", async () =>
    Promise.resolve(points("node-2").find(({ metric }) => metric.startsWith("orders"))),
  );
  expect(order.resource["k8s.pod.name"]).toBe("web-2");
  expect(Object.keys(order.resource).filter((key) => /deployment|replicaset/.test(key))).toEqual([]);
});
