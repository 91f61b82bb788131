import { expect, it } from "vitest";
import { NO_LABELS } from "./entry.ts";
import { aggregate } from "./vector-operations.ts";

it.each([
  [[Infinity, 5, -1], Infinity],
  [[5, -Infinity, 5], -Infinity],
  [[Infinity, 5, -Infinity], NaN],
])("avg of %o is %d, as in Prometheus", (values, average) => {
  const vector = values.map((value) => ({ labels: NO_LABELS, value }));
  const avg = { operation: "avg", grouping: undefined, parameter: undefined };
  expect(aggregate(avg, (labels) => labels, vector)).toEqual([{ labels: NO_LABELS, value: average }]);
});
