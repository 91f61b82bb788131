import { describe, expect, test } from "vitest";
import { refusalOf } from "./expression-guard.ts";

describe("what people and dashboards write is asked", () => {
  test.each([
    'sum(rate(http_requests_total{job=~"a|b",code!~"5.."}[5m])) by (job) / ignoring(code) group_left(x) sum by (job) (up offset 1h) > bool 0',
    "histogram_quantile(0.9, sum(rate(x_bucket[$__rate_interval])) by (le))",
    "topk(5, max_over_time(a[1h:5m] @ end()))",
    'label_replace(up, "a", "$1", "b", "(.*)")',
    "a and on(x) b unless ignoring(y) c or d",
    "sum without(instance) (rate(a[5m])) keep_metric_names",
    "(a + b) keep_metric_names",
    "up == bool 1",
    '{__name__="a.b", x="y"}',
    '{"a.b", x="y"}',
    'count by (__name__)({__name__=~".+"})',
    'count_values("v", a)',
    'x{a="b" or c="d"}',
    'up{a="b",}',
    "{}",
    "rate(a[5m]) default 0",
    "avg(x) limit 5",
    "a > on(x) group_right b",
    "-1 * a ^ -2",
    "up offset -5m",
    "rate(x[5m] offset 1h)",
    "limit_offset(5, 10, up)",
    "up @ 1609746000",
    "max_over_time(a[1h : 5m]) + rate(a[1d:]) + delta(a[$__interval]) + deriv(a[1.5h]) + increase(a[1h-5m])",
    "count",
    "max + 1",
    "a and(b)",
    "sum(a)by(b) # a comment",
    "sum by (on, bool, limit) (a)",
    'a{on="x", bool="y"}',
  ])("%s", (expression) => {
    expect(refusalOf(expression)).toBeUndefined();
  });
});

describe("what would end the engine is not asked, and the reason says how to write it", () => {
  test.each([
    ['"s" + (a)', /strings only as function arguments/],
    ['("s") + (a)', /strings only as function arguments/],
    ['sum(a, "s" + (b))', /strings only as function arguments/],
    ["- bool[5m]", /does not take "bool" there; a metric of that name is \{__name__=~"bool"\}/],
    ["a + (on)", /does not take "on" there/],
    ["1 + (Fill_Left [5m])", /does not take "Fill_Left" there/],
    ["a * on(x) group_left(y) prefix (b)", /does not take "prefix"/],
    ['- {__name__="bool"}', /does not take "bool"/],
    ['- {"on"}', /does not take "on"/],
    ['{__name__="b\\x6fol"} + 1', /letters, digits/],
    ["b\\x6fol + 1", /without escapes/],
    ['{""="c"} + 1', /letters, digits/],
    ['{__name__="inf", a="b"}', /does not take "inf"/],
    ['{__name__="", __name__="a"}', /one metric name/],
    ['{a="b" or __name__="x" or c="d"} + 1', /before the braces/],
    ['x{a="b" or } + 1', /filter after "or"/],
    ['{a="b" + "c"}', /between braces/],
    ["{a}", /operator after the label "a"/],
    ["max{} and 1", /does not take "max" next to and/],
    ['{"sum"} unless a', /does not take "sum" next to unless/],
    ["a @ (b[5m])", /start\(\) or end\(\) after @/],
    ["end(a @ 9999999999999999999)", /a time in seconds/],
    ["a @ 1 offset 9999999999999999999", /durations such as 5m .* up to 100y/],
    ["a offset -101y", /up to 100y/],
    ["max_over_time(a[1e400])", /up to 100y/],
    ["max_over_time(a[1h:200y])", /up to 100y/],
    ['limit_offset("", "", a)', /two numbers first/],
    ["limit_offset(-1, 0, a)", /two numbers first/],
    ["a == 1or b", /cannot read "1or b"/],
    ["a".repeat(16 * 1024 + 1), /longer than 16384 bytes/],
  ])("%s", (expression, reason) => {
    expect(refusalOf(expression)).toMatch(reason);
  });
});
