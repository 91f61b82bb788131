// A comparison of many operations with varied durations, as one organisation can send them, does not delay the requests of others.
import { expect, test } from "vitest";
import type { OperationPoints } from "../../storage/traces/operation-points.ts";
import { POINTS } from "./change.ts";
import { findRedChanges } from "./red-changes.ts";

const BUCKETS = Array.from({ length: 200 }, (_, at) => at);
const COUNTS = BUCKETS.map(() => 10);
const HOUR_MS = 3_600_000;

const operations = (errors: number): OperationPoints[] =>
  Array.from({ length: 100 }, (_, at) => ({
    service: `service-${at}`,
    operation: "get",
    kind: "SERVER",
    points: Array.from({ length: POINTS }, (_, point) => [point, 2000, errors, BUCKETS, COUNTS] as const),
  }));

test("other work runs between the operations of a comparison", async () => {
  const ranges = { before: operations(0), now: operations(500) };
  const comparison = { before: { startMs: 0, endMs: HOUR_MS }, now: { startMs: HOUR_MS, endMs: 2 * HOUR_MS } };
  let turns = 0;
  const timer = setInterval(() => (turns += 1), 1);
  const changes = await findRedChanges({ entry: ranges, client: ranges }, [], comparison);
  clearInterval(timer);
  expect(changes).toHaveLength(100);
  expect(turns).toBeGreaterThan(3);
});
