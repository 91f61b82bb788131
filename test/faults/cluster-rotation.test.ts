// Rotation of the cluster's key while several agents sign continuously, with a real kube-apiserver: crashes between any two steps, lost
// responses, an API server that is unavailable, a watch that ended unnoticed.
import { dirname } from "node:path";
import { execa } from "execa";
import { describe, expect, it } from "vitest";
import type { Step } from "../../agent/identity/leader-session.ts";
import { ROTATE_KEY_PATH } from "../../common/protocol/enrolment.ts";
import { keyHash } from "../../common/protocol/signature.ts";
import { EnrolmentBackend } from "../fixtures/enrolment-backend.ts";
import type { IdentityAgent } from "../fixtures/identity-agents.ts";
import { IdentityCluster } from "../fixtures/identity-cluster.ts";
import { apiServerOfFile } from "../fixtures/kube-apiserver.ts";
import { Relay } from "../fixtures/relay.ts";
import { call, eventually, ROOT } from "../fixtures/processes.ts";

const DAY_MS = 86_400_000;
const apiServer = apiServerOfFile();

/** Enrols, so that a test starts with a cluster that has one key; returns its hash and the used token. */
async function enrolled(cluster: IdentityCluster, backend: EnrolmentBackend): Promise<{ first: string; installToken: string }> {
  const installToken = backend.newInstallToken();
  await using agent = cluster.agent("enroller", { installToken });
  return { first: await agent.signing(), installToken };
}

function newestHash(backend: EnrolmentBackend): string {
  return keyHash(backend.keys.at(-1)!.apiKey);
}

/** The command `rotate`, as `kubectl exec` runs it in a pod; returns its output. */
async function rotateCommand(cluster: IdentityCluster): Promise<string> {
  const { hostname, port } = new URL(apiServer.kube.url);
  const { stdout } = await execa(process.execPath, ["agent/bin/atherops-k8s-otel-agent.ts", "rotate"], {
    cwd: ROOT,
    env: {
      BACKEND_URL: "https://backend.example",
      CLUSTER_NAME: "test",
      NODE_NAME: "test",
      POD_NAMESPACE: cluster.namespace,
      POD_UID: "test",
      KUBERNETES_SERVICE_HOST: hostname,
      KUBERNETES_SERVICE_PORT: port,
      SERVICE_ACCOUNT_DIR: dirname(cluster.access.tokenFile),
    },
  });
  return stdout;
}

async function allSignWith(agents: IdentityAgent[], wanted: (hash: string) => boolean): Promise<Set<string>> {
  return new Set(await Promise.all(agents.map((agent) => agent.signing(wanted))));
}

/** Status of each call of rotate-key. */
function rotations(backend: EnrolmentBackend): number[] {
  return backend.calls.filter(({ path }) => path === ROTATE_KEY_PATH).map(({ status }) => status);
}

async function tenBeatsOf(agents: IdentityAgent[]): Promise<void> {
  const beats = () => agents.map(({ events }) => events.filter(({ event }) => event === "heartbeat").length);
  const before = beats();
  await eventually("ten heartbeats of each", async () => beats().every((count, index) => count >= before[index]! + 10));
}

/** For each agent: whether its last heartbeats reported that it can sign. */
function signers(agents: IdentityAgent[]): boolean[] {
  return agents.map(({ events }) => events.slice(-5).every((event) => event.event !== "heartbeat" || event.signs));
}

describe("a rotation", () => {
  it.for<Step>(["lease-acquired", "rotation-announced", "rotated", "rotation-stored", "lease-released"])(
    "is completed by the next agent if the leader is killed right after %s, with one current key and one in overlap",
    async (killAfter) => {
      await using backend = await EnrolmentBackend.start();
      await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
      const { first } = await enrolled(cluster, backend);
      backend.aheadMs = 31 * DAY_MS;
      const holder = cluster.agent("holder", { killAfter });
      expect(await holder.ended()).toBe("SIGKILL");
      const next = cluster.agent("next");
      const hash = await next.signing((signer) => signer !== first);
      expect(hash).toBe(newestHash(backend));
      expect(backend.keys).toHaveLength(2);
      expect(next.refusals).toEqual([]);
      await eventually("the Secret is in order", async () => (await cluster.secret()).pendingRotation === undefined);
    },
  );

  it("locks no agent out if its response was lost and the overlap passed before the next agent started", async () => {
    await using backend = await EnrolmentBackend.start();
    await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
    const { first } = await enrolled(cluster, backend);
    backend.aheadMs = 31 * DAY_MS;
    const holder = cluster.agent("holder", { killAfter: "rotated" });
    expect(await holder.ended()).toBe("SIGKILL");
    backend.aheadMs += 10 * 60_000;
    expect(backend.liveKeys().map(({ apiKey }) => keyHash(apiKey))).not.toContain(first);
    const next = cluster.agent("next");
    expect(await next.signing()).toBe(newestHash(backend));
    expect(backend.keys).toHaveLength(2);
  });

  it("happens once if its response is lost", async () => {
    await using backend = await EnrolmentBackend.start();
    await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
    const { first } = await enrolled(cluster, backend);
    backend.loseAnswerOf = ROTATE_KEY_PATH;
    const agents = ["a", "b"].map((name) => cluster.agent(name));
    await allSignWith(agents, () => true);
    await cluster.requestRotation();
    expect(await allSignWith(agents, (hash) => hash !== first)).toEqual(new Set([newestHash(backend)]));
    expect(backend.keys).toHaveLength(2);
  });

  it("by age or on demand reaches five agents without a rejected request", async () => {
    await using backend = await EnrolmentBackend.start();
    await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
    const { first } = await enrolled(cluster, backend);
    const agents = ["a", "b", "c", "d", "e"].map((name) => cluster.agent(name, { heartbeatEveryMs: 20 }));
    await allSignWith(agents, () => true);
    expect(await rotateCommand(cluster)).toContain("rotated: new cluster key created at");
    const second = await allSignWith(agents, (hash) => hash !== first);
    expect(second).toEqual(new Set([newestHash(backend)]));
    backend.aheadMs = 31 * DAY_MS;
    const third = await allSignWith(agents, (hash) => hash !== first && !second.has(hash));
    expect(third).toEqual(new Set([newestHash(backend)]));
    expect(agents.flatMap((agent) => agent.refusals)).toEqual([]);
    expect(backend.keys).toHaveLength(3);
    expect((await cluster.secret()).rotateRequested).toBe(false);
  });

  it("requested again within 5 minutes is rejected immediately in a sentence, and a marked one waits", async () => {
    await using backend = await EnrolmentBackend.start();
    await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
    await enrolled(cluster, backend);
    const agents = ["a", "b", "c"].map((name) => cluster.agent(name));
    await allSignWith(agents, () => true);
    await rotateCommand(cluster);
    await expect(rotateCommand(cluster)).rejects.toThrow(
      /not rotated: the key is less than 5 minutes old, and .* retry in \d+ s; no rotation was requested/,
    );
    expect((await cluster.secret()).rotateRequested).toBe(false);
    await cluster.requestRotation();
    await tenBeatsOf(agents);
    expect(rotations(backend)).toEqual([200]);
    backend.aheadMs += 6 * 60_000;
    await cluster.patchSecret({ "no-rotation-before": new Date().toISOString() });
    await eventually("it is made when its time has come", async () => rotations(backend).length === 2);
    expect(rotations(backend)).toEqual([200, 200]);
  });

  it("that the backend rejects as too early is requested once by all agents, and the command reports it", async () => {
    await using backend = await EnrolmentBackend.start();
    await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
    await enrolled(cluster, backend);
    const agents = ["a", "b", "c", "d", "e"].map((name) => cluster.agent(name));
    await allSignWith(agents, () => true);
    await rotateCommand(cluster);
    // Simulates the Secret of an agent of an earlier version.
    await cluster.patchSecret({ "no-rotation-before": null });
    await expect(rotateCommand(cluster)).rejects.toThrow(
      /not rotated: .* the request stays in Secret .*, and an agent will rotate the key then/,
    );
    await tenBeatsOf(agents);
    expect(rotations(backend)).toEqual([200, 409]);
    expect(signers(agents)).toEqual(agents.map(() => true));
    expect((await cluster.secret()).pendingRotation).toBeUndefined();
  });

  it("that fails does not stop agents from signing, and is repeated once the backend works", async () => {
    await using backend = await EnrolmentBackend.start();
    await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
    await enrolled(cluster, backend);
    const agents = ["a", "b", "c", "d", "e"].map((name) => cluster.agent(name));
    await allSignWith(agents, () => true);
    backend.failing = ROTATE_KEY_PATH;
    await cluster.requestRotation();
    await eventually("it was tried a few times", async () => rotations(backend).filter((status) => status === 500).length >= 4);
    await tenBeatsOf(agents);
    expect(signers(agents)).toEqual(agents.map(() => true));
    backend.failing = undefined;
    await eventually("it is made", async () => rotations(backend).includes(200));
  });

  it("by age is learnt from responses to telemetry and to heartbeats", async () => {
    await using backend = await EnrolmentBackend.start();
    await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
    const { first } = await enrolled(cluster, backend);
    const agent = cluster.agent("a", { proxy: true, heartbeatEveryMs: 3_600_000 });
    await agent.signing();
    backend.aheadMs = 31 * DAY_MS;
    const port = agent.events.find((event) => event.event === "proxy")?.port;
    const post = () => call("POST", `http://127.0.0.1:${port}/v1/logs`, { body: { resourceLogs: [] } });
    expect((await post()).status).toBe(200);
    await eventually("it has rotated", async () => agent.steps.includes("rotation-stored"));
    const signer = async () => (await post()) && backend.calls.findLast(({ path }) => path === "/ingest/logs/otlp")?.keyHash;
    await eventually("telemetry is signed with the new key", async () => (await signer()) === newestHash(backend));
    expect(newestHash(backend)).not.toBe(first);
  });

  it("by age never happens if KEY_ROTATION_DAYS is 0", async () => {
    await using backend = await EnrolmentBackend.start();
    await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
    await enrolled(cluster, backend);
    backend.aheadMs = 1000 * DAY_MS;
    const agent = cluster.agent("a", { keyRotationDays: 0 });
    await agent.signing();
    await eventually("ten heartbeats", async () => agent.events.filter(({ event }) => event === "heartbeat").length >= 10);
    expect(backend.keys).toHaveLength(1);
    expect(agent.steps).toEqual([]);
  });
});

describe("during a rotation", () => {
  it("an unavailable API server stops no agent from signing, and the rotation is completed when it is back", async () => {
    await using backend = await EnrolmentBackend.start();
    await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
    const { first } = await enrolled(cluster, backend);
    const agents = ["a", "b", "c"].map((name) => cluster.agent(name));
    await allSignWith(agents, () => true);
    backend.hold(ROTATE_KEY_PATH);
    await cluster.requestRotation();
    await backend.held();
    await apiServer.kube.stopServer();
    backend.release();
    await eventually("the answer is here, and cannot be stored", async () => backend.keys.length === 2);
    const beats = () => agents.map((agent) => agent.events.filter(({ event }) => event === "heartbeat").length);
    const before = beats();
    await eventually("all go on signing", async () => beats().every((count, index) => count > before[index]! + 5));
    expect(agents.map((agent) => agent.signsWith)).toEqual([first, first, first]);
    await apiServer.kube.startServer();
    expect(await allSignWith(agents, (hash) => hash !== first)).toEqual(new Set([newestHash(backend)]));
    expect(backend.keys).toHaveLength(2);
    expect(agents.flatMap((agent) => agent.refusals)).toEqual([]);
  });

  it("an agent whose connections all broke silently signs with the new key, and starts a new watch", async () => {
    await using backend = await EnrolmentBackend.start();
    await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
    await using relay = await Relay.start(Number(new URL(apiServer.kube.url).port));
    const { first } = await enrolled(cluster, backend);
    const server = `https://127.0.0.1:${relay.port}`;
    const deaf = cluster.agent("deaf", { kubernetes: { ...cluster.access, server }, keyRotationDays: 0 });
    const hearing = cluster.agent("hearing");
    await allSignWith([deaf, hearing], () => true);
    const news = () => deaf.log.split("watch on the Secret reported a change").length - 1;
    await eventually("its watch is up", async () => news() > 0);
    const before = news();
    relay.freeze();
    backend.aheadMs = 31 * DAY_MS;
    expect(await allSignWith([deaf, hearing], (hash) => hash !== first)).toEqual(new Set([newestHash(backend)]));
    // However it found out: by a poll's silence, which ends all connections, or by a poll on a fresh one that knew more than the watch.
    await eventually("it watches anew", async () => news() > before);
    expect(deaf.refusals).toEqual([]);
  });
});
