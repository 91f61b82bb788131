// The cluster agents' identity and proxies with a real backend and a real kube-apiserver: twenty agents act as one cluster, a rotation
// under load loses no record, duplicates none, and is not noticed by the collectors, and two releases in one cluster do not harm each other.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Step } from "../../agent/identity/leader-session.ts";
import { CROWD_TIMING, type IdentityAgent } from "../fixtures/identity-agents.ts";
import { IdentityCluster } from "../fixtures/identity-cluster.ts";
import { KubeApiServer } from "../fixtures/kube-apiserver.ts";
import { Relay } from "../fixtures/relay.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { allRows, call, eventually } from "../fixtures/processes.ts";

const RECORDS_PER_BATCH = 20;
const backend = backendOfFile();
let kube: KubeApiServer;
let token: string;
let cluster: IdentityCluster;
let installToken: string;

beforeAll(async () => {
  kube = await KubeApiServer.start(backend.folder);
  token = await backend.operator();
  installToken = await backend.installToken(token);
  cluster = await IdentityCluster.start(kube, backend.folder, backend.apiUrl);
});

afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
  await kube?.[Symbol.asyncDispose]();
});

interface ClusterView {
  online: boolean;
  nodes: { name: string }[];
}

it("twenty agents with one install token become one cluster, online with twenty nodes", async () => {
  const agents = Array.from({ length: 20 }, (_, index) => cluster.agent(`node-${index}`, { installToken, timing: CROWD_TIMING }));
  const hashes = await Promise.all(agents.map((agent) => agent.signing(undefined, 90_000)));
  expect(new Set(hashes).size).toBe(1);
  expect(agents.flatMap((agent) => agent.steps).filter((step) => step === "registered")).toHaveLength(1);
  expect(agents.flatMap((agent) => agent.refusals)).toEqual([]);
  const clusters = await eventually("all nodes have sent a heartbeat", async () => {
    const answer = await call("GET", `${backend.apiUrl}/api/clusters`, { bearer: token });
    const found = answer.json as ClusterView[];
    return found[0]?.nodes.length === 20 && found;
  });
  expect(clusters).toMatchObject([{ online: true }]);
  await Promise.all(agents.map((agent) => agent.end("SIGTERM")));
});

it("a rotation under load with five agents loses and repeats no record, and returns only success to the collectors", async () => {
  const agents = ["a", "b", "c", "d", "e"].map((name) => cluster.agent(name, { installToken, proxy: true }));
  const [first] = await Promise.all(agents.map((agent) => agent.signing()));
  const load = startLoad(agents);
  // Load before the rotation.
  await sleep(2_000);
  await cluster.requestRotation();
  await Promise.all(agents.map((agent) => agent.signing((hash) => hash !== first)));
  // Load after the rotation.
  await sleep(2_000);
  await load.check(token);
  expect(agents.flatMap((agent) => agent.refusals)).toEqual([]);
});

it("a rotation loses and repeats no record if the API server is unavailable before the new key is stored, and two watches broke silently", async () => {
  const tenant = await backend.tenant("rotating");
  const own = await backend.installToken(tenant.token);
  await using rotating = await IdentityCluster.start(kube, backend.folder, backend.apiUrl);
  await using relay = await Relay.start(Number(new URL(kube.url).port));
  const options = { installToken: own, proxy: true, waitAfter: "rotated" } as const;
  const deaf = { kubernetes: { ...rotating.access, server: `https://127.0.0.1:${relay.port}` } };
  const hearing = ["a", "b", "c"].map((name) => rotating.agent(name, options));
  const agents = [...hearing, ...["deaf-a", "deaf-b"].map((name) => rotating.agent(name, { ...options, ...deaf }))];
  const [first] = await Promise.all(agents.map((agent) => agent.signing()));
  const load = startLoad(agents);
  // Load before the rotation.
  await sleep(1_000);
  relay.freeze();
  await rotating.requestRotation();
  await eventually("the backend has rotated", async () => agents.some((agent) => agent.steps.includes("rotated")));
  await kube.stopServer();
  for (const agent of agents) agent.child.kill("SIGUSR2");
  // Proves an absence: without the API server no agent changes its key.
  await sleep(2_000);
  expect(agents.map((agent) => agent.signsWith)).toEqual(agents.map(() => first));
  await kube.startServer();
  await Promise.all(agents.map((agent) => agent.signing((hash) => hash !== first, 60_000)));
  // Load after the rotation.
  await sleep(1_000);
  await load.check(tenant.token);
  expect(agents.flatMap((agent) => agent.refusals)).toEqual([]);
});

it.for<{ step: Step; of: string }>([
  { step: "registered", of: "enrolment" },
  { step: "rotated", of: "rotation" },
])("a kill of an agent between the backend's response and storing it costs no token and no key: $of", async ({ step, of }) => {
  const tenant = await backend.tenant(`killed-in-${of}`);
  const own = await backend.installToken(tenant.token);
  await using crashing = await IdentityCluster.start(kube, backend.folder, backend.apiUrl);
  const first = crashing.agent("first", { installToken: own, killAfter: step });
  if (of === "rotation") {
    await first.signing();
    await crashing.requestRotation();
  }
  expect(await first.ended()).toBe("SIGKILL");
  const next = crashing.agent("next", { installToken: own });
  expect(await next.signing((hash) => hash !== first.signsWith)).not.toBe(first.signsWith);
  expect(next.refusals).toEqual([]);
  expect((await call("GET", `${backend.apiUrl}/api/clusters`, { bearer: tenant.token })).json).toMatchObject([{ online: true }]);
  await eventually("the Secret is in order", async () => (await crashing.secret()).pendingRotation === undefined);
});

it("a second release is rejected by name, uses no token, does not affect the first one's key, and enrols once the first is gone", async () => {
  const tenant = await backend.tenant("two-releases");
  const newToken = async () => await backend.installToken(tenant.token);
  await using north = await IdentityCluster.start(kube, backend.folder, backend.apiUrl);
  await using other = await IdentityCluster.start(kube, backend.folder, backend.apiUrl);
  const first = north.agent("first", { installToken: await newToken(), intervalS: 5 });
  const key = await first.signing();
  const late = other.agent("late", { installToken: await newToken(), intervalS: 5 });
  await eventually("it says who has the cluster", async () =>
    late.log.includes(`another installation of the agent (${north.namespace}/cluster-agent-credentials) has this cluster's key`),
  );
  const before = first.events.length;
  await eventually("the first goes on", async () => first.events.length > before + 10);
  expect([first.signsWith, first.refusals, late.signsWith]).toEqual([key, [], undefined]);
  await first.end("SIGTERM");
  const taken = await late.signing(() => true, 60_000);
  expect(taken).not.toBe(key);
  await eventually("it says that all is well", async () => late.log.includes("the cluster's identity has recovered"));
  expect((await call("GET", `${backend.apiUrl}/api/clusters`, { bearer: tenant.token })).json).toHaveLength(1);
});

it("no log contains a key or a token", () => {
  const logs = readdirSync(backend.folder).filter((name) => /\.(log|out)$/.test(name) && name !== "kube.log");
  expect(logs.length).toBeGreaterThan(20);
  for (const name of logs) expect(readFileSync(join(backend.folder, name), "utf8"), name).not.toMatch(/\bak_[\w-]{8}|\bit_[\w-]{8}/);
  const texts = logs.map((name) => readFileSync(join(backend.folder, name), "utf8")).join("");
  expect(texts.includes(installToken)).toBe(false);
});

/** Sends numbered records to every agent's proxy until `check`, which holds what is stored against what was sent. */
function startLoad(agents: IdentityAgent[]): { check(bearer: string): Promise<void> } {
  const stop = new AbortController();
  const sending = agents.map((agent) => send(agent, stop.signal));
  return {
    async check(bearer) {
      stop.abort();
      const sent = await Promise.all(sending);
      expect(new Set(sent.flatMap(({ statuses }) => statuses))).toEqual(new Set([200]));
      const wanted = sent.flatMap(({ messages }) => messages).sort();
      expect(wanted.length).toBeGreaterThan(200);
      expect((await storedMessages(bearer)).sort()).toEqual(wanted);
    },
  };
}

/** To one proxy, as its collector would, until `signal`. */
async function send(agent: IdentityAgent, signal: AbortSignal): Promise<{ messages: string[]; statuses: number[] }> {
  const port = agent.events.find((event) => event.event === "proxy")?.port;
  const messages: string[] = [];
  const statuses: number[] = [];
  for (let batch = 0; !signal.aborted; batch += 1) {
    const names = Array.from({ length: RECORDS_PER_BATCH }, (_, index) => `${agent.name}-${batch}-${index}`);
    const answer = await call("POST", `http://127.0.0.1:${port}/v1/logs`, { body: otlpLogs(names) });
    statuses.push(answer.status);
    messages.push(...names);
    // Paces the load.
    await sleep(20);
  }
  return { messages, statuses };
}

function otlpLogs(messages: string[]): object {
  const timeUnixNano = `${Date.now()}000000`;
  const resource = { attributes: [{ key: "service.name", value: { stringValue: "load" } }] };
  const logRecords = messages.map((message) => ({ timeUnixNano, body: { stringValue: message } }));
  return { resourceLogs: [{ resource, scopeLogs: [{ logRecords }] }] };
}

async function storedMessages(bearer: string): Promise<string[]> {
  return (await allRows<{ message: string }>(`${backend.apiUrl}/query/logs?source=load&limit=500`, bearer)).map(({ message }) => message);
}
