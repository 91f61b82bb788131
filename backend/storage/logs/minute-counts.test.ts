// For which filters the newest minute of a range is tried first.
import { expect, it } from "vitest";
import { recordConditions, type RecordFilter } from "./filter.ts";
import { mayBeDense } from "./minute-counts.ts";

it.each<[filter: Partial<RecordFilter>, isDense: boolean]>([
  [{}, true],
  [{ source: "shop", level: "error", hostId: "h" }, true],
  [{ q: ["connection refused"], notQ: ["hasToken(labels)"] }, true],
  [{ regex: ["took [0-9]+ ms"], notRegex: ["(a|b)*c"] }, true],
  // The index of words finds these.
  [{ words: ["timeout"] }, false],
  [{ q: ["a rare text"] }, false],
  [{ q: ["refused"], node: "node-1" }, false],
  [{ q: ["refused"], labels: [["http.route", "/"]] }, false],
  [{ q: ["refused"], labels: [["pod", "a"]] }, false],
  [{ traceId: "00" }, false],
])("of %j: %j", (filter, isDense) => {
  expect(mayBeDense(recordConditions({ labels: [], ...filter }))).toBe(isDense);
});
