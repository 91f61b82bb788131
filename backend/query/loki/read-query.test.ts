// How LogQL is parsed, and which parts are refused by name.
import { describe, expect, test } from "vitest";
import { ApiError } from "../../errors.ts";
import { readQuery } from "./read-query.ts";
import { REFUSED_ACTIONS, REFUSED_FUNCTIONS, LANGUAGE_FUNCTIONS } from "./template.ts";
import type { LogQuery } from "./syntax.ts";
import { FUNCTIONS } from "./template-functions.ts";

function refusal(query: string): string {
  try {
    readQuery(query);
  } catch (error) {
    if (error instanceof ApiError && error.code === "invalid_parameter") return error.message;
    throw error;
  }
  throw new Error(`${query} was taken`);
}

test("parses a query of logs as its selector and its stages in their order", () => {
  expect(
    readQuery(
      '{service_name="shop", level!~"debug|trace"} |= "a" or `b\\` != "c" | json who="user.id" | took > 1.5s and (n == 3 or x="y") | drop z',
    ),
  ).toEqual({
    kind: "log",
    selector: [
      { name: "service_name", operator: "=", value: "shop" },
      { name: "level", operator: "!~", value: "debug|trace" },
    ],
    stages: [
      { kind: "line_filter", operator: "|=", texts: ["a", "b\\"] },
      { kind: "line_filter", operator: "!=", texts: ["c"] },
      { kind: "json", paths: [["who", "user.id"]] },
      {
        kind: "label_filter",
        filter: {
          kind: "and",
          left: { kind: "compare", name: "took", operator: ">", value: 1.5, conversion: "duration" },
          right: {
            kind: "or",
            left: { kind: "compare", name: "n", operator: "==", value: 3, conversion: "number" },
            right: { kind: "match", matcher: { name: "x", operator: "=", value: "y" } },
          },
        },
      },
      { kind: "drop", labels: ["z"] },
    ],
  });
});

test("the expression of a selector counts once in the limits of a query", () => {
  for (const expression of [`${"a".repeat(1900)}.+`, ".{60}"]) readQuery(`{a=~"${expression}"}`);
  expect(refusal(`{a=~"${"a".repeat(2000)}.+"}`)).toContain("at most 2000 characters");
});

test("and binds tighter than or, unless parentheses override it", () => {
  const filterOf = (text: string) => (readQuery(`{a="b"} | ${text}`) as LogQuery).stages[0];
  expect(filterOf('a="1" or b="2" and c="3"')).toEqual(filterOf('a="1" or (b="2" and c="3")'));
  expect(filterOf('a="1" and b="2" or c="3"')).toEqual(filterOf('(a="1" and b="2") or c="3"'));
  expect(filterOf('a="1", b="2" or c="3"')).toEqual(filterOf('(a="1" and b="2") or c="3"'));
});

test("operators bind as in arithmetic, whatever the editor's grammar nests first", () => {
  const of = (text: string) => readQuery(text.replaceAll("R", 'rate({a="b"}[1m])'));
  expect(of("1 + 2 * 3")).toEqual({ kind: "number", value: 7 });
  expect(of("2 ^ 3 ^ 2")).toEqual({ kind: "number", value: 512 });
  expect(of("7 - 2 - 1 > 3")).toEqual({ kind: "number", value: 1 });
  expect(of("R + R * R")).toEqual(of("R + (R * R)"));
  expect(of("R or R and R > 1")).toEqual(of("R or (R and (R > 1))"));
});

test("skips comments with // and /* and with #, except within texts", () => {
  const sum = 'sum(rate({a="b"}[1m]))';
  expect(readQuery(`${sum} # nothing\n  or // either\nvector(0) /* at\nleast */`)).toEqual(readQuery(`${sum} or vector(0)`));
  expect(readQuery('{a="b"} |= "# // /*" |= `// "# */` // " the end')).toMatchObject({
    stages: [{ texts: ["# // /*"] }, { texts: ['// "# */'] }],
  });
  for (const open of ['{a="b"} /* c', '{a="b"} /*/', '{a="b"} |= "// c', '{a="b"} |= "\\', '{a="b"} |= `# c'])
    expect(refusal(open)).toContain("parse error");
});

describe("rejects by name, with what to write instead:", () => {
  test.each([
    ["{", '{service_name="shop"}'],
    ["{}", "a selector needs a matcher"],
    ["{app=x}", "a value is in quotes"],
    ['{app="x"} |= ', "a line filter needs a text in quotes"],
    ['{app="x"} | json |', "a stage is missing after |"],
    ['rate({app="x"})', "a range is missing, such as {…}[5m]"],
    ['rate({app="x"}[5])', "a duration has a unit, such as [5m]"],
    ['sum(rate({app="x"}[5m])', "a ) is missing"],
    ['foo({a="b"}[5m])', "LogQL has no function of this name"],
    ['{a="b"', "parse error at line 1, column 7: unexpected end"],
    ['{a="b"} foo', 'unexpected "foo"'],
    ["", "unexpected end"],
    ['{a="b"} | json | b > 1 and size=2KB  c!~"2"', "write and between two label filters"],
    ["{}", "unexpected"],
    ['{a=""}', "a selector needs a matcher"],
    ['{a=~".*"}', "a selector needs a matcher"],
    ['{a!="b"}', "a selector needs a matcher"],
    ['{a="b"} |= ip("10.0.0.0/8")', "ip() is not supported"],
    ['{a="b"} | addr=ip("10.0.0.0/8")', "ip() is not supported"],
    ['{a="b"} |~ "("', "error parsing regexp: missing closing )"],
    ['{a=~"["}', "error parsing regexp"],
    ['{a="b"} |~ "(\\\\pL){90}"', "regular expressions of a query have at most"],
    ['{a="b"} | regexp "x"', "at least one named capture"],
    ['{a="b"} | pattern "x"', "at least one capture is required"],
    ['{a="b"} | json x="a["', "cannot parse expression [a[]"],
    ['{a="b"} | line_format "{{ .a | foo }}"', 'function "foo" is not supported'],
    ['{a="b"} | line_format "{{ range .a }}{{ end }}"', "{{range}} is not supported"],
    ['{a="b"} | label_format a=b, a=c', "multiple label name 'a'"],
    ['approx_topk(2, rate({a="b"}[1m]))', "approx_topk is not supported: write topk"],
    ['count_over_time({a="b"} | unwrap x [1m])', "invalid aggregation count_over_time with unwrap"],
    ['sum_over_time({a="b"}[1m])', "invalid aggregation sum_over_time without unwrap"],
    ['rate({a="b"}[1m]) by (c)', "grouping not allowed for rate aggregation"],
    ['topk(rate({a="b"}[1m]))', "parameter required for operation topk"],
    ['topk(0, rate({a="b"}[1m]))', "invalid parameter"],
    ['sum_over_time({a="b"} | json | unwrap x [5m] offset 1h)', "write an offset before the stages"],
    ['1 or rate({a="b"}[1m])', "unexpected literal"],
    ['{a="b"} + 1', "aggregate it"],
  ])("%s", (query, message) => {
    expect(refusal(query)).toContain(message);
  });
});

test("limits the length and depth of a query", () => {
  expect(refusal(`${"(".repeat(500)}1${")".repeat(500)}`)).toContain("deep");
  expect(refusal(`1${"+1".repeat(500)}`)).toContain("deep");
  expect(refusal(`{a="${"x".repeat(66_000)}"}`)).toContain("has at most 65536 characters");
});

describe("functions of Loki 3.7's templates", () => {
  // pkg/logql/log/fmt.go, and those of Go's text/template.
  const LOKI = (
    "ToLower ToUpper Replace Trim TrimLeft TrimRight TrimPrefix TrimSuffix TrimSpace regexReplaceAll regexReplaceAllLiteral count " +
    "urldecode urlencode bytes duration duration_seconds unixEpochMillis unixEpochNanos toDateInZone unixToTime alignLeft alignRight " +
    "b64enc lower upper title trunc substr contains hasPrefix hasSuffix indent nindent replace repeat trim trimAll trimSuffix trimPrefix " +
    "int float64 add sub mul div mod addf subf mulf divf max min maxf minf ceil floor round fromJson date toDate now unixEpoch default " +
    "b64dec and or not len print printf println eq ne lt le gt ge call html index slice js urlquery __line__ __timestamp__"
  ).split(" ");
  const known: ReadonlySet<string> = new Set([...LANGUAGE_FUNCTIONS, ...Object.keys(FUNCTIONS)]);

  test("exist or are rejected by name, and there are no others", () => {
    const refused = Object.keys(REFUSED_FUNCTIONS);
    expect([...known, ...refused].toSorted()).toEqual(LOKI.toSorted());
  });

  test.each(Object.entries(REFUSED_FUNCTIONS))("rejects %s with what to write instead", (name, instead) => {
    expect(refusal(`{a="b"} | line_format "{{ ${name} .x }}"`)).toContain(`function "${name}" is not supported: ${instead}`);
  });

  test.each(REFUSED_ACTIONS)("rejects {{%s}}", (word) => {
    expect(refusal(`{a="b"} | label_format c="{{ ${word} .a }}"`)).toContain(`{{${word}}} is not supported`);
  });
});
