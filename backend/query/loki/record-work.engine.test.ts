// A LogQL query that does too much work for one record is refused instead of keeping a thread busy. Before the limits, each query here took
// from seconds to forever, or gigabytes (findings of 2026-11-23). The limits count characters, so no test depends on the machine's speed.
import { describe, expect, test } from "vitest";
import { withoutColours } from "./pipeline.ts";
import { Entry } from "./entry.ts";
import { convert } from "./grammar.ts";
import { pipelineOf } from "./pipeline.ts";
import { readQuery } from "./read-query.ts";
import { beginRecord, charge, findText } from "./regex.ts";
import { parseLineFormat } from "./template.ts";

function run(query: string, line = "a", attributes: Record<string, string> = {}): Entry {
  const read = readQuery(query);
  if (read.kind !== "log") throw new Error("a query of logs is needed");
  const entry = new Entry(1n, line, new Map(), Object.entries(attributes));
  pipelineOf(read.stages)(entry);
  return entry;
}

const S = '{a="b"}';
const TOO_EXPENSIVE = expect.objectContaining({ code: "query_too_expensive" }) as Error;

describe("rejects as too expensive", () => {
  test.each([
    ["100 replacements in a text of 1 MiB", `${S} | line_format \`{{ repeat 1048576 "a"${' | replace "a" "b"'.repeat(100)} }}\``],
    [
      "texts of texts of texts",
      `${S} | line_format \`{{ $a := repeat 1000000 "a" }}{{ $b := print $a $a $a $a $a $a $a $a }}{{ $c := print $b $b $b $b $b $b $b $b }}{{ trimAll "a" $c }}\``,
    ],
    ["300 kept variables", `${S} | line_format \`{{ $a := repeat 1048576 "A" }}${"{{ $x := lower $a }}".repeat(300)}\``],
    [
      "a search whose time grows with the product of both texts",
      `${S} | line_format \`{{ $p := printf "%s%s%s" (repeat 200000 "a") "b" (repeat 200000 "a") }}{{ contains $p (repeat 1000000 "a") }}\``,
    ],
    [
      "thousands of arguments of 1 MiB",
      `${S} | line_format \`{{ $a := repeat 1000000 "a" }}{{ printf (repeat 900 "%s") ${"$a ".repeat(900)} }}\``,
    ],
    [
      "a regular expression whose replacement grows",
      `${S} | line_format \`{{ regexReplaceAll "(a+)" (repeat 5000 "a") "${"$1".repeat(7000)}" }}\``,
    ],
  ])("%s", (_, query) => {
    expect(() => run(query)).toThrow(TOO_EXPENSIVE);
  });

  test("200 paths to the end of a long array", () => {
    const paths = Array.from({ length: 200 }, (_, index) => `a${index}="b[999999]"`).join(", ");
    const line = `{"b":[${"1,".repeat(120_000)}1]}`;
    expect(() => run(`${S} | json ${paths}`, line)).toThrow(TOO_EXPENSIVE);
    expect(run(`${S} | json a="b[120000]"`, line).get("a")).toBe("1");
  });

  test("names that are repeatedly joined from long names", () => {
    const members = Array.from({ length: 5000 }, (_, index) => `"k${index}":1`).join(",");
    expect(() => run(`${S} | json`, `{"${"p".repeat(120_000)}":{${members}}}`)).toThrow(TOO_EXPENSIVE);
  });

  test.each(["| a > 5", "| a =~ `b.*`", "| label_format x=`{{ .a }}{{ .b }}`", "| drop a=~`b.*`"])(
    "an attribute of more than 256 KiB that %s reads",
    (stage) => {
      expect(() => run(`${S} ${stage}`, "a", { a: "1".repeat(300_000), b: "2" })).not.toThrow(RangeError);
      expect(() => run(`${S} | a > 5`, "a", { a: "1".repeat(300_000) })).toThrow(TOO_EXPENSIVE);
    },
  );

  test("and resets the cost for the next record", () => {
    beginRecord();
    charge(30 * 1024 * 1024);
    expect(() => charge(3 * 1024 * 1024)).toThrow(TOO_EXPENSIVE);
    beginRecord();
    expect(() => charge(3 * 1024 * 1024)).not.toThrow();
  });

  test("a search for a short text costs what it reads", () => {
    beginRecord();
    for (let index = 0; index < 1000; index += 1) expect(findText("a".repeat(1000), "b")).toBe(-1);
  });
});

describe("accepts", () => {
  test("a text that is no number, of any length", () => {
    const digits = `${"1".repeat(200_000)}x`;
    for (const conversion of ["number", "duration", "bytes"] as const) expect(convert(digits, conversion)).toBeUndefined();
    expect(convert(`${"1".repeat(200_000)}s`, "duration")).toBeUndefined();
    expect(["1.5", "1.", ".5", "1e3", "+2", "-2.5e-3"].map((text) => convert(text, "number"))).toEqual([1.5, 1, 0.5, 1000, 2, -0.0025]);
    expect(["1.5s", "1.s", ".5h", "1h30m"].map((text) => convert(text, "duration"))).toEqual([1.5, 1, 1800, 5400]);
  });

  test("a function with missing arguments, which leaves the line with an error", () => {
    for (const call of ["min", "max", "add", "addf", "minf", "eq 1", 'printf "%.500f" 1.5', "repeat -1 `a`"]) {
      const entry = run(`${S} | line_format "{{ ${call.replaceAll('"', '\\"')} }}"`, "line");
      expect([call, entry.line, entry.error]).toEqual([call, "line", "TemplateFormatErr"]);
    }
  });

  test("a replacement of hundreds of megabytes, which is not executed and leaves the line with an error", () => {
    const entry = run(`${S} | line_format \`{{ repeat 60000 "a" | replace "" "${"b".repeat(500)}" | len }}\``, "line");
    expect([entry.line, entry.error]).toEqual(["line", "TemplateFormatErr"]);
  });

  test("an incomplete character in a URL", () => {
    expect(run(`${S} | json | line_format \`{{ urlencode .x }}\``, '{"x":"\\ud800a"}').line).toMatch(/a$/);
  });

  test.each([
    ['{{ Replace "aaa" "a" "b" 2 }}', "bba"],
    ['{{ Replace "aaa" "a" "b" -1 }}', "bbb"],
    ['{{ Replace "a-b-c" "-" "" 1 }}', "ab-c"],
    ['{{ replace "a" "" "banana" }}', "bnn"],
    ['{{ trimAll "ab" "abcab" }}', "c"],
    ['{{ TrimLeft "ééa" "é" }}', "a"],
    ['{{ TrimRight "a\u{1F600}\u{1F600}" "\u{1F600}" }}', "a"],
    ['{{ indent 2 "a\\nb" }}', "  a\n  b"],
    ['{{ printf "%5d|%-5s|%%" 7 "a" }}', "    7|a    |%"],
  ])("%s", (template, line) => {
    expect(run(`${S} | line_format \`${template}\``).line).toBe(line);
  });
});

describe("templates are split", () => {
  const textsOf = (template: string) => run(`${S} | line_format \`${template}\``).line;

  test("into texts and actions, with white space removed at the markers", () => {
    expect(textsOf('a {{- "b" -}} c')).toBe("abc");
    expect(textsOf('a {{ "}}" }} b{{/* }} */}}')).toBe("a }} b");
    expect(textsOf("a {{-1}} b")).toBe("a -1 b");
  });

  test.each([
    ["{{", "unclosed action"],
    [`{{${'""'.repeat(5000)}`, "unclosed action"],
    ['{{ "a }}', "unterminated quoted string"],
    ["{{ /* }}", "unclosed comment"],
    [`{{ ${"(".repeat(15_000)} }}`, "nested more than 100 deep"],
    [`${"{{ if true }}".repeat(200)}${"{{ end }}".repeat(200)}`, "nested more than 100 deep"],
    [`{{ ${"1".repeat(15_000)}x }}`, "unexpected"],
  ])("or rejected: %.20s: %s", (template, problem) => {
    expect(() => parseLineFormat(template)).toThrow(problem);
  });
});

describe("colours", () => {
  /** The expression of ansi-regex, which takes quadratic time. */
  const REFERENCE = /[\u001b\u009b][[\]()#;?]*(?:[a-zA-Z\d]*(?:;[a-zA-Z\d]*)*\u0007|(?:\d{1,4}(?:;\d{0,4})*)?[\dA-PRZcf-ntqry=><~])/g;

  test("are removed as by the common expression", () => {
    const alphabet = "\u001b\u009b[](;?01234mKQz\u0007 ";
    let state = 1;
    for (let round = 0; round < 20_000; round += 1) {
      let line = "";
      for (let length = 0; length < 12; length += 1) {
        state = (state * 48_271) % 2_147_483_647;
        line += alphabet[state % alphabet.length];
      }
      expect(withoutColours(line), JSON.stringify(line)).toBe(line.replaceAll(REFERENCE, ""));
    }
  });

  test("of a line that contains only the start of one", () => {
    const line = `\u001b${";".repeat(250_000)}`;
    expect(withoutColours(line)).toBe(line);
  });
});
