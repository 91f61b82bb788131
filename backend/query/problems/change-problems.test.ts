// The comparison of an organisation's last hour is remembered for a minute, whatever happens to the clock.
import { expect, test } from "vitest";
import { stub } from "../../../test/fixtures/stub.ts";
import type { ChangeSources } from "../changes/find-changes.ts";
import { RecentChanges } from "./change-problems.ts";

test("a comparison is repeated after a minute, and after the clock was set back", async () => {
  let comparisons = 0;
  const query = async () => {
    comparisons += 1;
    throw new Error("away");
  };
  const recent = new RecentChanges(stub<ChangeSources>({ metrics: stub<ChangeSources["metrics"]>({ query }) }));
  for (const nowMs of [7_200_000, 7_210_000, 7_270_000, 3_600_000]) await recent.of("o", nowMs);
  expect(comparisons).toBe(3);
});
