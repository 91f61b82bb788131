// Which selectors of an expression are found, in expressions of Grafana's panels and in hand-written ones.
import { expect, it } from "vitest";
import { selectorsOf } from "./exemplar-selectors.ts";

const service = { label: "service", operator: "=", value: "shop" };
const name = (value: string) => ({ label: "__name__", operator: "=", value });
const bucket = name("latency_bucket");

it.each([
  ["latency_bucket", [[bucket]]],
  [
    "sum by (le, job) (rate(latency_bucket[5m] offset 1h)) / on (job) group_left (x) sum(up) without (le) > bool 1e3 and 5 * Inf",
    [[bucket], [name("up")]],
  ],
  ['{service="shop"}', [[service]]],
  ['latency_bucket{service="shop"}', [[bucket, service]]],
  ['histogram_quantile(.9, sum(rate(latency_bucket{service="shop",}[5m])) by (le))', [[bucket, service]]],
  ['{__name__="latency_bucket", service="shop"}', [[bucket, service]]],
  [
    'latency_bucket{a!=\'x\', b=~`\\d+`} / latency_bucket{c!~"a\\"}"}',
    [
      [bucket, { label: "a", operator: "!=", value: "x" }, { label: "b", operator: "=~", value: String.raw`\d+` }],
      [bucket, { label: "c", operator: "!~", value: 'a"}' }],
    ],
  ],
  ['other{service="latency_bucket"}', [[name("other"), { ...service, value: "latency_bucket" }]]],
  ['latency_bucket{service="shop" or service="web"}', []],
  ["latency_bucket{service=", []],
  ['latency_bucket{service="shop', []],
  ["rate(latency_bucket[2m:10s] @ start()) or up[$__rate_interval]", [[bucket], [name("up")]]],
  ['# latency_bucket\nlatency_count{service="shop"}', [[name("latency_count"), service]]],
])("%s", (expression, expected) => {
  expect(selectorsOf(expression)).toEqual(expected);
});
