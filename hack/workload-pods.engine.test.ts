// The panels of docs/dashboards/workload.json, which the console's pages of workloads use too, show exactly the pods that the workload
// owns, whatever the names of other workloads are, checked with a real engine.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestEngine, type TestEngine } from "../test/fixtures/metrics-engine.ts";
import { ROOT } from "../test/fixtures/processes.ts";

interface Panel {
  title: string;
  targets: { expr: string; legendFormat: string }[];
}

const PANELS = (JSON.parse(readFileSync(join(ROOT, "docs/dashboards/workload.json"), "utf8")) as { panels: Panel[] }).panels;
const [OWN, OF_API, OF_SET, PENDING] = ["cart-7f9c4-x2k7q", "cart-api-6d4cf-m9wzt", "cart-0", "cart-7f9c4-zzzzz"];
const OWNERS: Readonly<Record<string, [kind: string, name: string]>> = {
  [OWN]: ["deployment", "cart"],
  [OF_API]: ["deployment", "cart-api"],
  "cart-x2k7q": ["daemonset", "cart"],
  [OF_SET]: ["statefulset", "cart"],
};
let engine: TestEngine;

beforeAll(async () => {
  engine = await startTestEngine();
  const lines = Object.entries(OWNERS).flatMap(([pod, [kind, name]]) => {
    const of = `k8s_cluster_name="north",k8s_namespace_name="shop",k8s_pod_name="${pod}"`;
    const owned = `${of},k8s_${kind}_name="${name}",pod="${pod}",container="app"`;
    const state = [
      `k8s_pod_phase{${of}} 2`,
      ...["ready", "restarts", "status_reason", "memory_limit_bytes"].map(
        (what) => `k8s_container_${what}{${of},k8s_container_name="${pod}"} 1`,
      ),
    ];
    return [
      ...state,
      `k8s_pod_memory_working_set_bytes{${owned}} 1`,
      `container_memory_working_set_bytes{${owned}} 1`,
      `container_cpu_usage_seconds_total{${owned}} 1`,
    ];
  });
  const pending = `k8s_pod_phase{k8s_cluster_name="north",k8s_namespace_name="shop",k8s_pod_name="${PENDING}"} 1`;
  const body = [...lines, pending].map((line) => `${line}\n`).join("");
  // Two samples, of which a rate is calculated.
  for (const ageS of [60, 1])
    await fetch(`${engine.writeUrl}/api/v1/import/prometheus?timestamp=${Date.now() - ageS * 1000}`, { method: "POST", body });
  await engine.flush();
});
afterAll(async () => await engine?.[Symbol.asyncDispose]());

async function podsIn(panel: Panel, kind: string, workload: string): Promise<string[]> {
  const chosen: Record<string, string> = { cluster: "north", namespace: "shop", kind, workload };
  const found = await Promise.all(
    panel.targets.map(async ({ expr }) => {
      const query = expr.replaceAll(/\$\{?(\w+)\}?/g, (_written, name: string) => chosen[name] ?? "");
      const answer = await fetch(`${engine.queryUrl}/api/v1/query`, { method: "POST", body: new URLSearchParams({ query }) });
      const { data } = (await answer.json()) as { data: { result: { metric: Record<string, string> }[] } };
      return data.result.map(({ metric }) => metric["k8s_pod_name"] ?? metric["pod"] ?? metric["k8s_container_name"] ?? "");
    }),
  );
  return [...new Set(found.flat())].toSorted();
}

const OF_PODS = PANELS.filter(({ title }) => title !== "Replicas");

test.each(OF_PODS)("$title: selects a Deployment's pods, without those of workloads with the same prefix", async (panel) => {
  const isOfPhases = panel.title.startsWith("Pods by phase");
  expect(await podsIn(panel, "deployment", "cart")).toEqual(isOfPhases ? [OWN, PENDING] : [OWN]);
  expect(await podsIn(panel, "deployment", "cart-api")).toEqual([OF_API]);
});

test.each(OF_PODS)("$title: selects a StatefulSet's pods that has the name of a Deployment", async (panel) => {
  const pods = await podsIn(panel, "statefulset", "cart");
  expect(pods.filter((pod) => pod !== PENDING)).toEqual([OF_SET]);
});
