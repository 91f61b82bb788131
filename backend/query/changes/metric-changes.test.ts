// Values that senders choose do not become changes without a figure, and the number of queries is the documented one.
import { readFileSync } from "node:fs";
import { join } from "node:path";
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

test("runs one query, as docs/what-changed.md says", async () => {
  const query = vi.fn(async () => ({ status: 200, pieces: [], body: Buffer.from('{"data":{"result":[]}}') }));
  const range = { startMs: 0, endMs: 3_600_000 };
  await findMetricChanges({ query }, "o", { before: range, now: range }, UNLIMITED);
  const page = readFileSync(join(import.meta.dirname, "../../../docs/what-changed.md"), "utf8");
  expect([query.mock.calls.length, page.includes("and one metric query")]).toEqual([1, true]);
});
