import { expect, test } from "vitest";
import { table } from "./text-table.ts";

test("prints creation times without milliseconds, last-seen times as ages, and telemetry times exactly", () => {
  const row = {
    last_heartbeat: new Date(Date.now() - 180_000).toISOString(),
    created_at: "2026-11-21T09:00:00.123Z",
    timestamp: "2026-11-21T09:00:00.000000001Z",
  };
  const [, shown = ""] = table([row], Object.keys(row)).split("\n");
  expect(shown.split(/ {2,}/)).toEqual(["3 min ago", "2026-11-21T09:00:00Z", "2026-11-21T09:00:00.000000001Z"]);
});
