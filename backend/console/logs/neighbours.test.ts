import { expect, test } from "vitest";
import { rowsBeyond, neighbourFilters, sideRange } from "./neighbours.ts";
import type { LogRow } from "./log-rows.ts";

function row(message: string, nanoseconds = 0, more: Partial<LogRow> = {}): LogRow {
  const timestamp = `2026-11-22T10:00:00.${String(nanoseconds).padStart(9, "0")}Z`;
  const ids = { host_id: "h", node: "n", trace_id: "", span_id: "", severity_number: 0, scope: "" };
  return { timestamp, level: "info", source: "shop", message, labels: {}, ...ids, ...more };
}

const words = (rows: readonly LogRow[] | undefined) => rows?.map(({ message }) => message);

test("the stream is the record's file, pod or instance; for a host it is all that it sends", () => {
  const one = row("a", 0, { source: "", labels: { "log.file.path": "/var/log/a.log", "http.route": "/cart", "k8s.pod.name": "" } });
  expect(neighbourFilters(one, "host")).toEqual({ host_id: "h", node: "n" });
  const labels = { "label.log.file.path": "/var/log/a.log", "label.k8s.pod.name": "" };
  expect(neighbourFilters(one, "stream")).toEqual({ host_id: "h", node: "n", source: "", ...labels });
});

test("each side starts with the record's own nanosecond", () => {
  const record = "2026-11-22T10:00:00.000000005Z";
  expect(sideRange(row("a", 5), "before", 3_600_000)).toEqual({ start: "2026-11-22T09:00:00.000Z", end: record });
  expect(sideRange(row("a", 5), "after", 3_600_000)).toEqual({ start: record, end: "2026-11-22T11:00:00.000Z", order: "oldest" });
});

test("of records with equal times each is on one side, and none is lost", () => {
  // In stored order: by time, then by an id that no response contains.
  const stored = [row("a", 1), row("b", 2), row("same", 2), row("c", 2), row("same", 2), row("d", 2), row("e", 3)];
  for (const chosen of stored) {
    const before = rowsBeyond(chosen, stored.filter(({ timestamp }) => timestamp <= chosen.timestamp).toReversed(), "before");
    const after = rowsBeyond(
      chosen,
      stored.filter(({ timestamp }) => timestamp >= chosen.timestamp),
      "after",
    );
    expect([...(words(before)?.toReversed() ?? []), chosen.message, ...(words(after) ?? [])]).toEqual(words(stored));
  }
});

test("requests more rows if the record is not among them", () => {
  expect(rowsBeyond(row("a", 2), [row("b", 2), row("c", 2)], "after")).toBeUndefined();
  expect(words(rowsBeyond(row("a", 2), [row("b", 2), row("a", 2, { labels: { k: "v" } }), row("a", 2)], "after"))).toEqual([]);
});

test("if a stage has changed the record, all rows with other times are beyond it", () => {
  expect(words(rowsBeyond(row("changed", 2), [row("a", 2), row("b", 1), row("c", 0)], "before"))).toEqual(["b", "c"]);
  expect(rowsBeyond(row("changed", 2), [row("a", 2)], "before")).toBeUndefined();
});
