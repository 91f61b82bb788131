// Two agents with the real collector scrape pods that are annotated, or that ServiceMonitors and PodMonitors select. They find them through a
// real kube-apiserver with the chart's permissions. Each pod is scraped only by the agent of its node, and its page cannot pretend to be
// another pod. There is no kubelet: the pods' addresses are those of pages that this test serves.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ALLOCATOR_VARIABLE } from "../../agent/collector/config/collector-config.ts";
import type { SinkPoint } from "../../agent/collector/supervision/sink.fixture.ts";
import { KubernetesApi } from "../../agent/kubernetes/api.ts";
import { Monitors } from "../../agent/monitors/monitors.ts";
import { NodePods } from "../../agent/pods/node-pods.ts";
import { PodRelay } from "../../agent/pods/relay.ts";
import { apiServerOfFile } from "../fixtures/kube-apiserver.ts";
import { eventually } from "../fixtures/processes.ts";
import { ScrapingNode, type ScrapingNodeOptions, servePage } from "../fixtures/scraping-node.ts";

const apiServer = apiServerOfFile();
const within = (): AbortSignal => AbortSignal.timeout(60_000);

/** Creates a running pod in namespace default. */
async function makePod(podIP: string, metadata: { readonly name: string; readonly [field: string]: unknown }, spec: object): Promise<void> {
  const { admin } = apiServer.kube;
  await admin.post("/api/v1/namespaces/default/pods", { apiVersion: "v1", kind: "Pod", metadata, spec }, within());
  const status = { phase: "Running", podIP, podIPs: [{ ip: podIP }] };
  await admin.mergePatch(`/api/v1/namespaces/default/pods/${metadata.name}/status`, { status }, within());
}

async function scrapingNode(options: Omit<ScrapingNodeOptions, "kube" | "folder">): Promise<ScrapingNode> {
  const folder = join(apiServer.folder, options.namespace);
  mkdirSync(folder, { recursive: true });
  return await ScrapingNode.start({ ...options, kube: apiServer.kube, folder });
}

const PAGE = `# TYPE orders_total counter
orders_total{k8s_pod_name="another",shop="north"} 7
# TYPE k8s_node_cpu_usage gauge
k8s_node_cpu_usage 1
# TYPE up gauge
up 42
# TYPE target_info gauge
target_info{"k8s.pod.name"="another","k8s.namespace.name"="theirs",k8s_node_name="theirs",team="north"} 1
`;

describe("annotated pods", () => {
  const NAMESPACE = "scraping";
  const stack = new AsyncDisposableStack();
  const nodes: Record<string, ScrapingNode> = {};
  /** Requested pages by pod. */
  const asked: Record<string, string[]> = { "cart-1": [], "cart-2": [], quiet: [] };

  beforeAll(async () => {
    await apiServer.kube.installChart(NAMESPACE);
    await pod("cart-1", "node-1", "127.0.0.51", { scrape: "true", path: "/stats" });
    await pod("cart-2", "node-2", "127.0.0.52", { scrape: "true" }, "shop-frontend");
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
    const metadata = { name, annotations: Object.fromEntries(all), ownerReferences: [owner] };
    await makePod(podIP, metadata, { nodeName, containers });
  }

  async function agent(node: string): Promise<void> {
    nodes[node] = stack.use(await scrapingNode({ namespace: NAMESPACE, node, env: { METRICS_INTERVAL: "1s", SCRAPE_PODS: "true" } }));
  }

  const points = (node: string): SinkPoint[] => nodes[node]?.points() ?? [];

  test("only the agent of its node scrapes an annotated pod, at the annotated path and port", async () => {
    for (const node of ["node-1", "node-2"]) {
      await eventually(`a pod of ${node} is scraped twice`, () => points(node).filter(({ metric }) => metric === "up").length >= 2, 60_000);
    }
    expect(new Set(asked["cart-1"])).toEqual(new Set(["/stats"]));
    expect(new Set(asked["cart-2"])).toEqual(new Set(["/metrics"]));
    expect(asked["quiet"]).toEqual([]);
    expect(new Set(points("node-1").map(({ resource }) => resource["k8s.pod.name"]))).toEqual(new Set(["cart-1"]));
    expect(new Set(points("node-2").map(({ resource }) => resource["k8s.pod.name"]))).toEqual(new Set(["cart-2"]));
  });

  test("its series have the pod and the workload that the API server knows, whatever its page contains", async () => {
    await eventually("its metric is there", () => points("node-1").some(({ metric }) => metric.startsWith("orders")), 60_000);
    const order = points("node-1").find(({ metric }) => metric.startsWith("orders"));
    expect(order?.resource).toMatchObject({
      "service.name": "kubernetes-pods",
      "k8s.namespace.name": "default",
      "k8s.pod.name": "cart-1",
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
    expect(order.resource["k8s.pod.name"]).toBe("cart-2");
    expect(Object.keys(order.resource).filter((key) => /deployment|replicaset/.test(key))).toEqual([]);
  });
});

describe("pods that a monitor selects", () => {
  const NAMESPACE = "monitoring";
  const GROUP = "monitoring.coreos.com";
  const stack = new AsyncDisposableStack();
  const nodes: Record<string, ScrapingNode> = {};
  /** Requested pages by pod. */
  const asked: Record<string, Set<string>> = {};

  beforeAll(async () => {
    const { kube } = apiServer;
    await kube.installChart(NAMESPACE, ["discovery.prometheusOperator=true"]);
    for (const kind of ["ServiceMonitor", "PodMonitor"]) await define(kind);
    await pod("web-1", "node-1", "127.0.0.61", { app: "web" });
    await pod("web-2", "node-2", "127.0.0.62", { app: "web" });
    await pod("worker-1", "node-1", "127.0.0.63", { app: "worker", "app.kubernetes.io/name": "jobs" });
    await pod("other", "node-1", "127.0.0.64", { app: "other" });
    const ports = [{ name: "metrics", port: 80, targetPort: "http-metrics" }];
    const service = { metadata: { name: "web", labels: { team: "north" } }, spec: { selector: { app: "web" }, ports } };
    await kube.admin.post("/api/v1/namespaces/default/services", { apiVersion: "v1", kind: "Service", ...service }, within());
    const selector = { matchLabels: { team: "north" } };
    const relabelings = [{ sourceLabels: ["__meta_kubernetes_pod_name"], targetLabel: "shop", regex: "(web).*" }];
    const metricRelabelings = [{ sourceLabels: ["__name__"], regex: "noise.*", action: "drop" }];
    await monitor("ServiceMonitor", "web", {
      selector,
      targetLabels: ["team"],
      endpoints: [{ port: "metrics", path: "/stats", interval: "1s", relabelings, metricRelabelings }],
    });
    await monitor("ServiceMonitor", "secret", {
      selector,
      endpoints: [{ port: "metrics", path: "/secret", bearerTokenFile: "/etc/passwd" }],
    });
    await monitor("PodMonitor", "workers", {
      selector: { matchLabels: { app: "worker" } },
      jobLabel: "app.kubernetes.io/name",
      podMetricsEndpoints: [{ port: "http-metrics", interval: "1s" }],
    });
    await Promise.all(["node-1", "node-2"].map((node) => agent(node)));
  }, 240_000);
  afterAll(() => stack[Symbol.asyncDispose]());

  async function define(kind: string): Promise<void> {
    const plural = `${kind.toLowerCase()}s`;
    const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
    const spec = {
      group: GROUP,
      scope: "Namespaced",
      names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
      versions: [{ name: "v1", served: true, storage: true, schema }],
    };
    const definition = {
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name: `${plural}.${GROUP}` },
      spec,
    };
    const { kube } = apiServer;
    await kube.admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition, within());
    await eventually(`${kind} is served`, () => kube.admin.get(`/apis/${GROUP}/v1/${plural}`, within()), 60_000);
  }

  async function monitor(kind: string, name: string, spec: object): Promise<void> {
    const path = `/apis/${GROUP}/v1/namespaces/default/${kind.toLowerCase()}s`;
    await apiServer.kube.admin.post(path, { apiVersion: `${GROUP}/v1`, kind, metadata: { name }, spec }, within());
  }

  async function pod(name: string, nodeName: string, podIP: string, labels: Record<string, string>): Promise<void> {
    const paths = new Set<string>();
    asked[name] = paths;
    const page = '# TYPE orders gauge\norders{namespace="claimed"} 7\n# TYPE noise gauge\nnoise 1\n';
    const containerPort = await servePage(stack, podIP, page, (path) => paths.add(path));
    const ports = [{ name: "http-metrics", containerPort }];
    const spec = {
      nodeName,
      containers: [
        { name: "app", image: "x", ports },
        { name: "sidecar", image: "x", ports: [{ containerPort: 1 }] },
      ],
    };
    await makePod(podIP, { name, labels }, spec);
  }

  async function agent(node: string): Promise<void> {
    const api = stack.use(new KubernetesApi(await apiServer.kube.agentAccess(NAMESPACE)));
    const log = pino({ level: "silent" });
    const pods = stack.use(new NodePods({ api, nodeName: node, keptFields: { labels: "all", annotations: [] }, log }));
    pods.start();
    const monitors = stack.use(new Monitors({ api, pods, intervalMs: 30_000, acrossNamespaces: [], log }));
    await eventually("both monitors are known", () => monitors.jobs().size === 2, 60_000);
    expect(Object.values(monitors.status().refused)).toEqual(["bearerTokenFile is not supported"]);
    const relay = stack.use(await PodRelay.start({ pods, nodeName: node, monitors }));
    const [env, collectorEnv] = [{ PROMETHEUS_OPERATOR: "true" }, { [ALLOCATOR_VARIABLE]: relay.url }];
    nodes[node] = stack.use(await scrapingNode({ namespace: NAMESPACE, node, env, collectorEnv }));
  }

  /** Resource and labels of each point of the metric. */
  function points(node: string, metric: string): Record<string, string>[] {
    const found = nodes[node]?.points().filter((point) => point.metric === metric) ?? [];
    return found.map(({ resource, attributes }) => ({ ...resource, ...attributes }));
  }

  const pods = (node: string): string[] => [...new Set(points(node, "orders").map((point) => point["k8s.pod.name"] ?? ""))].sort();

  test("only the agent of its node scrapes a pod that a monitor selects, once, at the monitor's path", async () => {
    await eventually("all pods are scraped", () => pods("node-1").length === 2 && pods("node-2").length === 1, 60_000);
    expect(pods("node-1")).toEqual(["web-1", "worker-1"]);
    expect(pods("node-2")).toEqual(["web-2"]);
    expect(Object.fromEntries(Object.entries(asked).map(([name, pages]) => [name, [...pages]]))).toEqual({
      "web-1": ["/stats"],
      "web-2": ["/stats"],
      "worker-1": ["/metrics"],
      other: [],
    });
  });

  test("series have the operator's labels and the result of relabelings", async () => {
    await eventually("all pods are scraped", () => pods("node-1").length === 2, 60_000);
    const of = (name: string): Record<string, string> | undefined =>
      points("node-1", "orders").find((point) => point["k8s.pod.name"] === name);
    expect(of("web-1")).toMatchObject({
      "service.name": "web",
      "k8s.namespace.name": "default",
      "k8s.node.name": "node-1",
      namespace: "default",
      exported_namespace: "claimed",
      pod: "web-1",
      container: "app",
      service: "web",
      endpoint: "metrics",
      team: "north",
      shop: "web",
    });
    expect(of("worker-1")).toMatchObject({ "service.name": "jobs", pod: "worker-1", endpoint: "http-metrics" });
    expect(points("node-1", "noise").filter((point) => point["k8s.pod.name"] === "web-1")).toEqual([]);
  });

  test(
    "stops and resumes scraping of a Service whose label changes, without a restart of the collector",
    { timeout: 240_000 },
    async () => {
      await eventually("all pods are scraped", () => pods("node-1").length === 2, 60_000);
      const label = (team: string): Promise<unknown> =>
        apiServer.kube.admin.mergePatch("/api/v1/namespaces/default/services/web", { metadata: { labels: { team } } }, within());
      /** Between two scrapes of another pod. */
      const isScraped = async (): Promise<boolean> => {
        asked["web-1"]?.clear();
        for (const pass of ["a", "another"]) {
          asked["worker-1"]?.clear();
          await eventually(`${pass} scrape of worker-1`, () => asked["worker-1"]?.size === 1, 60_000);
        }
        return asked["web-1"]?.size === 1;
      };
      await label("south");
      await eventually("it is not scraped", async () => !(await isScraped()), 90_000);
      await label("north");
      await expect(eventually("it is scraped again", isScraped, 90_000)).resolves.toBe(true);
    },
  );
});
