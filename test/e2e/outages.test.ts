// With E2E_OUTAGES=1: outages of the services that an agent depends on, one after the other, while a pod writes numbered lines. The agent
// reaches the backend over TLS with a private authority, through an outgoing proxy. Each step ends when all lines are stored exactly once.
// Takes about twelve minutes. E2E_DNS_PID is the process that resolves the cluster's names, E2E_REBOOT a command that ends every process
// of the node and starts them again. Recorded runs: docs/measurements/0.1.0.md.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Authority, authority } from "../../agent/upstream/outgoing-proxy.fixture.ts";
import { eventually, temporaryFolder } from "../fixtures/processes.ts";
import { apply, get, helm, kubectl, NAMESPACE } from "./cluster.ts";
import {
  AGENT_CHART,
  AGENT_SET,
  agentPod,
  InstalledBackend,
  killAgentProcess,
  makeNamespace,
  removeNamespace,
  type StoredNumbers,
  WAIT,
} from "./installation.ts";
import { compareSummary, type RawSeries } from "./node-truth.ts";
import { nodePod, sequencePod } from "./policies.ts";

const DNS_PID = Number(process.env["E2E_DNS_PID"]);
const REBOOT = process.env["E2E_REBOOT"];
const MINUTE_MS = 60_000;
const inNamespace = (...args: string[]): Promise<string> => kubectl(["-n", NAMESPACE, ...args]);
const rolledOut = (name: string): Promise<string> => inNamespace("rollout", "status", name, "--timeout=300s");

/** Starts a pod that terminates TLS for the backend on 8443 and is an outgoing proxy on 3128. */
async function applyEdge({ key, cert }: Authority): Promise<void> {
  const program = `
    import http from "node:http";
    import https from "node:https";
    import net from "node:net";
    const options = { key: ${JSON.stringify(key)}, cert: ${JSON.stringify(cert)} };
    https.createServer(options, (request, response) => {
      const { method, url: path, headers } = request;
      const forwarded = http.request({ host: "backend", port: 8080, method, path, headers }, (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      });
      request.pipe(forwarded).on("error", () => response.destroy());
    }).listen(8443);
    http.createServer().on("connect", (request, socket) => {
      console.log("CONNECT " + request.url);
      const [host, port] = request.url.split(":");
      const target = net.connect(Number(port), host, () => socket.write("HTTP/1.1 200 OK\\r\\n\\r\\n"));
      target.pipe(socket).pipe(target);
      for (const each of [socket, target]) each.on("error", () => {});
    }).listen(3128);`;
  const ports = [8443, 3128].map((port) => ({ name: `port-${port}`, port }));
  const service = { apiVersion: "v1", kind: "Service", metadata: { name: "edge", namespace: NAMESPACE } };
  await inNamespace("delete", "pod", "edge", "--ignore-not-found", "--wait=true");
  await apply({ ...service, spec: { selector: { app: "edge" }, ports } }, nodePod("edge", program));
  await inNamespace("wait", "pod/edge", "--for=condition=Ready", "--timeout=120s");
}

async function trust(...authorities: Authority[]): Promise<void> {
  const pem = authorities.map(({ caFile }) => readFileSync(caFile, "utf8")).join("");
  await apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "backend-ca", namespace: NAMESPACE }, data: { "ca.crt": pem } });
}

interface Outcome {
  readonly missing: number;
  readonly doubled: number;
}
const COMPLETE: Outcome = { missing: 0, doubled: 0 };

describe.runIf(process.env["E2E_OUTAGES"])("outages (with E2E_OUTAGES=1)", () => {
  const folder = temporaryFolder();
  let authorities: [Authority, Authority];
  let backend: InstalledBackend;
  beforeAll(async () => {
    authorities = [authority(folder.path, "first", "edge"), authority(folder.path, "second", "edge")];
    await makeNamespace();
    backend = await InstalledBackend.install();
  });
  afterAll(async () => {
    await backend?.[Symbol.asyncDispose]();
    folder[Symbol.dispose]();
    await removeNamespace();
  });

  /** Starts a pod that writes during `outage` and some seconds longer, then waits until each of its lines is stored. */
  async function withLines(name: string, seconds: number, outage: () => Promise<unknown>): Promise<Outcome> {
    const word = `${name}-${randomUUID().slice(0, 8)}`;
    const lines = seconds * 250;
    await apply(sequencePod(name, word, lines));
    await eventually("its first lines", async () => (await backend.storedNumbers(word)).size > 0, 180_000);
    await outage();
    const outcome = outcomeOf(name, await backend.allNumbers(word, lines), lines);
    await inNamespace("delete", "pod", name, "--wait=false");
    return outcome;
  }

  function outcomeOf(name: string, seen: StoredNumbers, lines: number): Outcome {
    const outcome = { missing: lines - seen.size, doubled: [...seen.values()].filter((count) => count > 1).length };
    console.log(`${name}:`, { written: lines, ...outcome });
    return outcome;
  }

  test("an agent enrols over TLS with a private authority, through an outgoing proxy", async () => {
    await trust(authorities[0]);
    await applyEdge(authorities[0]);
    await backend.makeInstallToken();
    const values = ["installToken.existingSecret=install-token", "backendCa.configMap=backend-ca", "proxy.httpsProxy=http://edge:3128"];
    const set = [...AGENT_SET, "--set", "backendUrl=https://edge:8443", ...values.flatMap((value) => ["--set", value])];
    await helm("install", "agent", AGENT_CHART, ...set, ...WAIT);
    expect(await withLines("proxied", 5, async () => undefined)).toEqual(COMPLETE);
    const tunnels = (await inNamespace("logs", "edge")).split("\n").filter((line) => line === "CONNECT edge:8443").length;
    console.log("tunnels through the proxy:", tunnels);
    expect(tunnels).toBeGreaterThan(0);
  });

  test("counters of the node and its pods match the kubelet's summary", async () => {
    const raw = async (metric: string): Promise<RawSeries[]> =>
      (await backend.ask(`/query/prometheus/api/v1/query?query=${encodeURIComponent(`${metric}[2m]`)}`)).json?.data?.result ?? [];
    const summary = `/api/v1/nodes/${(await get("nodes")).items[0].metadata.name}/proxy/stats/summary`;
    const readSummary = async () => JSON.parse(await kubectl(["get", "--raw", summary]));
    const kinds = ["k8s_node_cpu", "k8s_pod_cpu", "k8s_node_network"];
    // The kubelet counts a new pod some seconds after its start.
    const compareAll = async () => {
      const found = await compareSummary(raw, readSummary);
      return kinds.every((kind) => found.some(({ series, highest }) => series.startsWith(kind) && highest > 0)) && found;
    };
    const rows = await eventually("counters of each kind", compareAll, 180_000);
    console.log(rows.map((row) => `${row.series}  ${row.lowest}  ${row.stored}  ${row.highest}`).join("\n"));
    expect(rows.filter(({ isRight }) => !isRight)).toEqual([]);
  });

  test("joins the parts of long lines that the runtime writes", async () => {
    const word = `long-${randomUUID().slice(0, 8)}`;
    const program = `for (let n = 1; n <= 50; n++) console.log("${word} " + n + " " + "é".repeat(50000) + " end"); setInterval(() => {}, 60000);`;
    await apply(nodePod("long", program));
    const stored = async () => (await backend.ask(`/query/logs?limit=100&q=${word}`)).json as { message: string }[];
    const rows = await eventually("50 lines", async () => ((await stored()).length >= 50 ? await stored() : undefined), 180_000);
    const ends = rows.filter(({ message }) => /^\S+ \d+ é{50000} end$/.test(message));
    const parts = Number(
      await inNamespace("exec", await agentPod(), "--", "sh", "-c", `grep -c " P " /var/log/pods/${NAMESPACE}_long_*/long/0.log`),
    );
    console.log("long lines:", { rows: rows.length, whole: ends.length, parts });
    expect([rows.length, ends.length]).toEqual([50, 50]);
    expect(parts).toBeGreaterThan(50);
  });

  test("recovers after the proxy was unavailable and returned with a certificate of another authority", async () => {
    const agentLife = async (): Promise<object> => {
      const { metadata, status } = await get("pod", await agentPod());
      return { uid: metadata.uid, restarts: status.containerStatuses[0].restartCount };
    };
    const before = await agentLife();
    const outcome = await withLines("other-authority", 60, async () => {
      await applyEdge(authorities[1]);
      const diagnose = () =>
        inNamespace("exec", "daemonset/agent-cluster-agent", "--", "atherops-k8s-otel-agent", "diagnose").catch(String);
      const untrusted = /^FAIL {2}backend: .*certificate.*\n +set backendCa/m;
      const complaint = await eventually("diagnose names the certificate", async () => untrusted.exec(await diagnose())?.[0], 180_000);
      console.log(complaint);
      await trust(...authorities);
    });
    expect(outcome).toEqual(COMPLETE);
    expect(await agentLife()).toEqual(before);
  });

  test.skipIf(!DNS_PID)("recovers after a minute without DNS, in which the agent is killed (needs E2E_DNS_PID)", async () => {
    const outcome = await withLines("no-names", 60, async () => {
      process.kill(DNS_PID, "SIGSTOP");
      try {
        if (!killAgentProcess()) console.warn("NOT SHOWN: the node is not this machine, so the agent was not killed");
        // The outage that the test is about.
        await sleep(MINUTE_MS);
      } finally {
        process.kill(DNS_PID, "SIGCONT");
      }
      await rolledOut("daemonset/agent-cluster-agent");
    });
    expect(outcome).toEqual(COMPLETE);
  });

  test("recovers after five minutes without the backend", async () => {
    const outcome = await withLines("no-backend", 330, async () => {
      await inNamespace("scale", "deployment/backend", "--replicas=0");
      await inNamespace("wait", "pod", "-l", "app.kubernetes.io/name=atherops-backend", "--for=delete", "--timeout=120s");
      // The outage that the test is about.
      await sleep(5 * MINUTE_MS);
      await inNamespace("scale", "deployment/backend", "--replicas=1");
      await rolledOut("deployment/backend");
    });
    expect(outcome).toEqual(COMPLETE);
  });

  test.skipIf(!REBOOT)("recovers after every process of the node was restarted (needs E2E_REBOOT)", async () => {
    const word = `reboot-${randomUUID().slice(0, 8)}`;
    const program = `let n = 0; const start = "${word}x" + Date.now(); setInterval(() => console.log(start + " " + ++n), 4);`;
    await apply(nodePod("reboot", program));
    const first = await eventually("its start", async () => /^\S+/.exec(await inNamespace("logs", "reboot", "--tail=1"))?.[0], 120_000);
    await eventually("its first lines", async () => (await backend.storedNumbers(first)).size > 0, 120_000);
    execFileSync("sh", ["-c", REBOOT ?? ""], { stdio: "ignore" });
    await eventually("its container again", async () => (await get("pod", "reboot")).status.containerStatuses[0].restartCount > 0, 300_000);
    await rolledOut("deployment/backend");
    await rolledOut("daemonset/agent-cluster-agent");
    const written = Number((await inNamespace("logs", "reboot", "--previous", "--tail=1")).split(" ")[1]);
    expect(outcomeOf("reboot", await backend.allNumbers(first, written), written)).toEqual(COMPLETE);
    const second = /^\S+/.exec(await inNamespace("logs", "reboot", "--tail=1"))?.[0] ?? "";
    await eventually("lines after it", async () => (await backend.storedNumbers(second)).size > 0, 120_000);
  });
});
