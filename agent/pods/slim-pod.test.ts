import { expect, test } from "vitest";
import type { PodJson } from "../kubernetes/api.ts";
import { slimPod } from "./slim-pod.ts";

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

test("of a pod stays who and where it is, its owner, its ports, and the labels and annotations that are named", () => {
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

test.each([
  ["ports", { spec: { containers: [{ name: "app", ports: Array.from({ length: 20_000 }, (_, i) => ({ containerPort: i + 1 })) }] } }],
  ["an annotation", { annotations: { owner: "x".repeat(200_000) } }],
  ["owners", { ownerReferences: [{ kind: "x".repeat(200_000) }] }],
])("a pod that its author has made huge by %s takes a bounded room, and still says who it is and that it keeps its logs", (_what, more) => {
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
