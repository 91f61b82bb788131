import { once } from "node:events";
import { Agent, request, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { createInterface, type Interface } from "node:readline";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { PodChange } from "./node-pods.ts";
import { PodRelay, type PodRelayOptions } from "./relay.ts";
import { stub } from "../../test/fixtures/stub.ts";

const NODE = "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1";
const podText = (name: string, resourceVersion: string, padding = "") =>
  JSON.stringify({ kind: "Pod", apiVersion: "v1", metadata: { name, resourceVersion, padding } });

/** The pods that the agent knows; the test sets them. */
class Pods {
  readonly all = new Map<string, string>();
  version = "";
  started = 0;
  isKnown = false;
  readonly listeners = new Set<(change: PodChange) => void>();
  readonly #known = Promise.withResolvers<void>();
  readonly known = this.#known.promise;

  start(): void {
    this.started += 1;
  }

  get pods(): Iterable<string> {
    return this.all.values();
  }

  become(version: string, ...names: string[]): void {
    for (const name of names) this.all.set(name, podText(name, version));
    this.version = version;
    this.isKnown = true;
    this.#known.resolve();
  }

  change(type: PodChange["type"], name: string, version: string, padding = ""): void {
    this.version = version;
    for (const listener of this.listeners) listener({ type, pod: podText(name, version, padding) });
  }

  onChange(listener: (change: PodChange) => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }
}

let pods: Pods;
let relay: PodRelay;
const open: IncomingMessage[] = [];

beforeEach(async () => {
  pods = new Pods();
  relay = await PodRelay.start({ pods: stub<PodRelayOptions["pods"]>(pods), nodeName: "node-1", maxUnreadBytes: 100_000 });
});
afterEach(async () => {
  for (const answer of open.splice(0)) answer.destroy();
  await relay[Symbol.asyncDispose]();
});

function keptAlive(): Agent & Disposable {
  const agent = new Agent({ keepAlive: true });
  return Object.assign(agent, { [Symbol.dispose]: () => agent.destroy() });
}

async function get(path: string, options: { auth?: string; method?: string; agent?: Agent } = {}): Promise<IncomingMessage> {
  const url = new URL(path, relay.url);
  const { username, password, hostname, port } = new URL(relay.url);
  const sent = request({ hostname, port, path: url.pathname + url.search, auth: `${username}:${password}`, agent: false, ...options });
  sent.end();
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  open.push(answer);
  return answer;
}

interface Event {
  type: string;
  object: { metadata: { name?: string; resourceVersion: string; annotations?: Record<string, string> } };
}

/** `TYPE name version` of the next events. */
async function next(lines: AsyncIterator<string>, count: number): Promise<string[]> {
  const found: string[] = [];
  while (found.length < count) {
    const { value } = await lines.next();
    const { type, object } = JSON.parse(value as string) as Event;
    const end = object.metadata.annotations?.["k8s.io/initial-events-end"] === "true" ? " end" : "";
    found.push(`${type} ${object.metadata.name ?? ""} ${object.metadata.resourceVersion}${end}`);
  }
  return found;
}
const linesOf = (answer: IncomingMessage): AsyncIterator<string> => {
  const lines: Interface = createInterface({ input: answer });
  return lines[Symbol.asyncIterator]();
};

test("limits connections of unauthenticated clients, and keeps the collector's", async () => {
  pods.become("10", "a");
  using agent = keptAlive();
  const connections = [];
  for (const auth of [undefined, "collector:guess"])
    connections.push((await get(NODE, { agent, ...(auth && { auth }) })).headers.connection);
  expect(connections).toEqual(["keep-alive", "close"]);
});

test("closes a connection that sends no request", { timeout: 20_000 }, async () => {
  const silent = connect(Number(new URL(relay.url).port), "127.0.0.1").resume();
  await once(silent, "close");
  expect(silent.bytesRead).toBeGreaterThan(0);
});

describe("a caller", () => {
  test.each([
    ["without this run's password", NODE, { auth: "collector:guess" }, 401],
    ["without any", NODE, { auth: "" }, 401],
    ["that asks for something else", "/api/v1/secrets", {}, 404],
    ["that asks for pods of a namespace", `/api/v1/namespaces/shop/pods?fieldSelector=spec.nodeName%3Dnode-1`, {}, 404],
    ["that asks for all pods", "/api/v1/pods", {}, 400],
    ["that asks for another node's", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-2", {}, 400],
    ["that selects by label", `${NODE}&labelSelector=a%3Db`, {}, 400],
    ["that would change something", NODE, { method: "DELETE" }, 405],
  ])("%s is rejected with an API error, without a request to the API server", async (_what, path, options, status) => {
    pods.become("10", "a");
    const answer = await get(path, options);
    expect(answer.statusCode).toBe(status);
    expect(JSON.parse(await text(answer))).toMatchObject({ kind: "Status", status: "Failure", code: status });
    expect(pods.started).toBe(0);
  });

  test("waits until the pods are known, instead of an empty list", async () => {
    const asked = get(NODE);
    await expect.poll(() => pods.started).toBe(1);
    pods.become("10", "a");
    expect(JSON.parse(await text(await asked))).toMatchObject({
      kind: "PodList",
      metadata: { resourceVersion: "10" },
      items: [{ kind: "Pod" }],
    });
  });
});

describe("a watch", () => {
  test("that streams its list gets all pods, the bookmark at their end, and each later change", async () => {
    pods.become("10", "a", "b");
    const lines = linesOf(
      await get(`${NODE}&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true`),
    );
    expect(await next(lines, 3)).toEqual(["ADDED a 10", "ADDED b 10", "BOOKMARK  10 end"]);
    pods.change("MODIFIED", "a", "11");
    pods.change("DELETED", "b", "12");
    expect(await next(lines, 2)).toEqual(["MODIFIED a 11", "DELETED b 12"]);
  });

  test("without a version starts with all pods, one at the present version with the next change", async () => {
    pods.become("10", "a");
    const anew = linesOf(await get(`${NODE}&watch=1`));
    const on = linesOf(await get(`${NODE}&watch=1&resourceVersion=10`));
    await expect.poll(() => pods.listeners.size).toBe(2);
    pods.change("ADDED", "b", "11");
    expect(await next(anew, 2)).toEqual(["ADDED a 10", "ADDED b 11"]);
    expect(await next(on, 1)).toEqual(["ADDED b 11"]);
  });

  test("at any other version has to list again, as with an API server that has compacted it", async () => {
    pods.become("10", "a");
    const answer = await get(`${NODE}&watch=1&resourceVersion=9`);
    expect(answer.statusCode).toBe(410);
    expect(JSON.parse(await text(answer))).toMatchObject({ kind: "Status", reason: "Expired", code: 410 });
  });

  test("whose client disconnects is removed", async () => {
    pods.become("10", "a");
    const answer = await get(`${NODE}&watch=1`);
    await expect.poll(() => pods.listeners.size).toBe(1);
    answer.destroy();
    await expect.poll(() => pods.listeners.size).toBe(0);
  });

  test("whose client does not read is closed, and the others continue", async () => {
    pods.become("10", "a");
    const reader = linesOf(await get(`${NODE}&watch=1&resourceVersion=10`));
    const idle = await get(`${NODE}&watch=1&resourceVersion=10`);
    idle.pause();
    await expect.poll(() => pods.listeners.size).toBe(2);
    const long = "x".repeat(50_000);
    for (let version = 11; pods.listeners.size === 2; version += 1) {
      expect(version).toBeLessThan(2000);
      pods.change("MODIFIED", "a", String(version), long);
      await next(reader, 1);
    }
    pods.change("DELETED", "a", "9999");
    expect(await next(reader, 1)).toEqual(["DELETED a 9999"]);
  });
});

test("a Kubernetes client connects with the kubeconfig and the password of this run", () => {
  const config = JSON.parse(relay.kubeconfig) as { clusters: { cluster: { server: string } }[]; "current-context": string };
  expect(config.clusters[0]?.cluster.server).toBe(relay.url);
  expect(new URL(relay.url)).toMatchObject({ protocol: "http:", hostname: "127.0.0.1", username: "collector" });
});
