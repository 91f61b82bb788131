// A comparison of many operations with varied durations, as one organisation can send them, does not delay the requests of others.
import { expect, test } from "vitest";
import type { OperationPoints } from "../../storage/traces/operation-points.ts";
import { POINTS } from "./change.ts";
import { findRedChanges } from "./red-changes.ts";

const BUCKETS = Array.from({ length: 200 }, (_, at) => at);
const COUNTS = BUCKETS.map(() => 10);
const HOUR_MS = 3_600_000;

const OPERATIONS = Array.from({ length: 100 }, (_, at): OperationPoints => ({
  service: `service-${at}`,
  operation: "get",
  kind: "SERVER",
  points: Array.from({ length: 2 * POINTS }, (_, point) => [point, 2000, point < POINTS ? 0 : 500, BUCKETS, COUNTS] as const),
}));

test("other work runs between the operations of a comparison", async () => {
  const comparison = { before: { startMs: 0, endMs: HOUR_MS }, now: { startMs: HOUR_MS, endMs: 2 * HOUR_MS } };
  let turns = 0;
  const timer = setInterval(() => (turns += 1), 1);
  const changes = await findRedChanges({ entry: OPERATIONS, client: OPERATIONS }, [], comparison);
  clearInterval(timer);
  expect(changes).toHaveLength(100);
  expect(turns).toBeGreaterThan(3);
});
