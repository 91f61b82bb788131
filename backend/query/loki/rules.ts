// What Loki demands of aggregations beyond their grammar, in its words. Invariant: an operation that is not answered here is refused by its
// name.
import { wrongQuery } from "./literals.ts";
import type { RangeAggregation, VectorAggregation } from "./syntax.ts";

/** Of the lines themselves. */
export const OF_LINES = new Set(["count_over_time", "rate", "bytes_over_time", "bytes_rate", "absent_over_time"]);
const GROUPED = ["avg", "stddev", "stdvar", "quantile", "max", "min", "first", "last"].map((name) => `${name}_over_time`);
const OF_VALUES = new Set([...GROUPED, "sum_over_time", "rate", "rate_counter", "absent_over_time"]);
const MAY_GROUP = new Set(GROUPED);

export function checkRange({ operation, unwrap, grouping, parameter, rangeNs }: RangeAggregation): void {
  if (!OF_LINES.has(operation) && !OF_VALUES.has(operation)) throw wrongQuery(`${operation} is not supported`);
  if (unwrap && !OF_VALUES.has(operation)) throw wrongQuery(`invalid aggregation ${operation} with unwrap`);
  if (!unwrap && !OF_LINES.has(operation)) throw wrongQuery(`invalid aggregation ${operation} without unwrap`);
  if (grouping && !MAY_GROUP.has(operation))
    throw wrongQuery(`grouping not allowed for ${operation} aggregation: write sum by (…) (${operation}(…))`);
  if (operation === "quantile_over_time" && parameter === undefined)
    throw wrongQuery("parameter required for operation quantile_over_time");
  if (operation !== "quantile_over_time" && parameter !== undefined)
    throw wrongQuery(`parameter ${parameter} not supported for operation ${operation}`);
  if (rangeNs <= 0n) throw wrongQuery("a range must be longer than nothing, such as [5m]");
}

const AGGREGATIONS = new Set(["sum", "avg", "count", "max", "min", "stddev", "stdvar", "topk", "bottomk", "sort", "sort_desc"]);

export function checkVector({ operation, grouping, parameter }: Omit<VectorAggregation, "of">): void {
  if (!AGGREGATIONS.has(operation)) throw wrongQuery(`${operation} is not supported${operation === "approx_topk" ? ": write topk" : ""}`);
  const takes = operation === "topk" || operation === "bottomk";
  if (takes && parameter === undefined) throw wrongQuery(`parameter required for operation ${operation}`);
  if (!takes && parameter !== undefined) throw wrongQuery(`unsupported parameter for operation ${operation}(${parameter},`);
  if (takes && !(Number.isInteger(parameter) && (parameter as number) > 0))
    throw wrongQuery(`invalid parameter (must be greater than 0) ${operation}(${parameter}`);
  if (grouping && operation.startsWith("sort")) throw wrongQuery(`sort and sort_desc doesn't allow grouping by`);
}
