// GET /query/kubernetes over a real VictoriaMetrics: states, restarts, shares, owners and groups of a small cluster, and 5,000 pods.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { ResponseBudget } from "../../http/response-budget.ts";
import { closeRoutes, createApp } from "../../http/app.ts";
import { createLog } from "../../log.ts";
import { VictoriaMetricsStore } from "../../storage/metrics/metric-store.ts";
import { startTestEngine, type TestEngine } from "../../../test/fixtures/metrics-engine.ts";
import { registerKubernetesRoute } from "./kubernetes-route.ts";

const HOUR_MS = 3_600_000;
const MIB = 1024 ** 2;
let engine: TestEngine;
let metrics: VictoriaMetricsStore;
let app: Awaited<ReturnType<typeof createApp>>;
let nowMs: number;

interface Pod {
  readonly name: string;
  readonly owner?: readonly [kind: string, name: string];
  readonly node?: string;
  readonly phase?: number;
  readonly containers?: readonly (readonly [name: string, ready: number])[];
  readonly reason?: string;
  readonly podReason?: number;
  readonly restarts?: number;
  readonly restartsBefore?: number;
  /** It did not exist an hour ago. */
  readonly isYoung?: boolean;
  readonly lastReason?: string;
  readonly cpu?: number;
  readonly memoryMib?: number;
}

const lineOf = (name: string, labels: Record<string, string>, value: number): string =>
  `${name}{${Object.entries(labels)
    .map(([key, text]) => `${key}="${text}"`)
    .join(",")}} ${value}`;

function linesOf(pod: Pod, { cluster = "north", namespace = "shop", isBefore = false } = {}): string[] {
  const { name, owner, node = "worker-1", phase = 2, containers = [["app", 1]], cpu, memoryMib } = pod;
  const on = { k8s_cluster_name: cluster, k8s_namespace_name: namespace, k8s_pod_name: name };
  const scheduled = node === "" ? on : { ...on, k8s_node_name: node };
  return [
    lineOf("k8s_pod_phase", scheduled, phase),
    lineOf("k8s_pod_status_reason", scheduled, pod.podReason ?? 6),
    ...containers.flatMap(([container, ready]) => {
      const labels = { ...scheduled, k8s_container_name: container };
      const lastReason: Record<string, string> =
        pod.lastReason === undefined ? {} : { k8s_container_status_last_terminated_reason: pod.lastReason };
      return [
        lineOf("k8s_container_ready", labels, ready),
        lineOf("k8s_container_restarts", { ...labels, ...lastReason }, (isBefore ? pod.restartsBefore : pod.restarts) ?? 0),
        lineOf("k8s_container_cpu_request", labels, 0.5),
        lineOf("k8s_container_memory_limit_bytes", labels, 256 * MIB),
        ...(memoryMib === undefined ? [] : [lineOf("container_memory_working_set_bytes", labels, memoryMib * MIB)]),
        ...(ready === 1 || pod.reason === undefined
          ? []
          : [lineOf("k8s_container_status_reason", { ...labels, k8s_container_status_reason: pod.reason }, 1)]),
      ];
    }),
    ...(cpu === undefined ? [] : [lineOf("k8s_pod_cpu_usage", scheduled, cpu)]),
    ...(memoryMib === undefined
      ? []
      : [
          lineOf(
            "k8s_pod_memory_working_set_bytes",
            { ...scheduled, ...(owner && { [`k8s_${owner[0]}_name`]: owner[1] }) },
            memoryMib * MIB,
          ),
        ]),
  ];
}

const CRASHING: Pod = {
  name: "catalog-7f9c4d5b6-x2k7q",
  containers: [
    ["app", 0],
    ["proxy", 1],
  ],
  reason: "CrashLoopBackOff",
  restarts: 6,
  restartsBefore: 1,
  lastReason: "OOMKilled",
  cpu: 0.38,
  memoryMib: 254,
};
const SHOP: readonly Pod[] = [
  { name: "cart-6d4cf7b8d-m9wzt", owner: ["deployment", "cart"], cpu: 0.355, memoryMib: 128 },
  {
    name: "cart-6d4cf7b8d-q4xkl",
    owner: ["deployment", "cart"],
    node: "worker-2",
    restarts: 2,
    restartsBefore: 1,
    cpu: 0.1,
    memoryMib: 100,
  },
  CRASHING,
  { name: "stock-5b77d9c4f-zzzzz", node: "", phase: 1, containers: [] },
  { name: "queue-0", owner: ["statefulset", "queue"], containers: [["app", 0]], memoryMib: 10, cpu: 0.1 },
  { name: "report-29-x2k7q", owner: ["job", "report-29"], phase: 3, containers: [["app", 0]], reason: "Completed" },
  { name: "young-5b77d9c4f-x2k7q", node: "worker-2", isYoung: true, restarts: 1 },
  { name: "old-5b77d9c4f-pqrst", phase: 4, podReason: 1, containers: [] },
];
const CLUSTER = { k8s_cluster_name: "north" };
const WORKLOADS = (
  [
    ["cart", 2, 2],
    ["catalog", 1, 0],
    ["stock", 2, 1],
  ] as const
).flatMap(([name, desired, available]) => {
  const on = { ...CLUSTER, k8s_namespace_name: "shop", k8s_deployment_name: name };
  return [lineOf("k8s_deployment_desired", on, desired), lineOf("k8s_deployment_available", on, available)];
});
const NODES = (["worker-1", "worker-2", "worker-3"] as const).flatMap((name, at) => {
  const on = { ...CLUSTER, k8s_node_name: name };
  return [
    lineOf("k8s_node_condition_ready", on, at === 2 ? 0 : 1),
    lineOf("k8s_node_condition_disk_pressure", on, at === 1 ? 1 : 0),
    lineOf("k8s_node_cpu_usage", on, 1),
    lineOf("machine_cpu_cores", on, 4),
    lineOf("k8s_node_memory_working_set_bytes", on, 3000),
    lineOf("k8s_node_memory_available_bytes", on, 1000),
    lineOf("system_filesystem_usage_bytes", { ...on, mountpoint: "/", state: "used" }, 90),
    lineOf("system_filesystem_usage_bytes", { ...on, mountpoint: "/", state: "free" }, 10),
  ];
});

beforeAll(async () => {
  engine = await startTestEngine();
  metrics = new VictoriaMetricsStore({ ...engine });
  nowMs = Date.now();
  const send = async (orgId: string, lines: readonly string[], atMs: number): Promise<void> =>
    await metrics.write({ orgId, hostId: "h", node: "n" }, Buffer.from(lines.map((line) => `${line}\n`).join("")), atMs);
  await send(
    "acme",
    SHOP.filter(({ isYoung }) => !isYoung).flatMap((pod) => linesOf(pod, { isBefore: true })),
    nowMs - HOUR_MS - 30_000,
  );
  await send("acme", [...SHOP.flatMap((pod) => linesOf(pod)), ...WORKLOADS, ...NODES], nowMs - 5000);
  await send("acme", linesOf({ name: "cart-6d4cf7b8d-m9wzt", memoryMib: 1 }, { cluster: "south" }), nowMs - 5000);
  const many = Array.from({ length: 5000 }, (_, at): Pod => ({ ...(at === 4321 ? CRASHING : SHOP[0]), name: `pod-${at}` }));
  for (let from = 0; from < many.length; from += 1000)
    await send(
      "large",
      many.slice(from, from + 1000).flatMap((pod) => linesOf(pod)),
      nowMs - 5000,
    );
  await engine.flush();
  app = await createApp({ log: createLog("silent") });
  registerKubernetesRoute(app, {
    metrics,
    answers: new ResponseBudget(),
    guards: {
      reader: () => async (request) => {
        request.user = { userId: "u", orgId: String(request.headers["x-org"]), email: "e", role: "viewer", labelLimits: undefined };
      },
    },
  });
  await closeRoutes(app);
}, 60_000);
afterAll(async () => {
  await app?.close();
  await metrics?.[Symbol.asyncDispose]();
  await engine?.[Symbol.asyncDispose]();
});

interface Answer {
  readonly objects: Record<string, unknown>[];
  readonly total: number;
  readonly health: Record<string, number>;
  readonly truncated: boolean;
}

async function ask(parameters: Record<string, string>, orgId = "acme"): Promise<Answer> {
  const answer = await app.inject({
    method: "GET",
    url: `/query/kubernetes?${new URLSearchParams(parameters).toString()}`,
    headers: { "x-org": orgId },
  });
  if (answer.statusCode !== 200) throw new Error(answer.body);
  return answer.json<Answer>();
}

describe("pods", () => {
  test("are listed with state, restarts, last reason and shares, unhealthy ones first", async () => {
    const { objects, health, total, truncated } = await ask({ cluster: "north" });
    expect(objects.map(({ name, state, health: of }) => [name, state, of])).toEqual([
      ["catalog-7f9c4d5b6-x2k7q", "CrashLoopBackOff", "bad"],
      ["old-5b77d9c4f-pqrst", "Evicted", "bad"],
      ["cart-6d4cf7b8d-q4xkl", "Running", "warning"],
      ["young-5b77d9c4f-x2k7q", "Running", "warning"],
      ["queue-0", "NotReady", "warning"],
      ["stock-5b77d9c4f-zzzzz", "Pending", "warning"],
      ["cart-6d4cf7b8d-m9wzt", "Running", "ok"],
      ["report-29-x2k7q", "Completed", "ok"],
    ]);
    expect([total, truncated, health]).toEqual([8, false, { bad: 2, warning: 4, ok: 2 }]);
    expect(objects[0]).toMatchObject({
      cluster: "north",
      namespace: "shop",
      node: "worker-1",
      owner: { kind: "deployment", name: "catalog" },
      containers: 2,
      ready: 1,
      restarts: 12,
      recent_restarts: 10,
      last_reason: "OOMKilled",
      last_run: { container: "app", restart_count: 6 },
      cpu: 0.38,
      cpu_request: 1,
      memory_limit: 512 * MIB,
      memory_share: expect.closeTo(254 / 256, 5),
    });
    expect(objects.at(-2)).toMatchObject({ cpu: 0.355, cpu_request: 0.5, restarts: 0, recent_restarts: 0 });
    expect(objects.at(-2)).not.toHaveProperty("containers");
  });

  test("that were never scheduled belong to the workload that their name shows, if the cluster has it", async () => {
    const { objects } = await ask({ workload: "stock", cluster: "north", namespace: "shop" });
    expect(objects.map(({ name, owner, node }) => [name, owner, node])).toEqual([
      ["stock-5b77d9c4f-zzzzz", { kind: "deployment", name: "stock" }, undefined],
    ]);
  });

  test("are those of one node, workload or cluster", async () => {
    expect((await ask({ node: "worker-2" })).objects.map(({ name }) => name)).toEqual(["cart-6d4cf7b8d-q4xkl", "young-5b77d9c4f-x2k7q"]);
    expect((await ask({ workload: "queue", workload_kind: "statefulset" })).objects.map(({ name }) => name)).toEqual(["queue-0"]);
    expect((await ask({ cluster: "south" })).total).toBe(1);
    expect((await ask({ name: "queue-0" })).objects.map(({ name }) => name)).toEqual(["queue-0"]);
    expect((await ask({ namespace: 'shop"} or vector(1) #' })).total).toBe(0);
  });

  test("of 5,000 are read with one query, and the unhealthy one is first", async () => {
    const query = vi.spyOn(metrics, "query");
    const { objects, total, truncated } = await ask({ limit: "10" }, "large");
    expect([query.mock.calls.length, total, truncated, objects.length]).toEqual([1, 5000, true, 10]);
    expect(objects[0]).toMatchObject({ name: "pod-4321", state: "CrashLoopBackOff" });
    query.mockRestore();
  });
});

describe("groups", () => {
  test("of workloads have their replicas, and the health of their pods", async () => {
    const { objects } = await ask({ kind: "workload", cluster: "north" });
    expect(objects.map(({ workload, name, state, health, pods }) => [workload, name, state, health, pods])).toEqual([
      ["deployment", "catalog", "0 of 1 ready", "bad", 1],
      ["deployment", "cart", "2 of 2 ready", "warning", 2],
      ["statefulset", "queue", "1 of 1 pods unhealthy", "warning", 1],
      ["deployment", "stock", "1 of 2 ready", "warning", 1],
    ]);
  });

  test("of nodes have conditions and shares of their capacity", async () => {
    const { objects } = await ask({ kind: "node", cluster: "north" });
    expect(objects.map(({ name, state, health }) => [name, state, health])).toEqual([
      ["worker-2", "DiskPressure", "bad"],
      ["worker-3", "NotReady", "bad"],
      ["worker-1", "3 of 5 pods unhealthy", "warning"],
    ]);
    expect(objects[2]).toMatchObject({ cpu_share: 0.25, memory_share: 0.75, disk_share: 0.9, cores: 4, cpu_request: expect.any(Number) });
  });

  test("of clusters and namespaces count their pods and nodes", async () => {
    expect((await ask({ kind: "cluster" })).objects).toMatchObject([
      { name: "north", state: "nodes not ready", nodes: 3, pods: 8, unhealthy_pods: 6 },
      { name: "south", state: "Healthy", pods: 1, unhealthy_pods: 0 },
    ]);
    expect((await ask({ kind: "namespace", cluster: "north" })).objects).toMatchObject([
      { name: "shop", cluster: "north", state: "6 of 8 pods unhealthy", health: "warning", restarts: expect.any(Number) },
    ]);
  });
});

test("another organisation sees nothing", async () => {
  expect(await ask({}, "globex")).toEqual({ objects: [], total: 0, health: { bad: 0, warning: 0, ok: 0 }, truncated: false });
});
