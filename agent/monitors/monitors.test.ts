import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import type { ObjectJson, ObjectListJson, WatchEvent } from "../kubernetes/api.ts";
import { KubernetesError } from "../kubernetes/transport.ts";
import { serviceMonitor, SHOP } from "./monitors.fixture.ts";
import { Monitors } from "./monitors.ts";
import type { Monitor } from "./monitor-objects.ts";

/** An API server with the kinds that `lists` has; changes are sent by `send`. */
class Api {
  readonly lists: Record<string, ObjectJson[]> = {};
  readonly #watches = new Map<string, (event: WatchEvent<ObjectJson>) => void>();

  async listObjects(path: string): Promise<ObjectListJson> {
    const items = this.lists[path];
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
const stack = new AsyncDisposableStack();
afterEach(() => stack[Symbol.asyncDispose]());

function object({ metadata, spec }: Pick<Monitor, "metadata"> & { spec: unknown }): ObjectJson {
  return { metadata: { ...metadata, uid: metadata.name }, spec };
}

test("jobs follow monitors and Services, at most once a minute, and a kind that is not installed counts as none", async () => {
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
  const monitors = stack.use(new Monitors({ api, intervalMs: 30_000, log, nowMs: () => nowMs }));
  await expect.poll(() => monitors.jobs()).toHaveLength(1);
  const before = monitors.jobs();
  expect(monitors.status()).toEqual({ jobs: 1, refused: { "ServiceMonitor shop/bad": "proxyUrl is not supported" } });

  await expect.poll(() => api.watches(SERVICE_MONITORS)).toBe(true);
  api.send(SERVICE_MONITORS, { type: "DELETED", object: object(monitor) });
  await expect.poll(() => api.watches(SERVICE_MONITORS)).toBe(true);
  nowMs = 59_000;
  expect(monitors.jobs()).toBe(before);
  nowMs = 60_000;
  expect(monitors.jobs()).toEqual([]);
  expect(lines.filter((line) => line.includes("monitors.refused"))).toHaveLength(1);
});
