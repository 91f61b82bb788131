import { expect, test, vi } from "vitest";

const { sortRows } = await vi.hoisted(async () => {
  vi.stubGlobal("location", { hash: "" });
  vi.stubGlobal("window", { addEventListener: () => undefined });
  return await import("./table.tsx");
});

const sorted = (values: readonly (string | number | null)[], isDescending: boolean) => sortRows(values, (value) => value, isDescending);

test("sorts numbers by value, and names with numbers as people count", () => {
  expect(sorted([10, 9, 100], false)).toEqual([9, 10, 100]);
  expect(sorted(["worker-10", "Worker-2", "worker-1"], false)).toEqual(["worker-1", "Worker-2", "worker-10"]);
  expect(sorted(["a", "b"], true)).toEqual(["b", "a"]);
});

test("puts rows without a value last in both directions", () => {
  expect(sorted([2, null, 3], false)).toEqual([2, 3, null]);
  expect(sorted([2, null, 3], true)).toEqual([3, 2, null]);
  expect(sorted(["–", "b", "a"], true)).toEqual(["b", "a", "–"]);
});
