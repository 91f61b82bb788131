// Values that senders choose do not become changes without a figure, and all questions are one query.
import { expect, test, vi } from "vitest";
import { UNLIMITED } from "../../admission/query-queue.ts";
import { findMetricChanges } from "./metric-changes.ts";

test("leaves out a series whose value is infinite", async () => {
  const result = ["+Inf", "3"].map((value) => ({ metric: { column: "cluster_0", k8s_pod_name: value }, value: [0, value] }));
  const query = async () => ({ status: 200, pieces: [], body: Buffer.from(JSON.stringify({ data: { result } })) });
  const range = { startMs: 0, endMs: 3_600_000 };
  const changes = await findMetricChanges({ query }, "o", { before: range, now: range }, UNLIMITED);
  expect(new Set(changes.map(({ now }) => now))).toEqual(new Set([3]));
});

test("runs one query", async () => {
  const query = vi.fn(async () => ({ status: 200, pieces: [], body: Buffer.from('{"data":{"result":[]}}') }));
  const range = { startMs: 0, endMs: 3_600_000 };
  await findMetricChanges({ query }, "o", { before: range, now: range }, UNLIMITED);
  expect(query).toHaveBeenCalledTimes(1);
});
