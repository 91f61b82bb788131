import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { PodJson, PodListJson, WatchEvent } from "../kubernetes/api.ts";
import { KubernetesError } from "../kubernetes/transport.ts";
import { NodePods, type PodChange, slimPod } from "./node-pods.ts";

type Step = WatchEvent<PodJson> | Error | "end";

/** What the API server does next: it answers lists in order, and a watch returns the events of `send` one by one. */
class ScriptedApi {
  readonly lists: (PodListJson | Error)[] = [];
  /** `resourceVersion` of each call. */
  readonly listed: string[] = [];
  readonly watched: string[] = [];
  readonly #steps: Step[] = [];
  #wake: (() => void) | undefined;

  send(...steps: Step[]): void {
    this.#steps.push(...steps);
    this.#wake?.();
  }

  async listPods(nodeName: string, resourceVersion: string): Promise<PodListJson> {
    expect(nodeName).toBe("node-1");
    this.listed.push(resourceVersion);
    const answer = this.lists.shift() ?? new Error("away");
    if (answer instanceof Error) throw answer;
    return answer;
  }

  async *watchPods({ resourceVersion }: { resourceVersion: string }, _time: unknown, signal: AbortSignal) {
    this.watched.push(resourceVersion);
    while (!signal.aborted) {
      const step = this.#steps.shift();
      if (step === "end") return;
      if (step instanceof Error) throw step;
      if (step) yield step;
      else await this.#more(signal);
    }
  }

  #more(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }
}

const pod = (uid: string, resourceVersion: string, name = uid): PodJson => ({
  metadata: { name, namespace: "shop", uid, resourceVersion },
  spec: { nodeName: "node-1", containers: [{ name: "app" }] },
  status: { phase: "Running" },
});
const list = (resourceVersion: string, ...items: PodJson[]): PodListJson => ({ metadata: { resourceVersion }, items });
const event = (type: WatchEvent<PodJson>["type"], object: PodJson): WatchEvent<PodJson> => ({ type, object });
const gone = new KubernetesError(410, "Expired", "too old resource version");

let api: ScriptedApi;
let pods: NodePods;
let seen: string[];
/** Events of the log. */
let logged: unknown[];

beforeEach(() => {
  api = new ScriptedApi();
  const keptFields = { labels: [], annotations: [] };
  logged = [];
  const log = pino({}, { write: (line: string) => logged.push((JSON.parse(line) as { event?: string }).event) });
  pods = new NodePods({ api, nodeName: "node-1", keptFields, log, backoffMs: [1, 5] });
  seen = [];
  pods.onChange(({ type, pod }: PodChange) => {
    const { name, resourceVersion } = (JSON.parse(pod) as PodJson).metadata;
    seen.push(`${type} ${String(name)} ${resourceVersion}`);
  });
});
afterEach(() => pods[Symbol.asyncDispose]());

/** Waits for this number of changes. */
const seenChanges = (count: number) => expect.poll(() => seen.length).toBeGreaterThanOrEqual(count);

test("sends no request before its start, then one list and one watch, however often it is started", async () => {
  api.lists.push(list("10", pod("a", "7")));
  await new Promise((resolve) => void setImmediate(resolve));
  expect(api.listed).toEqual([]);
  pods.start();
  pods.start();
  await pods.known;
  api.send(event("ADDED", pod("b", "11")), event("MODIFIED", pod("a", "12")), event("DELETED", pod("b", "13")));
  await seenChanges(4);
  expect([api.listed, api.watched]).toEqual([["0"], ["10"]]);
  expect(seen).toEqual(["ADDED a 7", "ADDED b 11", "MODIFIED a 12", "DELETED b 13"]);
  expect([...pods.pods].map((text) => (JSON.parse(text) as PodJson).metadata.uid)).toEqual(["a"]);
});

test("continues a watch that ended from the last bookmark, without a list", async () => {
  api.lists.push(list("10", pod("a", "7")));
  pods.start();
  api.send(event("BOOKMARK", pod("", "20")), "end");
  await expect.poll(() => api.watched).toEqual(["10", "20"]);
  expect(api.listed).toHaveLength(1);
  expect(pods.version, "a bookmark is no change of a pod").toBe("10");
});

test("has no pods before the first response, and reports errors", async () => {
  api.lists.push(new Error("ECONNREFUSED"));
  pods.start();
  await expect.poll(() => (pods.problem as Error | undefined)?.message).toMatch(/ECONNREFUSED|away/);
  expect(pods.isKnown).toBe(false);
  api.lists.push(list("10"));
  await pods.known;
  expect([pods.isKnown, pods.problem]).toEqual([true, undefined]);
  expect(logged, "logged by the caller that waits").not.toContain("pods.watch_failed");
});

test("retries immediately, without the backoff, for a caller that waits for the first list", async () => {
  await using slow = new NodePods({
    api,
    nodeName: "node-1",
    keptFields: { labels: [], annotations: [] },
    log: pino({ level: "silent" }),
    backoffMs: [600_000, 600_000],
  });
  slow.start();
  await expect.poll(() => slow.problem).toBeDefined();
  api.lists.push(list("10"));
  slow.start();
  await slow.known;
});

test("keeps its pods while the API server is away, and reports changes afterwards", async () => {
  api.lists.push(list("10", pod("a", "7"), pod("b", "8"), pod("old", "9", "db-0")));
  pods.start();
  await pods.known;
  seen.length = 0;
  api.send(new Error("terminated"), new Error("ECONNREFUSED"));
  await expect.poll(() => api.watched.length).toBe(3);
  expect([...pods.pods]).toHaveLength(3);
  expect([seen, logged]).toEqual([[], ["pods.watch_failed"]]);
  api.lists.push(list("30", pod("a", "7"), pod("b", "25"), pod("new", "28", "db-0")));
  api.send(gone);
  await seenChanges(3);
  expect(seen).toEqual(["DELETED db-0 9", "MODIFIED b 25", "ADDED db-0 28"]);
  expect(api.listed, "not older than what is known").toEqual(["0", "10"]);
});

test("requests the stored version from a server that has not reached the newest one", async () => {
  api.lists.push(list("10", pod("a", "7")));
  pods.start();
  await pods.known;
  api.lists.push(new KubernetesError(504, "Timeout", "Too large resource version: 10, current: 5"), list("5", pod("b", "4")));
  api.send(gone);
  await seenChanges(3);
  expect(api.listed).toEqual(["0", "10", ""]);
  expect(seen).toEqual(["ADDED a 7", "DELETED a 7", "ADDED b 4"]);
});

const KEPT = { labels: ["team"], annotations: ["atherops.io/logs", "prometheus.io/scrape", "owner"] };
const POD: PodJson = {
  metadata: {
    name: "web-1",
    namespace: "shop",
    uid: "u",
    resourceVersion: "7",
    generateName: "web-",
    labels: { team: "a", "pod-template-hash": "x" },
    annotations: { "prometheus.io/scrape": "true", "atherops.io/logs": "false", "kubectl.kubernetes.io/last-applied-configuration": "{}" },
    ownerReferences: [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-5", uid: "r", controller: true, blockOwnerDeletion: true }],
    managedFields: [{ manager: "kubelet" }],
  },
  spec: {
    nodeName: "node-1",
    hostNetwork: true,
    containers: [
      { name: "app", image: "x", env: [{ name: "A", value: "secret" }], args: ["secret"], ports: [{ containerPort: 80, hostPort: 80 }] },
    ],
    volumes: [{ name: "v" }],
  },
  status: { phase: "Running", podIP: "10.0.0.1", podIPs: [{ ip: "10.0.0.1" }], qosClass: "Burstable" },
};

test("keeps of a pod its identity, node, owner, ports, and the named labels and annotations", () => {
  expect(JSON.parse(slimPod(POD, KEPT))).toEqual({
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: "web-1",
      namespace: "shop",
      uid: "u",
      resourceVersion: "7",
      labels: { team: "a" },
      annotations: { "prometheus.io/scrape": "true", "atherops.io/logs": "false" },
      ownerReferences: [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-5", uid: "r", controller: true }],
    },
    spec: { nodeName: "node-1", hostNetwork: true, containers: [{ name: "app", ports: [{ containerPort: 80 }] }] },
    status: { phase: "Running", podIP: "10.0.0.1", podIPs: [{ ip: "10.0.0.1" }] },
  });
});

test("gives a static pod the uid of its manifest, which its log path contains", () => {
  const withMirror = (value: string): string =>
    slimPod({ ...POD, metadata: { ...POD.metadata, annotations: { "kubernetes.io/config.mirror": value } } }, KEPT);
  expect(JSON.parse(withMirror("1b5a-0000"))).toMatchObject({ metadata: { uid: "1b5a-0000" } });
  expect(JSON.parse(withMirror("0123456789abcdef0123456789abcdef"))).toMatchObject({ metadata: { uid: "u" } });
});

test.each([
  ["ports", { spec: { containers: [{ name: "app", ports: Array.from({ length: 20_000 }, (_, i) => ({ containerPort: i + 1 })) }] } }],
  ["an annotation", { annotations: { owner: "x".repeat(200_000) } }],
  ["owners", { ownerReferences: [{ kind: "x".repeat(200_000) }] }],
])("limits the memory of a pod that is huge by %s, and keeps its identity and its log opt-in", (_what, more) => {
  const { spec, annotations, ...metadata } = more as { spec?: object; annotations?: object; ownerReferences?: object[] };
  const huge = {
    ...POD,
    metadata: { ...POD.metadata, ...metadata, annotations: { ...annotations, "atherops.io/logs": "false" } },
    spec: { ...POD.spec, ...spec },
  };
  const text = slimPod(huge, KEPT);
  expect(text.length).toBeLessThan(64 * 1024);
  expect(JSON.parse(text)).toMatchObject({
    metadata: { name: "web-1", labels: { team: "a" }, annotations: { "atherops.io/logs": "false" } },
    status: { podIP: "10.0.0.1" },
  });
});

test("keeps the labels that fit of a pod with huge labels", () => {
  const labels = Object.fromEntries(Array.from({ length: 6500 }, (_, i) => [`example.com/${"k".repeat(55)}${i}`, "v".repeat(63)]));
  const text = slimPod({ ...POD, metadata: { ...POD.metadata, labels: { app: "web", ...labels } } }, { ...KEPT, labels: "all" });
  expect(text.length).toBeGreaterThan(60 * 1024);
  expect(text.length).toBeLessThanOrEqual(64 * 1024);
  expect(JSON.parse(text)).toMatchObject({ metadata: { name: "web-1", labels: { app: "web" } }, status: { podIP: "10.0.0.1" } });
});

test("resolves all pods once for many policy changes, and a new pod immediately", async () => {
  api.lists.push(list("10", pod("a", "7")));
  let redact = "none";
  const resolved: string[] = [];
  const policies = {
    resolve: (source: string) => (resolved.push(`${(JSON.parse(source) as PodJson).metadata.uid} ${redact}`), source),
    known: Promise.resolve(),
    changed: () => {},
    sources: (): Iterable<string> => [],
  };
  const keptFields = { labels: [], annotations: [] };
  await using followed = new NodePods({ api, nodeName: "node-1", keptFields, log: pino({ level: "silent" }), backoffMs: [1, 5], policies });
  followed.start();
  await followed.known;
  for (let i = 0; i < 500; i += 1) {
    redact = String(i);
    policies.changed();
  }
  api.send(event("ADDED", pod("b", "11")));
  await expect.poll(() => resolved, { timeout: 30_000 }).toContain("a 499");
  await expect.poll(() => resolved).toContain("b 499");
  redact = "last";
  policies.changed();
  policies.changed();
  await expect.poll(() => resolved, { timeout: 30_000 }).toEqual(expect.arrayContaining(["a last", "b last"]));
  expect(resolved.filter((line) => line.startsWith("a "))).toEqual(["a none", "a 499", "a last"]);
});
