import { expect, test } from "vitest";
import { formatQuery } from "./format.ts";
import { readQuery } from "./read-query.ts";

test.each([
  [`{ app = "nginx",env=~"a|b" }|="error"|json|status>=500`, `{app="nginx", env=~"a|b"} |= "error" | json | status >= 500`],
  [`sum   by(app)(rate({app="x"}|="a b"[5m]))`, `sum by (app) (rate({app="x"} |= "a b"[5m]))`],
  [`{a="b"} # a comment\n|~ \`x  y\``, '{a="b"} |~ `x  y`'],
  [`topk(10,sum(count_over_time({a="b"}[1h] offset 5m))by(c))`, `topk(10, sum(count_over_time({a="b"}[1h] offset 5m)) by (c))`],
  [`{a="b"}|logfmt --strict|line_format "{{.x}}"`, `{a="b"} | logfmt --strict | line_format "{{.x}}"`],
  [`vector(1)-sum(rate({a="b"}[1m]))`, `vector(1) - sum(rate({a="b"}[1m]))`],
])("formats %s as %s", (query, formatted) => {
  expect(formatQuery(query)).toBe(formatted);
});

test.each([
  `{a="b"}|json x="y[0]",z|(x="1"or z!=2)|drop x,z="1"`,
  `quantile_over_time(0.99,{a="b"}|json|unwrap duration(d)|__error__=""[5m])by(x)`,
  `sum(rate({a="b"}[1m]))/on(a)group_left(b)sum(rate({a="b"}[1m]))>bool 1e-3`,
  `1-(-2)`,
  `sum(rate({a="b"}[1m]))-sum(rate({a="c"}[1m]))`,
  `rate({a="b"}[5m] offset -5m)-1`,
  `label_replace(rate({a="b"}[1m]),"x","$1","y","(.*)")`,
])("keeps the meaning of %s, and does not change it a second time", (query) => {
  const formatted = formatQuery(query);
  expect(formatQuery(formatted)).toBe(formatted);
  expect(readQuery(formatted)).toEqual(readQuery(query));
});

test("rejects an invalid query with its position", () => {
  expect(() => formatQuery(`{a="b"} |= `)).toThrow("parse error at line 1");
});
