// Installs both charts and a workload on a real cluster, as users do, and takes the installation through upgrades, failures and removal.
// The steps depend on each other and run in order. `npm run test:e2e` (hack/test.ts) runs it. It is one file, because all steps use one
// installation.
import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Reading, readHost } from "../fixtures/host-truth.ts";
import { metricsOfDocs } from "../fixtures/metrics-of-docs.ts";
import { type Answer, eventually } from "../fixtures/processes.ts";
import { apply, get, helm, kubectl, NAMESPACE } from "./cluster.ts";
import {
  AGENT_CHART,
  AGENT_IMAGE,
  AGENT_SET,
  agentPod,
  agentProcess,
  BACKEND_CHART,
  InstalledBackend,
  installBackendChart,
  killAgentProcess,
  makeNamespace,
  removeNamespace,
  storedKey,
  type StoredNumbers,
  WAIT,
} from "./installation.ts";
import { acceptedOf, logPolicy, noisyPod, POLICY_SET } from "./policies.ts";
import { compareNode, type RawSeries } from "./node-truth.ts";
import { foundByPage, TROUBLED, troubles } from "./trouble.ts";

const SEQUENCE = `seq-${randomUUID().slice(0, 8)}`;

let backend: InstalledBackend;
/** Reading of this machine's /proc, long before the agent's samples that are compared with it. */
let atTheBeginning: Reading;

beforeAll(async () => {
  atTheBeginning = readHost();
  await makeNamespace();
});

afterAll(async () => {
  await backend?.[Symbol.asyncDispose]();
  if (!process.env["E2E_KEEP"]) await removeNamespace();
});

/** Unlike `backend.ask`, returns an answer of any status. */
async function ask(path: string): Promise<Answer> {
  return await backend.call("GET", path);
}

/** The newest number that the workload has written by now: its pod's own log is the reference. */
async function writtenSoFar(): Promise<number> {
  const line = await kubectl(["-n", NAMESPACE, "logs", "deployment/writer", "--tail=1"]);
  return Number(line.split(" ")[1]);
}

/** Waits until everything that was written so far is stored; returns how many of its numbers are missing and doubled. */
async function settled(): Promise<{ written: number; missing: number; doubled: number }> {
  const written = await writtenSoFar();
  let seen: StoredNumbers = new Map();
  await eventually(
    `all ${written} lines stored`,
    async () => {
      seen = await backend.storedNumbers(SEQUENCE);
      return [...seen.keys()].filter((number) => number <= written).length === written;
    },
    120_000,
  ).catch(() => undefined);
  const upTo = [...seen.entries()].filter(([number]) => number <= written);
  return { written, missing: written - upTo.length, doubled: upTo.filter(([, count]) => count > 1).length };
}

async function agentRestarts(): Promise<number> {
  return (await get("pod", await agentPod())).status.containerStatuses[0].restartCount;
}

test("helm install starts the backend, and its helm test passes", async () => {
  const started = performance.now();
  await installBackendChart();
  console.log(`backend installed and ready: ${Math.round((performance.now() - started) / 1000)} s`);
  await helm("test", "backend", "--timeout", "2m");
  backend = await InstalledBackend.open();
  expect(backend.token).toMatch(/^ey/);
});

test("helm install of the agent with the first install token: telemetry is read back within two minutes, and a rule fires", async () => {
  const started = performance.now();
  const seconds = (): number => Math.round((performance.now() - started) / 1000);
  const token = ["--set", "installToken.existingSecret=first-install-token"];
  await helm("install", "agent", AGENT_CHART, ...AGENT_SET, ...token, ...WAIT);
  console.log(`agent installed and ready: ${seconds()} s`);
  await apply(workload());
  const rule = await backend.call("POST", "/alerting/rules", {
    name: "pods run",
    severity: "info",
    expr: `count(container_memory_working_set_bytes{namespace="${NAMESPACE}"}) > 0`,
    for: "0s",
    enabled: true,
  });
  expect(rule.status, rule.text).toBe(201);
  await eventually(
    "cAdvisor series of the workload",
    async () => (await backend.series(`container_memory_working_set_bytes{namespace="${NAMESPACE}",pod=~"writer.*"}`)).length > 0,
    120_000,
  );
  console.log(`cAdvisor series: ${seconds()} s`);
  await eventually(
    "kubelet series of the workload",
    async () => (await backend.series(`{__name__=~"k8s_pod_.+",k8s_pod_name=~"writer.*"}`)).length > 0,
    120_000,
  );
  console.log(`kubelet series: ${seconds()} s`);
  await eventually("host series of the node", async () => (await backend.series(`system_memory_usage_bytes`)).length > 0, 120_000);
  await eventually("pod logs", async () => (await backend.storedNumbers(SEQUENCE)).size > 0, 120_000);
  console.log(`pod logs: ${seconds()} s`);
  const [span] = await eventually(
    "spans",
    async () => {
      const found = (await ask("/query/traces?service=writer&limit=1")).json;
      return found?.length > 0 && found;
    },
    120_000,
  );
  console.log(`spans: ${seconds()} s`);
  expect(span).toMatchObject({ Service: "writer", Operation: "write", StatusCode: "OK" });
  await eventually("the rule fires", async () => (await ask(`/alerting/rules/${rule.json.id}/status`)).json?.state === "firing", 120_000);
  console.log(`rule fires: ${seconds()} s`);
  expect(seconds()).toBeLessThan(120);
  const [row] = (await ask(`/query/logs?limit=1&q=${SEQUENCE}`)).json;
  expect(row.labels).toMatchObject({ "k8s.namespace.name": NAMESPACE, "k8s.container.name": "writer" });
  expect(row.labels["k8s.node.name"]).toBeTruthy();
  await helm("test", "agent", "--timeout", "2m");
});

test("a LogPolicy redacts and limits a noisy pod only, has a status, and is listed by diagnose", async () => {
  await helm("upgrade", "agent", AGENT_CHART, "--reuse-values", ...POLICY_SET, ...WAIT);
  const word = `noisy-${randomUUID().slice(0, 8)}`;
  await apply(logPolicy("cards", { redact: String.raw`card=\d+`, bytesPerSecond: 2000 }), logPolicy("wrong", { redact: "(?=x)" }));
  await apply(noisyPod(word));
  const accepted = async (name: string) => acceptedOf(await get("logpolicies.atherops.io", name));
  const cards = await eventually("the status of a policy", async () => await accepted("cards"), 120_000);
  const wrong = await eventually("the status of an invalid policy", async () => await accepted("wrong"), 120_000);
  expect(cards.status).toBe("True");
  expect(wrong).toMatchObject({ status: "False", message: expect.stringContaining("not a supported RE2 regular expression") });
  const stored = async (): Promise<{ message: string }[]> => (await ask(`/query/logs?limit=500&q=${word}`)).json ?? [];
  await eventually("lines of the noisy pod", async () => (await stored()).length > 0, 120_000);
  for (const { message } of await stored()) expect(message).toContain("****");
  const dropped = await eventually(
    "the count of dropped bytes",
    async () => (await backend.series(`atherops_agent_logs_rate_limited_bytes_total{namespace="${NAMESPACE}"} > 100000`))[0],
    120_000,
  );
  console.log(`dropped by the rate limit: ${dropped.value[1]} bytes`);
  const diagnosed = await kubectl(["-n", NAMESPACE, "exec", await agentPod(), "--", "atherops-k8s-otel-agent", "diagnose"]).catch(String);
  expect(diagnosed).toMatch(/atherops-e2e\/noisy: .*"policies":\["cards"\].*"droppedBytes":/);
  await kubectl(["-n", NAMESPACE, "delete", "pod", "noisy", "--wait=false"]);
  expect(await settled()).toMatchObject({ missing: 0, doubled: 0 });
});

test("remote configuration reaches the node, and a rejected one is stopped with the reason", async () => {
  const cluster = async () => (await ask("/api/clusters")).json[0];
  const { cluster_id: id } = await cluster();
  const write = async (config: object) => await backend.call("PUT", `/api/clusters/${id}/config`, { config });
  expect((await write({ log_level: "warn" })).json).toMatchObject({ version: "1" });
  const inForce = async (): Promise<string> => (await cluster()).nodes[0].config.in_force;
  await eventually("the first version in force", async () => (await inForce()) === "1", 60_000);
  expect((await write({ signals: ["metrics", "logs", "traces"] })).json).toMatchObject({ version: "2" });
  const { config } = await eventually("the stop", async () => ((await cluster()).config.stopped ? await cluster() : undefined), 120_000);
  console.log("stopped:", config.stopped);
  expect(config).toMatchObject({ version: "2", percent: 0, stopped: expect.stringContaining("refuses the configuration") });
  await eventually("the version before without a problem", async () => (await cluster()).nodes[0].config.error === null, 60_000);
  expect(await inForce()).toBe("1");
  await helm("rollback", "agent", "1", ...WAIT);
});

test("helm upgrade with traffic, before and after a rotation, then rollback: no conflict, the key is kept, no line is lost", async () => {
  const before = await storedKey();
  await helm("upgrade", "agent", AGENT_CHART, "--reuse-values", "--set", "logLevel=debug", ...WAIT);
  expect(await storedKey()).toBe(before);
  await kubectl(["-n", NAMESPACE, "exec", await agentPod(), "--", "atherops-k8s-otel-agent", "rotate"]);
  const rotated = await eventually("the rotated key in the Secret", async () => {
    const now = await storedKey();
    return now !== before && now;
  });
  await helm("upgrade", "agent", AGENT_CHART, "--reuse-values", "--set", "logLevel=info", ...WAIT);
  expect(await storedKey()).toBe(rotated);
  await helm("rollback", "agent", "1", ...WAIT);
  await helm("upgrade", "backend", BACKEND_CHART, "--reuse-values", "--set", "logLevel=debug", ...WAIT);
  const outcome = await settled();
  console.log("after upgrades, rotation and rollback:", outcome);
  expect(outcome).toMatchObject({ missing: 0, doubled: 0 });
});

test("the agent's pod deleted, killed without grace, and the backend's pod deleted under load: no line is lost", async () => {
  await kubectl(["-n", NAMESPACE, "delete", "pod", await agentPod(), "--wait=true"]);
  await kubectl(["-n", NAMESPACE, "rollout", "status", "daemonset/agent-cluster-agent", "--timeout=240s"]);
  const gentle = await settled();
  console.log("agent pod deleted:", gentle);
  expect(gentle).toMatchObject({ missing: 0 });
  await kubectl(["-n", NAMESPACE, "delete", "pod", await agentPod(), "--grace-period=0", "--force", "--wait=true"]);
  await kubectl(["-n", NAMESPACE, "rollout", "status", "daemonset/agent-cluster-agent", "--timeout=240s"]);
  const forced = await settled();
  console.log("agent pod killed:", forced);
  expect(forced).toMatchObject({ missing: 0 });
  const before = await agentRestarts();
  if (killAgentProcess()) await eventually("the container started again", async () => (await agentRestarts()) > before, 120_000);
  else console.warn("NOT SHOWN: the node is not this machine, so the agent's process was not killed by itself");
  const killed = await settled();
  console.log("agent's Node process killed:", killed);
  expect(killed).toMatchObject({ missing: 0 });
  await kubectl(["-n", NAMESPACE, "delete", "pod", "-l", "app.kubernetes.io/name=atherops-backend", "--wait=true"]);
  await kubectl(["-n", NAMESPACE, "rollout", "status", "deployment/backend", "--timeout=240s"]);
  const replaced = await settled();
  console.log("backend pod deleted:", replaced);
  expect(replaced).toMatchObject({ missing: 0, doubled: killed.doubled });
});

test("the kubelet rotates a container's log during writes: no line is lost", async () => {
  const sequence = `rotated-${randomUUID().slice(0, 8)}`;
  const lines = 160_000;
  const program = `
    const padding = "x".repeat(120);
    let number = 0;
    const timer = setInterval(() => {
      for (let line = 0; line < 200 && number < ${lines}; line++) console.log("${sequence} " + ++number + " " + padding);
      if (number >= ${lines}) clearInterval(timer);
    }, 50);
    setInterval(() => {}, 60000);`;
  const container = {
    name: "rotated",
    image: AGENT_IMAGE,
    imagePullPolicy: "IfNotPresent",
    command: ["node", "--input-type=module", "-e", program],
  };
  await apply({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "rotated", namespace: NAMESPACE },
    spec: { terminationGracePeriodSeconds: 1, containers: [container] },
  });
  const stored = await eventually(
    "the last line",
    async () => {
      const rows = (await ask(`/query/logs?limit=1&q=${encodeURIComponent(`${sequence} ${lines} `)}`)).json;
      if (!rows?.length) return false;
      const seen = await backend.storedNumbers(sequence);
      return seen.size === lines && seen;
    },
    240_000,
  ).catch(() => backend.storedNumbers(sequence));
  const folder = await kubectl([
    "-n",
    NAMESPACE,
    "exec",
    await agentPod(),
    "--",
    "sh",
    "-c",
    `ls /var/log/pods/${NAMESPACE}_rotated_*/rotated`,
  ]);
  const rotations = folder.split("\n").filter((name) => /^0\.log\.\d/.test(name)).length;
  const doubled = [...stored.values()].filter((count) => count > 1).length;
  console.log("log rotated:", { rotations, written: lines, missing: lines - stored.size, doubled });
  expect(rotations).toBeGreaterThan(0);
  expect({ missing: lines - stored.size, doubled }).toEqual({ missing: 0, doubled: 0 });
  await kubectl(["-n", NAMESPACE, "delete", "pod", "rotated", "--wait=false"]);
});

test("the page's commands find a workload's faults in state, events and logs, and an annotated pod is stored once", async () => {
  const page = 'require("http").createServer((_, to) => to.end("# TYPE e2e_orders_total counter\\ne2e_orders_total 7\\n")).listen(8000)';
  const annotations = { "prometheus.io/scrape": "true", "prometheus.io/port": "8000" };
  const container = { name: "main", image: AGENT_IMAGE, imagePullPolicy: "IfNotPresent", command: ["node", "-e", page] };
  await apply(...troubles(AGENT_IMAGE), {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "annotated", namespace: NAMESPACE, annotations },
    spec: { terminationGracePeriodSeconds: 1, containers: [container] },
  });
  const started = performance.now();
  await backend.loginInPod();
  for (const { what, command, answer } of await foundByPage(AGENT_IMAGE, (line) => backend.shell(line)))
    console.log(`${what}\n  ${command}\n  ${answer.trim()}`);
  console.log(`all of it found after ${Math.round((performance.now() - started) / 1000)} s`);
  await eventually(
    "the annotated pod's metric, once",
    async () => (await backend.series(`e2e_orders_total{k8s_pod_name="annotated"} == 7`)).length === 1,
    120_000,
  );
  const [scheduling] = (await ask(`/query/logs?source=kubernetes-events&label.k8s.event.reason=FailedScheduling&limit=1`)).json;
  expect(scheduling).toMatchObject({ level: "warn", labels: { "k8s.object.kind": "Pod", "k8s.namespace.name": NAMESPACE } });
  expect(scheduling?.labels["k8s.pod.name"]).toMatch(/^unplaceable-/);
});

test("a node's metrics match its own /proc", async () => {
  if (agentProcess() === undefined) return console.warn("NOT SHOWN: the node is not this machine, whose /proc would show it");
  const raw = async (metric: string): Promise<RawSeries[]> =>
    (await ask(`/query/prometheus/api/v1/query?query=${encodeURIComponent(`${metric}[2m]`)}`)).json?.data?.result ?? [];
  const rows = await compareNode(raw, atTheBeginning);
  const shown = rows.filter(({ highest }) => highest > 0);
  console.log(
    [
      "series, by /proc before, stored, by /proc after",
      ...shown.map((row) => `${row.series}  ${row.lowest}  ${row.stored}  ${row.highest}`),
    ].join("\n"),
  );
  expect(rows.filter(({ isRight }) => !isRight)).toEqual([]);
  expect(rows.some(({ series }) => series.startsWith("system_network"))).toBe(true);
});

test("every metric that the dashboards and rules of docs/ query arrives", async () => {
  const missing = async (): Promise<string[]> => {
    const there = (await ask("/query/prometheus/api/v1/label/__name__/values")).json?.data as string[];
    return metricsOfDocs().filter((name) => !there.includes(name));
  };
  await eventually("all metrics are there", async () => (await missing()).length === 0, 120_000).catch(() => undefined);
  expect(await missing()).toEqual([]);
  await kubectl(["-n", NAMESPACE, "delete", ...TROUBLED, "pod/annotated", "--wait=false"]);
});

test("a reinstalled cluster keeps its identity and needs no new token", async () => {
  const before = (await ask("/api/clusters")).json;
  expect(before).toHaveLength(1);
  await helm("uninstall", "agent", "--wait");
  await helm("install", "agent", AGENT_CHART, ...AGENT_SET, "--take-ownership", ...WAIT);
  const after = await eventually("the cluster online", async () => {
    const now = (await ask("/api/clusters")).json;
    return now[0]?.online && now;
  });
  expect(after.map((cluster: { cluster_id: string }) => cluster.cluster_id)).toEqual(
    before.map((cluster: { cluster_id: string }) => cluster.cluster_id),
  );
});

test("the agent's service account has exactly the permissions of the README", async () => {
  const account = `system:serviceaccount:${NAMESPACE}:agent-cluster-agent`;
  const table = await kubectl(["-n", NAMESPACE, "auth", "can-i", "--list", `--as=${account}`]);
  const rules = table
    .split("\n")
    .slice(1)
    .filter((line) => !/selfsubject|^\s+\[\/|\/(api|healthz|livez|readyz|version|openapi|\.well-known)/.test(line))
    .map((line) => line.replaceAll(/\s+/g, " ").trim())
    .filter(Boolean)
    .sort();
  expect(rules).toEqual(
    [
      "leases.coordination.k8s.io [] [] [create]",
      "leases.coordination.k8s.io [] [cluster-agent] [get update patch watch]",
      "leases.coordination.k8s.io [] [cluster-agent-collection] [get update]",
      ...WATCHED.map((resource) => `${resource} [] [] [list watch]`),
      "namespaces [] [] [list watch]",
      "namespaces [] [kube-system] [get]",
      "nodes/metrics [] [] [get]",
      "nodes/stats [] [] [get]",
      "pods [] [] [list watch]",
      "secrets [] [cluster-agent-credentials] [get update patch watch]",
    ].sort(),
  );
});

/** Resources that are watched for state and events of the cluster. */
const WATCHED =
  "cronjobs.batch daemonsets.apps deployments.apps events horizontalpodautoscalers.autoscaling jobs.batch nodes replicasets.apps replicationcontrollers resourcequotas services statefulsets.apps".split(
    " ",
  );

/** Writes a numbered line every 20 ms to stdout, and sends a span each second to the OTLP port of its node. */
function workload(): object {
  const program = `
    const hex = (bytes) => [...crypto.getRandomValues(new Uint8Array(bytes))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    let number = 0;
    setInterval(() => console.log("${SEQUENCE} " + ++number + " a line of log with some padding"), 20);
    setInterval(() => {
      const end = BigInt(Date.now()) * 1000000n;
      const span = { traceId: hex(16), spanId: hex(8), name: "write", kind: 1, startTimeUnixNano: String(end - 5000000n), endTimeUnixNano: String(end), status: { code: 1 } };
      const body = { resourceSpans: [{ resource: { attributes: [{ key: "service.name", value: { stringValue: "writer" } }] }, scopeSpans: [{ spans: [span] }] }] };
      fetch("http://agent-cluster-agent:4318/v1/traces", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }).catch(() => {});
    }, 1000);`;
  const labels = { app: "writer" };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "writer", namespace: NAMESPACE },
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          terminationGracePeriodSeconds: 1,
          containers: [
            {
              name: "writer",
              image: AGENT_IMAGE,
              imagePullPolicy: "IfNotPresent",
              command: ["node", "--input-type=module", "-e", program],
              securityContext: { runAsUser: 1000 },
            },
          ],
        },
      },
    },
  };
}
