import { pino } from "pino";
import { expect, test } from "vitest";
import type { ObjectJson, ObjectListJson, WatchEvent } from "../kubernetes/api.ts";
import { KubernetesError, TooLargeError } from "../kubernetes/transport.ts";
import { MAX_POD_TARGETS_CHARACTERS } from "../agent-limits.ts";
import { slimPod } from "../pods/node-pods.ts";
import { serviceMonitor, SHOP } from "./monitors.fixture.ts";
import { Monitors } from "./monitors.ts";
import type { Monitor } from "./monitor-objects.ts";
import type { ObjectsApi } from "../kubernetes/object-watch.ts";

/** An API server with the kinds that `lists` has; changes are sent by `send`. */
class Api {
  readonly lists: Record<string, ObjectJson[]> = {};
  readonly forbidden = new Set<string>();
  readonly #watches = new Map<string, (event: WatchEvent<ObjectJson>) => void>();

  async listObjects(path: string): Promise<ObjectListJson> {
    const items = this.lists[path];
    if (this.forbidden.has(path)) throw new KubernetesError(403, "Forbidden", "cannot list resource");
    if (!items) throw new KubernetesError(404, "NotFound", "the server could not find the requested resource");
    return Promise.resolve({ metadata: { resourceVersion: "1" }, items });
  }

  async *watchObjects(path: string, _version: string, _time: unknown, signal: AbortSignal): AsyncGenerator<WatchEvent<ObjectJson>> {
    while (!signal.aborted) {
      const { promise, resolve, reject } = Promise.withResolvers<WatchEvent<ObjectJson>>();
      signal.addEventListener("abort", () => reject(new Error("stopped")));
      this.#watches.set(path, resolve);
      yield await promise;
    }
  }

  watches(path: string): boolean {
    return this.#watches.has(path);
  }

  send(path: string, event: WatchEvent<ObjectJson>): void {
    this.#watches.get(path)?.(event);
    this.#watches.delete(path);
  }
}

const SERVICE_MONITORS = "/apis/monitoring.coreos.com/v1/servicemonitors";
const SERVICES = "/api/v1/services";
const PODS = { pods: [], version: "1" };

function object({ metadata, spec }: Pick<Monitor, "metadata"> & { spec: unknown }): ObjectJson {
  return { metadata: { ...metadata, uid: metadata.name, resourceVersion: "2" }, spec };
}

test("updates jobs from monitors and Services at most every ten seconds, and treats a missing CRD as empty", async () => {
  const api = new Api();
  const monitor = serviceMonitor({ port: "metrics" });
  api.lists[SERVICE_MONITORS] = [
    object(monitor),
    object({ ...serviceMonitor({ port: "metrics", proxyUrl: "http://x" }), metadata: { name: "bad", namespace: "shop" } }),
  ];
  api.lists[SERVICES] = [object(SHOP)];
  let nowMs = 0;
  const lines: string[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => void lines.push(line) });
  await using monitors = new Monitors({ api, pods: PODS, intervalMs: 30_000, acrossNamespaces: [], log, nowMs: () => nowMs });
  await expect.poll(() => monitors.jobs().size).toBe(1);
  const before = monitors.jobs();
  expect(monitors.status()).toEqual({ jobs: 1, dropped: 0, refused: { "ServiceMonitor shop/bad": "proxyUrl is not supported" } });

  await expect.poll(() => api.watches(SERVICE_MONITORS)).toBe(true);
  api.send(SERVICE_MONITORS, { type: "DELETED", object: object(monitor) });
  await expect.poll(() => api.watches(SERVICE_MONITORS)).toBe(true);
  nowMs = 9_000;
  expect(monitors.jobs()).toBe(before);
  nowMs = 10_000;
  expect(monitors.jobs().size).toBe(0);
  expect(lines.filter((line) => line.includes("monitors.refused"))).toHaveLength(1);
});

test("starts a collector without jobs so that none can prevent its start, and adds their targets later", async () => {
  const api = new Api();
  api.lists[SERVICE_MONITORS] = [object(serviceMonitor({ port: "metrics" }))];
  api.lists[SERVICES] = [object(SHOP)];
  const ports = [{ name: "http-metrics", containerPort: 9100 }];
  const pod = (name: string, tier: string, podIP: string): string =>
    slimPod(
      {
        metadata: { name, namespace: "shop", uid: name, resourceVersion: "1", labels: { app: "web", tier } },
        spec: { containers: [{ name: "app", ports }] },
        status: { podIP },
      },
      { labels: "all", annotations: [] },
    );
  const pods = { pods: [pod("web-1", "a.b", "10.0.0.1"), pod("web-2", "a.b", "fd00::2"), pod("other", "x", "10.0.0.3")], version: "1" };
  const log = pino({ level: "silent" });
  await using monitors = new Monitors({ api, pods, intervalMs: 30_000, acrossNamespaces: [], log });
  await expect.poll(() => monitors.jobs().size).toBe(1);
  expect(monitors.answer("/scrape_configs")).toBe("{}");
  const name = "ServiceMonitor shop/web/0/shop/web";
  expect(JSON.parse(monitors.answer("/scrape_configs") ?? "")).toMatchObject({ [name]: { job_name: name } });
  const targets = JSON.parse(monitors.answer(`/jobs/${encodeURIComponent(name).replaceAll("%20", "+")}/targets`) ?? "");
  expect(targets).toMatchObject([
    {
      targets: ["10.0.0.1:9100"],
      labels: { __meta_kubernetes_pod_name: "web-1", __meta_kubernetes_pod_container_port_name: "http-metrics" },
    },
    { targets: ["[fd00::2]:9100"], labels: { __meta_kubernetes_pod_label_tier: "a.b", __meta_kubernetes_pod_labelpresent_tier: "true" } },
  ]);
  monitors.collectorStarts();
  expect(monitors.answer("/scrape_configs")).toBe("{}");
  expect(monitors.answer("/api/v1/pods")).toBeUndefined();
});

test("lists large pages in smaller ones, and limits a namespace with many large monitors", async () => {
  const limits: number[] = [];
  const large = (name: string): ObjectJson =>
    object({ ...serviceMonitor({ port: "metrics", params: { x: ["y".repeat(900_000)] } }), metadata: { name, namespace: "greedy" } });
  const items = [...["a", "b", "c", "d"].map(large), object(serviceMonitor({ port: "metrics" }))];
  const api: ObjectsApi = {
    listObjects: async (path, { limit, from = "0", maxBytes }) => {
      const others = path === SERVICES ? [object(SHOP)] : [];
      if (path !== SERVICE_MONITORS) return Promise.resolve({ metadata: { resourceVersion: "1" }, items: others });
      limits.push(limit);
      const page = items.slice(Number(from), Number(from) + limit);
      if (JSON.stringify(page).length > maxBytes / 2) throw new TooLargeError("too large");
      const end = Number(from) + limit;
      return Promise.resolve({ metadata: { resourceVersion: "1", ...(end < items.length && { continue: String(end) }) }, items: page });
    },
    watchObjects: async function* (_path, _version, _time, signal) {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      yield* [];
    },
  };
  const log = pino({ level: "silent" });
  await using monitors = new Monitors({ api, pods: PODS, intervalMs: 30_000, acrossNamespaces: [], log });
  await expect.poll(() => monitors.status().dropped).toBe(2);
  expect(limits).toEqual([256, 64, 16, 4, 1, 1, 1, 1, 1]);
  await expect.poll(() => [...monitors.jobs().keys()]).toEqual(["ServiceMonitor shop/web/0/shop/web"]);
});

test("limits a pod with many labels and ports, and logs it once", async () => {
  const api = new Api();
  api.lists[SERVICE_MONITORS] = [object(serviceMonitor({ port: "metrics" }))];
  api.lists[SERVICES] = [object(SHOP)];
  const many = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`label-${i}`, "x".repeat(60)]));
  const ports = Array.from({ length: 300 }, (_, i) => ({ name: "http-metrics", containerPort: i + 1 }));
  const pod = (namespace: string, labels: Record<string, string>): string =>
    JSON.stringify({
      metadata: { name: "a", namespace, uid: "a", labels },
      spec: { containers: [{ name: "a", ports }] },
      status: { podIP: "10.0.0.1" },
    });
  const pods = { pods: [pod("shop", { ...many, app: "web", tier: "a.b" }), pod("other", many)], version: "1" };
  const lines: string[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => void lines.push(line) });
  await using monitors = new Monitors({ api, pods, intervalMs: 30_000, acrossNamespaces: [], log });
  await expect.poll(() => monitors.jobs().size).toBe(1);
  for (const version of ["1", "2"]) {
    pods.version = version;
    const answer = monitors.answer("/jobs/ServiceMonitor%20shop%2Fweb%2F0%2Fshop%2Fweb/targets") ?? "";
    expect(answer.length).toBeLessThanOrEqual(MAX_POD_TARGETS_CHARACTERS + 100);
    expect((JSON.parse(answer) as unknown[]).length).toBeGreaterThan(3);
  }
  expect(lines).toEqual([expect.stringContaining('"event":"monitors.pod_truncated","pod":"shop/a"')]);
});

test("limits targets of all jobs together, and rejects a Probe and a ScrapeConfig by name", async () => {
  const api = new Api();
  const small = object({ ...serviceMonitor({ port: "admin" }), metadata: { name: "small", namespace: "shop" } });
  api.lists[SERVICE_MONITORS] = [object(serviceMonitor({ port: "metrics" })), small];
  api.lists[SERVICES] = [object(SHOP)];
  const foreign = { metadata: { name: "outside", namespace: "shop" }, spec: {} };
  api.lists["/apis/monitoring.coreos.com/v1/probes"] = [object(foreign)];
  api.lists["/apis/monitoring.coreos.com/v1alpha1/scrapeconfigs"] = [
    object(foreign),
    object({ metadata: { name: "left", namespace: "shop", labels: { "atherops.io/scrape": "false" } }, spec: {} }),
  ];
  const pod = (i: number, ports: object[]): string =>
    JSON.stringify({
      metadata: { name: `web-${i}`, namespace: "shop", uid: `${i}`, labels: { app: "web", tier: "a.b" } },
      spec: { containers: [{ name: "a", ports }] },
      status: { podIP: `10.0.0.${i}` },
    });
  const ports = Array.from({ length: 20 }, (_, i) => ({ name: "http-metrics", containerPort: i + 1 }));
  const pods = { pods: Array.from({ length: 20 }, (_, i) => pod(i, ports)), version: "1" };
  const lines: string[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => void lines.push(line) });
  const options = { api, intervalMs: 30_000, acrossNamespaces: [], log, maxTargetsCharacters: 100_000 };
  await using monitors = new Monitors({ ...options, pods });
  await expect.poll(() => monitors.jobs().size).toBe(2);
  const targetsOf = (name: string): string => monitors.answer(`/jobs/ServiceMonitor%20shop%2F${name}%2F0%2Fshop%2Fweb/targets`) ?? "";
  targetsOf("small");
  const [first, second] = [targetsOf("web"), targetsOf("small")];
  expect(first.length + second.length).toBeLessThan(100_000 + 1000);
  expect([first, second].map((answer) => (JSON.parse(answer) as unknown[]).length).every((count) => count > 3)).toBe(true);
  const why = expect.stringContaining("can name addresses other than pods");
  expect(monitors.status().refused).toEqual({ "Probe shop/outside": why, "ScrapeConfig shop/outside": why });
  expect(lines.filter((line) => line.includes("monitors.refused"))).toHaveLength(2);
  expect(lines.filter((line) => line.includes("monitors.targets_truncated")).length).toBeGreaterThan(0);
});

test("scrapes monitors if listing Probes and ScrapeConfigs is forbidden", async () => {
  const api = new Api();
  api.lists[SERVICE_MONITORS] = [object(serviceMonitor({ port: "metrics" }))];
  api.lists[SERVICES] = [object(SHOP)];
  api.forbidden.add("/apis/monitoring.coreos.com/v1/probes").add("/apis/monitoring.coreos.com/v1alpha1/scrapeconfigs");
  const log = pino({ level: "silent" });
  await using monitors = new Monitors({ api, intervalMs: 30_000, acrossNamespaces: [], log, pods: PODS });
  await expect.poll(() => monitors.jobs().size).toBe(1);
});
