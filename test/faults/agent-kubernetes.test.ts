// The cluster agent's collector and the Kubernetes API: what it accepts while the API is unavailable, whose logs it reads when the API is
// available, and what an application can make the agent believe about itself. Real collector; a stand-in serves the two calls of the API
// and can be switched off. It is one file, because all tests share this stand-in and agent.
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startPods } from "../../agent/commands/start-parts.ts";
import { EffectiveConfig } from "../../agent/collector/effective-config.ts";
import { knownPods } from "../../agent/collector/known-pods.ts";
import { canMount } from "../../agent/collector/supervision/small-disk.fixture.ts";
import { Sink } from "../../agent/collector/supervision/sink.fixture.ts";
import { Supervisor } from "../../agent/collector/supervision/supervisor.ts";
import { KubernetesApi } from "../../agent/kubernetes/api.ts";
import { readSettings } from "../../agent/settings.ts";
import { toolPath } from "../../hack/fetch-tools.ts";
import { Kubelet } from "../fixtures/kubelet.ts";
import { PodsApi, type PodOfTest } from "../fixtures/pods-api.ts";
import { eventually, freePorts, temporaryFolder } from "../fixtures/processes.ts";

const HASH = "0b5a3c1e4f5a6b7c8d9e0f1a2b3c4d5e";
const SENDER = "127.0.0.41";
const PODS: PodOfTest[] = [
  { namespace: "shop", name: "web-1", uid: "0b5a3c1e-0000-4000-8000-000000000001", ip: SENDER },
  { namespace: "payments-prod", name: "db-0", uid: "0b5a3c1e-0000-4000-8000-000000000002", ip: "127.0.0.42" },
  { namespace: "shop", name: "quiet-1", uid: "0b5a3c1e-0000-4000-8000-000000000003", annotations: { "atherops.io/logs": "false" } },
  {
    namespace: "kube-system",
    name: "etcd-node-1",
    uid: "0b5a3c1e-0000-4000-8000-000000000004",
    hostNetwork: true,
    annotations: { "atherops.io/logs": "false", "kubernetes.io/config.mirror": HASH },
  },
  { namespace: "kube-system", name: "proxy-node-1", uid: "0b5a3c1e-0000-4000-8000-000000000005", hostNetwork: true },
];

let folder: ReturnType<typeof temporaryFolder>;
let sink: Sink;
let api: PodsApi;
let otlpPort: number;
let stack: AsyncDisposableStack;
let supervisor: Supervisor;
let configuration: EffectiveConfig;
let said: { msg: string; level: number; component?: string; "otelcol.component.id"?: string }[];

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  folder = stack.use(temporaryFolder());
  sink = stack.use(await Sink.start());
  api = await PodsApi.start(folder.path, PODS);
  stack.defer(() => api[Symbol.asyncDispose]());
  writeFileSync(join(folder.path, "token"), "t");
  said = [];
});
afterEach(() => stack[Symbol.asyncDispose]());

/** Wraps the collector so that it has a service account at the kubelet's path, the only one that kubeletstats reads. */
function withServiceAccount(program: string): string {
  const wrapper = join(folder.path, "otelcol-in-pod");
  const account = "/run/secrets/kubernetes.io/serviceaccount";
  const setUp = `mount -t tmpfs none /run && mkdir -p ${account} && cp ${folder.path}/token ${folder.path}/ca.crt ${account}`;
  writeFileSync(
    wrapper,
    `#!/bin/sh\nexport PATH=/usr/sbin:/usr/bin:/sbin:/bin\nexec unshare --mount sh -c '${setUp} && exec "$@"' sh ${program} "$@"\n`,
    { mode: 0o755 },
  );
  return wrapper;
}

/** With `usesRelay`, the collector gets pods from the agent, otherwise from the API server. */
async function start(env: NodeJS.ProcessEnv = {}, inPod = (program: string): string => program, usesRelay = false): Promise<void> {
  const [grpc, http] = await freePorts(2);
  otlpPort = http ?? 0;
  const signals = env["SIGNALS"] ?? "logs";
  const overlay = {
    ...(!usesRelay && {
      processors: { k8s_attributes: { auth_type: "none" }, ...(signals === "logs" && { "k8s_attributes/files": { auth_type: "none" } }) },
    }),
    receivers: {
      ...(signals === "logs" && { "file_log/pods": { include: [`${folder.path}/pods/*/*/*.log`] } }),
      ...(signals === "metrics" &&
        env["KUBELET_TLS"] === undefined && { hostmetrics: null, kubeletstats: null, "prometheus/cadvisor": null }),
    },
  };
  writeFileSync(join(folder.path, "overlay.json"), JSON.stringify(overlay));
  const { settings } = readSettings("cluster", {
    BACKEND_URL: sink.url,
    CLUSTER_NAME: "north",
    NODE_NAME: "node-1",
    NODE_IP: "127.0.0.1",
    POD_NAMESPACE: "telemetry",
    POD_UID: "8a4f",
    KUBERNETES_SERVICE_HOST: "127.0.0.1",
    KUBERNETES_SERVICE_PORT: String(api.port),
    STATE_DIR: join(folder.path, "state"),
    COLLECTOR_CONFIG_FILE: join(folder.path, "overlay.json"),
    PROXY_LISTEN: `127.0.0.1:${sink.port}`,
    OTLP_GRPC_LISTEN: `127.0.0.1:${grpc}`,
    OTLP_HTTP_LISTEN: `:${http}`,
    ...(usesRelay && { SERVICE_ACCOUNT_DIR: folder.path }),
    ...env,
    SIGNALS: signals,
  });
  const log = pino({ level: "debug" }, { write: (line) => void said.push(JSON.parse(line) as (typeof said)[number]) });
  mkdirSync(settings.stateDir);
  const started = usesRelay ? await startPods(settings, log, stack) : undefined;
  supervisor = new Supervisor({
    program: inPod(await toolPath("otelcol-contrib")),
    stateDir: settings.stateDir,
    memoryMib: 200,
    stopGraceMs: 10_000,
    env: { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: String(api.port), ...started?.env },
    log,
  });
  stack.use(supervisor);
  const access = { server: `https://127.0.0.1:${api.port}`, caFile: join(folder.path, "ca.crt"), tokenFile: join(folder.path, "token") };
  const kubernetes = stack.use(new KubernetesApi(access));
  const pods = started?.known ?? knownPods(kubernetes, "node-1");
  const { policies } = started ?? {};
  configuration = stack.use(
    new EffectiveConfig({ settings, supervisor, adjustment: {}, log, knownPods: pods, policies, checkEveryMs: 300 }),
  );
  await configuration.start();
}

const running = () => eventually("the collector runs", () => supervisor.status().state === "running");

/** Writes a line of a pod's container like containerd. */
function write(pod: string, line: string): void {
  mkdirSync(join(folder.path, "pods", pod, "app"), { recursive: true });
  appendFileSync(join(folder.path, "pods", pod, "app", "0.log"), `${new Date().toISOString()} stdout F ${line}\n`);
}

function writeOfAll(line: string): void {
  write("shop_web-1_0b5a3c1e-0000-4000-8000-000000000001", `web ${line}`);
  write("shop_quiet-1_0b5a3c1e-0000-4000-8000-000000000003", `quiet ${line}`);
  write(`kube-system_etcd-node-1_${HASH}`, `etcd ${line}`);
  write(`kube-system_proxy-node-1_1b5a3c1e4f5a6b7c8d9e0f1a2b3c4d5e`, `proxy ${line}`);
}

/** Sends from the address of a pod; returns the status. */
function send(path: string, body: object, localAddress = SENDER): Promise<number> {
  return new Promise((done, failed) => {
    const options = {
      host: "127.0.0.1",
      port: otlpPort,
      path,
      method: "POST",
      localAddress,
      headers: { "content-type": "application/json" },
    };
    const sent = request(options, (answer) => void answer.resume().on("end", () => done(answer.statusCode ?? 0)));
    sent.on("error", failed).end(JSON.stringify(body));
  });
}

const attributes = (of: Record<string, string>) => Object.entries(of).map(([key, stringValue]) => ({ key, value: { stringValue } }));

function logBody(text: string, resource: Record<string, string>, record: Record<string, string> = {}): object {
  const logRecords = [{ timeUnixNano: `${Date.now()}000000`, body: { stringValue: text }, attributes: attributes(record) }];
  return { resourceLogs: [{ resource: { attributes: attributes(resource) }, scopeLogs: [{ logRecords }] }] };
}

const arrived = (text: string) => eventually(`"${text}" arrives`, () => sink.records.find(({ body }) => body === text));

const ASKED = [
  { asked: "the API server", usesRelay: false },
  { asked: "its agent", usesRelay: true },
];

describe("while the Kubernetes API is unavailable", () => {
  test.each(ASKED)(
    "a collector that uses $asked starts, accepts OTLP immediately, and reads pods' logs once the API is back",
    async ({ usesRelay }) => {
      await api[Symbol.asyncDispose]();
      writeOfAll("before");
      await start({}, undefined, usesRelay);
      await running();
      expect(configuration.waitsFor).toMatch(/^waiting for the Kubernetes API: .*ECONNREFUSED/);
      expect(await send("/v1/logs", logBody("by OTLP", { "service.name": "cart" }))).toBe(200);
      await arrived("by OTLP");
      expect(sink.lines).toEqual(["by OTLP"]);
      const { port } = api;
      api = await PodsApi.start(folder.path, PODS, port);
      const web = await arrived("web before");
      expect(web.resource).toMatchObject({ "k8s.pod.name": "web-1", "k8s.node.name": "node-1", "k8s.cluster.name": "north" });
      expect(configuration.waitsFor).toBeUndefined();
      expect(said.filter(({ msg }) => /Kubernetes API/.test(msg))).toHaveLength(2);
      writeOfAll("after");
      await arrived("web after");
      await arrived("proxy after");
      expect(sink.lines.filter((line) => /quiet|etcd/.test(line))).toEqual([]);
    },
  );

  test("a running collector that knows the pods continues to read; after a kill it accepts OTLP without a growing backoff", async () => {
    await start();
    await running();
    writeOfAll("first");
    await arrived("web first");
    await api[Symbol.asyncDispose]();
    writeOfAll("second");
    await arrived("web second");
    process.kill(supervisor.status().pid ?? 0, "SIGKILL");
    await eventually("it knows that it waits", () => configuration.waitsFor !== undefined);
    await eventually("OTLP is taken", async () => (await send("/v1/logs", logBody("late", {}))) === 200);
    writeOfAll("third");
    await arrived("late");
    expect(sink.lines.filter((line) => /quiet|etcd|third/.test(line))).toEqual([]);
  });

  test("a collector whose agent knows the pods restarts with all names, and with the logs of the pods that opted in", async () => {
    await start({}, undefined, true);
    await running();
    writeOfAll("first");
    await arrived("web first");
    await api[Symbol.asyncDispose]();
    const { pid } = supervisor.status();
    process.kill(pid ?? 0, "SIGKILL");
    await eventually("another runs", async () => {
      const now = supervisor.status();
      return Promise.resolve(now.state === "running" && now.pid !== pid);
    });
    writeOfAll("second");
    expect(await send("/v1/logs", logBody("by OTLP", { "service.name": "cart" }))).toBe(200);
    for (const text of ["web second", "by OTLP"])
      expect((await arrived(text)).resource).toMatchObject({ "k8s.pod.name": "web-1", "k8s.namespace.name": "shop" });
    await arrived("proxy second");
    expect(configuration.waitsFor).toBeUndefined();
    expect(sink.lines.filter((line) => /quiet|etcd/.test(line))).toEqual([]);
  });

  test.each(ASKED)(
    "behaves the same if the service account may not list pods, and names the permission, with $asked",
    async ({ usesRelay }) => {
      api.refusal = 403;
      await start({}, undefined, usesRelay);
      await running();
      expect(configuration.waitsFor).toMatch(/answered 403.*diagnose/);
    },
  );
});

test.skipIf(!canMount)("starts without a warning, and logs a line for each failing read of the kubelet (needs root)", async () => {
  await using kubelet = await Kubelet.start(folder.path, undefined);
  kubelet.status = 500;
  const metrics = { SIGNALS: "metrics", METRICS_INTERVAL: "1s", NODE_IP: kubelet.ip, KUBELET_TLS: "skip", HOST_ROOT: "/" };
  await start(metrics, withServiceAccount);
  await running();
  await eventually("the kubelet was read four times each", () => kubelet.requests >= 8);
  const complaints = said.filter(({ component, level }) => component === "collector" && level >= 40);
  expect(complaints).toHaveLength(2);
  expect(new Set(complaints.map((line) => line["otelcol.component.id"]))).toEqual(new Set(["kubeletstats", "prometheus/cadvisor"]));
});

test("annotations of pods and namespaces redact, sample, turn off, join lines and parse fields for their own pods only", async () => {
  await api[Symbol.asyncDispose]();
  const pods = PODS.map((pod) => ({ ...pod, annotations: { ...pod.annotations, ...OF_PODS[pod.name] } }));
  api = await PodsApi.start(folder.path, pods, api.port);
  api.namespaces = {
    shop: { "atherops.io/logs": "false", "atherops.io/logs-redact": String.raw`(?i)pin=\d+` },
    "payments-prod": { "atherops.io/logs-multiline-start": "^ERROR", "atherops.io/logs-fields": "false" },
  };
  await start({ LOG_POLICIES: "true" }, undefined, true);
  await running();
  const [web, db, proxy] = [
    "shop_web-1_0b5a3c1e-0000-4000-8000-000000000001",
    "payments-prod_db-0_0b5a3c1e-0000-4000-8000-000000000002",
    "kube-system_proxy-node-1_1b5a3c1e4f5a6b7c8d9e0f1a2b3c4d5e",
  ];
  write("shop_quiet-1_0b5a3c1e-0000-4000-8000-000000000003", "quiet");
  for (const line of ["web card=123 PIN=4 level=warn", `card=1 ${"é".repeat(40_000)}`, "web end"]) write(web, line);
  // Neither is the format of a container runtime.
  for (const line of ['{"log":{"level":"error"},"message":"card=7"}', "SECRET stdout card=5"]) write(web, line);
  for (const line of ["ERROR card=1", "  at stack", "ERROR end"]) write(db, line);
  for (let i = 0; i < 400; i++) write(proxy, `proxy card=1 ${i}`);
  write(web, "ERROR web");
  expect((await arrived("ERROR web")).severityText).toBe("ERROR");
  expect((await arrived("ERROR end")).severityText).toBeFalsy();
  const count = (text: string): number => sink.lines.filter((line) => line.startsWith(text)).length;
  await eventually("a share of the lines", () => count("proxy") >= 60);
  expect(sink.lines).toEqual(
    expect.arrayContaining([
      "web **** **** level=warn",
      "ERROR card=1\n  at stack",
      '{"log":{"level":"error"},"message":"****"}',
      "SECRET stdout ****",
    ]),
  );
  expect(count("**** é")).toBe(1);
  const cut = sink.lines.find((line) => line.startsWith("**** é")) ?? "";
  expect(cut.length).toBeLessThan(33_000);
  expect(cut.slice(-3), "the cut is not inside of a character").toBe("ééé");
  expect(count("quiet")).toBe(0);
  expect(count("proxy")).toBeLessThan(180);
  expect(count("proxy card=1")).toBe(count("proxy"));
  const resources = sink.records.map(({ resource }) => Object.keys(resource).filter((name) => /redact|sample/.test(name)));
  expect(resources.flat()).toEqual([]);
});

/** Annotations that a pod's author may write. */
const OF_PODS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "web-1": { "atherops.io/logs": "true", "atherops.io/logs-redact": String.raw`card=\d+` },
  "proxy-node-1": { "atherops.io/logs-sample-percent": "25", "effective.atherops.io/redact": "card" },
};

test("logs of a static pod have the uid that the API knows, and a character that a long line splits stays whole", async () => {
  await start();
  await running();
  const long = `MARK ${"é".repeat(12_000)} \u{1F600}`;
  const bytes = Buffer.from(long);
  const time = new Date().toISOString();
  const [head, tail] = [bytes.subarray(0, 16_384), bytes.subarray(16_384)];
  expect(head.toString().endsWith("�"), "the cut is inside of a character").toBe(true);
  const file = join(folder.path, "pods", `kube-system_proxy-node-1_1b5a3c1e4f5a6b7c8d9e0f1a2b3c4d5e`, "app");
  mkdirSync(file, { recursive: true });
  const parts = [`${time} stdout P `, head, `\n${time} stdout F `, tail, `\n${time} stdout F bad `, Buffer.from([0xff, 0xe9]), " byte\n"];
  writeFileSync(join(file, "0.log"), Buffer.concat(parts.map((part) => Buffer.from(part))));
  const record = await arrived(long);
  expect(record.resource).toMatchObject({ "k8s.pod.name": "proxy-node-1", "k8s.pod.uid": "0b5a3c1e-0000-4000-8000-000000000005" });
  expect(sink.lines.filter((line) => !line.startsWith("MARK"))).toEqual([expect.stringMatching(/^bad �+ byte$/)]);
});

describe("what an application claims", () => {
  const CLAIMS = {
    "service.name": "cart",
    "k8s.pod.uid": "0b5a3c1e-0000-4000-8000-000000000002",
    "k8s.pod.ip": "127.0.0.42",
    "k8s.pod.name": "db-0",
    "k8s.namespace.name": "payments-prod",
    "k8s.node.name": "other-node",
    "k8s.cluster.name": "other",
    "k8s.deployment.name": "ledger",
    "k8s-pod-name": "db-0",
    k8s_pod_name: "db-0",
    "k8s.container.name": "sidecar",
  };

  test("about its pod, namespace, node and cluster is overwritten by its address; a record keeps it under another name", async () => {
    await start();
    await running();
    await send("/v1/logs", logBody("claiming", CLAIMS, { "k8s.pod.name": "db-0", "order.id": "7" }));
    const { resource, attributes: own } = await arrived("claiming");
    expect(resource).toEqual({
      "service.name": "cart",
      "k8s.container.name": "sidecar",
      "k8s.pod.uid": "0b5a3c1e-0000-4000-8000-000000000001",
      "k8s.pod.name": "web-1",
      "k8s.namespace.name": "shop",
      "k8s.node.name": "node-1",
      "k8s.cluster.name": "north",
    });
    expect(own).toEqual({ "exported.k8s.pod.name": "db-0", "order.id": "7" });
  });

  test("is ignored if its address is no pod's, as with the host's network", async () => {
    await start();
    await running();
    await send("/v1/logs", logBody("from the host", CLAIMS), "127.0.0.99");
    const { resource } = await arrived("from the host");
    const left = { "service.name": "cart", "k8s.container.name": "sidecar", "k8s.node.name": "node-1", "k8s.cluster.name": "north" };
    expect(resource).toEqual(left);
  });

  test("with the name of an agent's own metric is marked, and a point's claim does not replace the sender", async () => {
    await start({ SIGNALS: "metrics" });
    await running();
    const gauge = (name: string, of: Record<string, string>): object => ({
      name,
      gauge: { dataPoints: [{ asDouble: 1, timeUnixNano: `${Date.now()}000000`, attributes: attributes(of) }] },
    });
    const metrics = [
      gauge("k8s.node.memory.available", { "k8s.node.name": "other-node" }),
      gauge("k8s_node_memory_available_bytes", {}),
      gauge("container_memory_rss", { pod: "db-0", namespace: "payments-prod" }),
      gauge("up", Object.fromEntries(Array.from({ length: 34 }, (_, i) => [`label_${i}`, "x"]))),
      gauge("orders.open", { "k8s.namespace.name": "payments-prod", region: "eu" }),
    ];
    const body = { resourceMetrics: [{ resource: { attributes: attributes(CLAIMS) }, scopeMetrics: [{ metrics }] }] };
    expect(await send("/v1/metrics", body, "127.0.0.99")).toBe(200);
    const text = await eventually("the metrics arrive", () => sink.metrics[0]);
    const [resource] = (JSON.parse(text) as { resourceMetrics: { scopeMetrics: { metrics: unknown[] }[] }[] }).resourceMetrics;
    const marked = { key: "atherops.reported_by", value: { stringValue: "application" } };
    const points = (resource?.scopeMetrics[0]?.metrics ?? []) as { name: string; gauge: { dataPoints: { attributes?: unknown[] }[] } }[];
    const [many] = points.splice(3, 1);
    expect(many?.gauge.dataPoints[0]?.attributes).toHaveLength(16);
    expect(many?.gauge.dataPoints[0]?.attributes).toContainEqual(marked);
    expect(points.map(({ name, gauge: { dataPoints } }) => [name, dataPoints[0]?.attributes ?? []])).toEqual([
      ["k8s.node.memory.available", [...attributes({ "exported.k8s.node.name": "other-node" }), marked]],
      ["k8s_node_memory_available_bytes", [marked]],
      ["container_memory_rss", [...attributes({ pod: "db-0", namespace: "payments-prod" }), marked]],
      ["orders.open", attributes({ "exported.k8s.namespace.name": "payments-prod", region: "eu" })],
    ]);
    expect(text).not.toMatch(/"k8s[._-]pod/);
  });

  test("is kept if TRUST_OTLP_IDENTITY is set, as behind a gateway", async () => {
    await start({ TRUST_OTLP_IDENTITY: "true" });
    await running();
    await send("/v1/logs", logBody("trusted", CLAIMS));
    expect((await arrived("trusted")).resource).toMatchObject({
      "k8s.pod.name": "db-0",
      "k8s.cluster.name": "other",
      "k8s.node.name": "other-node",
    });
  });
});
