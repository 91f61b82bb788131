import { beforeAll, expect, test, vi } from "vitest";

let changedAddress: typeof import("./route.ts").changedAddress;

beforeAll(async () => {
  vi.stubGlobal("location", { hash: "" });
  vi.stubGlobal("window", { addEventListener: () => undefined });
  ({ changedAddress } = await import("./route.ts"));
});

test("another range keeps every query of a chart and every label of an alert", () => {
  const route = { screen: "metrics", id: undefined, query: new URLSearchParams("q=up&q=down&from=1h&refresh=5s") };
  expect(changedAddress(route, { from: "6h", refresh: undefined })).toBe("#/metrics?q=up&q=down&from=6h");
  const alert = { screen: "alerts", id: "r1", query: new URLSearchParams("label=pod%3Da&label=node%3Db") };
  expect(changedAddress(alert, { to: "2026-11-30T10:00:00Z" })).toBe(
    "#/alerts/r1?label=pod%3Da&label=node%3Db&to=2026-11-30T10%3A00%3A00Z",
  );
});
