// Which selectors of an expression are found: as Grafana's panels and hand-written expressions contain them.
import { expect, it } from "vitest";
import { selectorsOf } from "./exemplar-selectors.ts";

const service = { label: "service", operator: "=", value: "shop" };

it.each([
  ["latency_bucket", [[]]],
  ['latency_bucket{service="shop"}', [[service]]],
  ['histogram_quantile(.9, sum(rate(latency_bucket{service="shop",}[5m])) by (le))', [[service]]],
  ['{__name__="latency_bucket", service="shop"}', [[{ label: "__name__", operator: "=", value: "latency_bucket" }, service]]],
  [
    'latency_bucket{a!=\'x\', b=~`\\d+`} / latency_bucket{c!~"a\\"}"}',
    [
      [
        { label: "a", operator: "!=", value: "x" },
        { label: "b", operator: "=~", value: String.raw`\d+` },
      ],
      [{ label: "c", operator: "!~", value: 'a"}' }],
    ],
  ],
  ['other_latency_bucket + latency_bucket_other{service="shop"} + other{service="latency_bucket"}', []],
  ['latency_bucket{service="shop" or service="web"}', []],
  ["latency_bucket{service=", []],
  ['# latency_bucket\nlatency_count{service="shop"}', []],
])("%s", (expression, expected) => {
  expect(selectorsOf(expression, "latency_bucket")).toEqual(expected);
});
