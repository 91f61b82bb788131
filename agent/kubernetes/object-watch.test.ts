import { expect, test } from "vitest";
import type { ObjectJson, WatchEvent } from "./api.ts";
import { KubernetesError } from "./transport.ts";
import { ObjectWatch, type ObjectsApi } from "./object-watch.ts";

const object = (namespace: string, name: string, size: number): ObjectJson => ({
  metadata: { name, namespace, uid: `${namespace}/${name}`, resourceVersion: "1" },
  spec: "x".repeat(size),
});

test("drops objects of the largest namespace at the limit, and restores them after others are removed", async () => {
  let items = [object("shop", "a", 100), ...Array.from({ length: 10 }, (_, i) => object("large", `l${i}`, 100)), object("other", "b", 100)];
  const removed = Promise.withResolvers<WatchEvent<ObjectJson>>();
  const api: ObjectsApi = {
    listObjects: async () => Promise.resolve({ metadata: { resourceVersion: "1" }, items }),
    async *watchObjects() {
      yield await removed.promise;
    },
  };
  const slim = ({ spec, metadata }: ObjectJson) => ({ name: metadata.name, spec });
  const maxCharacters = { perNamespace: 2000, total: 1200 };
  await using watch = new ObjectWatch({ api, path: "/x", slim, failed: () => {}, recovered: () => {}, maxCharacters });
  await watch.known;
  const names = (): string[] => watch.objects.map(({ name }) => name);
  expect(names()).toEqual(expect.arrayContaining(["a", "l0", "b"]));
  expect([...watch.droppedNamespaces]).toEqual(["large"]);
  expect(names()).not.toContain("l9");
  const [first] = items;
  items = [...items.slice(1, 4), object("large", "l9", 100)];
  removed.resolve({ type: "DELETED", object: first! });
  await expect.poll(names, { timeout: 30_000 }).toEqual(["l0", "l1", "l2", "l9"]);
  expect(watch.droppedNamespaces.size).toBe(0);
});

test("keeps the earlier objects while they are listed again page by page", async () => {
  const [secondPage, lastPage] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const page = (next: object, ...names: string[]) => ({
    metadata: { resourceVersion: "1", ...next },
    items: names.map((name) => object("shop", name, 1)),
  });
  const lists = [page({}, "a", "b"), page({ continue: "next" }, "a"), page({})];
  let watches = 0;
  const api: ObjectsApi = {
    listObjects: async (_path, { from }) => {
      if (from !== undefined) {
        secondPage.resolve();
        await lastPage.promise;
      }
      return lists.shift()!;
    },
    async *watchObjects(_path, _version, _time, signal) {
      if (++watches === 1) throw new KubernetesError(410, "Expired", "too old resource version");
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
      yield* [];
    },
  };
  const slim = ({ metadata }: ObjectJson): string => metadata.name;
  await using watch = new ObjectWatch({ api, path: "/x", slim, failed: () => {}, recovered: () => {}, backoffMs: [1, 5] });
  await secondPage.promise;
  const during = watch.objects;
  lastPage.resolve();
  expect(during).toEqual(["a", "b"]);
  await expect.poll(() => watch.objects, { timeout: 30_000 }).toEqual(["a"]);
});
