// Names and values that senders and readers choose: the query of cluster-state.ts, and pods of a large organisation.
import { expect, test } from "vitest";
import { UNLIMITED } from "../../admission/query-queue.ts";
import { type Cell, readCells } from "./cluster-state.ts";
import { buildPods } from "./pods.ts";

test.each(["$cluster", "$scope", '"} or {"'])("a namespace named %s stays one value of the query", async (namespace) => {
  let asked = "";
  const query = async (_orgId: string, _endpoint: string, params: URLSearchParams) => {
    asked = params.get("query") ?? "";
    return { status: 200, pieces: [], body: Buffer.from('{"data":{"result":[]}}') };
  };
  const options = { columns: { phase: "up{$scope}" }, scope: { cluster: "north", namespace }, atMs: 0, options: UNLIMITED };
  await readCells({ query }, "o", options);
  expect(asked).toContain(`up{org_id!="",k8s_cluster_name="north",k8s_namespace_name=${JSON.stringify(namespace)}}`);
});

test("other work runs while many pods are read", async () => {
  const labels = (at: number) => ({ k8s_cluster_name: "c", k8s_namespace_name: "n", k8s_pod_name: `${"p".repeat(200)}${at}` });
  const cells = Array.from({ length: 20_000 }, (_, at): Cell => ({ column: at % 2 ? "cpu" : "phase", labels: labels(at >> 1), value: 2 }));
  let turns = 0;
  const timer = setInterval(() => (turns += 1), 1);
  expect(await buildPods(cells, new Map())).toHaveLength(10_000);
  clearInterval(timer);
  expect(turns).toBeGreaterThan(1);
});
