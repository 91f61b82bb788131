// @vitest-environment node
import { beforeAll, expect, test, vi } from "vitest";

type Module = typeof import("./entity.ts");
let entity: Module;

// The module reads the browser's address when it is loaded.
beforeAll(async () => {
  vi.stubGlobal("location", { hash: "" });
  vi.stubGlobal("window", { addEventListener: () => undefined });
  entity = await import("./entity.ts");
});

const POD = { kind: "pod", name: "cart-1", cluster: "north", namespace: "shop" } as const;

test("an address parses back to its entity", () => {
  const address = entity.entityAddress({ ...POD, name: 'a/b?c="d' });
  const [path = "", query = ""] = address.slice(2).split("?");
  expect(entity.parseEntity(decodeURIComponent(path.split("/")[1] ?? ""), new URLSearchParams(query))).toMatchObject({
    ...POD,
    name: 'a/b?c="d',
  });
  expect(entity.parseEntity("x", new URLSearchParams("kind=planet"))).toBeUndefined();
});

test("queries match the entity only", () => {
  expect(entity.logQuery(POD)).toBe("k8s.cluster.name:north k8s.namespace.name:shop k8s.pod.name:cart-1");
  expect(entity.eventQuery(POD)).toBe(`source:kubernetes-events ${entity.logQuery(POD)}`);
  expect(entity.traceQuery(POD)).toBe("k8s.cluster.name=north k8s.namespace.name=shop k8s.pod.name=cart-1");
});

test("a hostile name stays inside its quotes", () => {
  const hostile = { kind: "namespace", name: 'x" OR level:info "', cluster: '"} or {' } as const;
  expect(entity.logQuery(hostile)).toBe('k8s.cluster.name:"\\"} or {" k8s.namespace.name:"x\\" OR level:info \\""');
  expect(entity.traceQuery(hostile)).toBe('k8s.cluster.name="\\"} or {" k8s.namespace.name="x\\" OR level:info \\""');
});

test("a host is found by its id, not by its name", () => {
  const host = { kind: "host", name: "vm", hostId: "h1" } as const;
  expect(entity.logQuery(host)).toBe("host_id:h1");
  expect(entity.eventQuery(host)).toBeUndefined();
  expect(entity.isAbout(host, { host_id: "h2", node: "vm" })).toBe(false);
});

test("an alert is about the pod that it names, not about another cluster's pod of the same name", () => {
  expect(entity.isAbout(POD, { k8s_pod_name: "cart-1", k8s_cluster_name: "north" })).toBe(true);
  expect(entity.isAbout(POD, { k8s_pod_name: "cart-1", k8s_cluster_name: "south" })).toBe(false);
  expect(entity.isAbout(POD, { k8s_cluster_name: "north" })).toBe(false);
});

test("a pod's record names cluster, node, namespace, workload and pod; a host's record names its host", () => {
  const labels = { "k8s.cluster.name": "north", "k8s.namespace.name": "shop", "k8s.pod.name": "cart-1", "k8s.daemonset.name": "cart" };
  const named = entity.findEntities(labels, { host_id: "c1", node: "n1" });
  expect(Object.fromEntries([...named].map(([field, { kind, name }]) => [field, `${kind} ${name}`]))).toEqual({
    "k8s.cluster.name": "cluster north",
    "k8s.namespace.name": "namespace shop",
    "k8s.daemonset.name": "workload cart",
    "k8s.pod.name": "pod cart-1",
    node: "node n1",
  });
  expect(entity.findEntities({}, { host_id: "h1", node: "vm" }).get("node")).toMatchObject({ kind: "host", name: "vm", hostId: "h1" });
});
