// A range before without data is not compared: everything would be new.
import { expect, test } from "vitest";
import { stub } from "../../../test/fixtures/stub.ts";
import { UNLIMITED } from "../../admission/query-queue.ts";
import type { OperationPoints } from "../../storage/traces/operation-points.ts";
import type { SpanStore } from "../../storage/traces/span-store.ts";
import { NothingBefore, POINTS } from "./change.ts";
import { findLogChanges } from "./log-changes.ts";
import { findTraceChanges } from "./trace-changes.ts";

const HOUR_MS = 3_600_000;
const comparison = { before: { startMs: 0, endMs: HOUR_MS }, now: { startMs: HOUR_MS, endMs: 2 * HOUR_MS } };
const counts = (each: number) => Array.from({ length: POINTS }, () => each);
const rates = { before: 1, now: 1 };

const logChanges = (before: number) => {
  const pattern = { source: "shop", pattern: "cart <_>", example: "cart 7", isProblem: true, before: counts(0), now: counts(40) };
  const known = { ...pattern, pattern: "ready", example: "ready", before: counts(before), now: counts(before) };
  return findLogChanges({ patterns: [pattern, known], oneOf: { problems: rates, others: rates } }, comparison);
};

test("a pattern is new only among records that were there before", () => {
  expect(logChanges(1)).toMatchObject([{ kind: "logs", title: expect.stringContaining("new pattern") }]);
  expect(() => logChanges(0)).toThrow(NothingBefore);
});

test("services are not compared with a range without spans", async () => {
  const at = (point: number): OperationPoints => ({
    service: "shop",
    operation: "GET",
    kind: "SERVER",
    points: [[point, 10 * point + 10, 0, [1], [9]]],
  });
  const spansWith = (found: OperationPoints[]) =>
    stub<SpanStore>({
      operationPoints: async () => [found],
      graph: async () => Buffer.from("[]"),
      versionCounts: async () => Buffer.from("[]"),
      statistics: async () => Buffer.from("[]"),
    });
  const find = async (found: OperationPoints[]) => await findTraceChanges(spansWith(found), "o", comparison, UNLIMITED);
  expect((await find([{ ...at(0), points: [...at(0).points, ...at(2 * POINTS - 1).points] }])).map(({ kind }) => kind)).toContain("rate");
  await expect(find([at(2 * POINTS - 1)])).rejects.toThrow(NothingBefore);
});
