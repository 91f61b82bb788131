// Lines of JSON and logfmt for tests that compare SQL with JavaScript: tidy ones as programs write them, and messy ones that parsers may
// read differently: truncated lines, repeated keys, other spellings of a key, escapes, numbers with several notations.

export type Choose = <T>(values: readonly T[]) => T;

const TEXTS = ["ada", "bob", "", "x y", "größe", "a\\u0062c", 'with \\"quotes\\"', "\\u003cb\\u003e", "\ufffd"];
const NUMBERS = ["1", "12", "2.5", "1.50", "1e3", "-0", "0", "-3", "9007199254740993", "18446744073709551616", "1E2", "0.000001"];
const KEYS = ["took_ms", "took_ms", "user", "level", "code", "trace_id", "n", "http_route"];
const OTHER_KEYS = [
  "took.ms",
  "took-ms",
  " took_ms",
  "took_ms ",
  "took\\u005fms",
  "",
  "user ",
  "1st",
  "took",
  "\u00a0code",
  "n_extracted",
  "http.route",
];
const ODD_VALUES = ["null", "[1,2]", '{"ms":7,"name":"nested","":3}', '{"took_ms":8}', "true", '{"user":{"name":"deep"}}'];

export function jsonLine(pick: Choose, isMessy: boolean): string {
  const members = Array.from({ length: 1 + pick([1, 2, 3, 4]) }, () => {
    const key = isMessy && pick([true, false, false]) ? pick(OTHER_KEYS) : pick(KEYS);
    const text = `"${pick(isMessy ? TEXTS : TEXTS.slice(0, 4))}"`;
    const value = isMessy ? pick([text, pick(NUMBERS), pick(ODD_VALUES)]) : pick([text, pick(NUMBERS.slice(0, 3))]);
    return `"${key}"${pick(["", " "])}:${pick(["", " "])}${value}`;
  });
  // Tidy lines repeat no key.
  const own = isMessy ? members : [...new Map(members.map((member) => [member.split(":")[0]?.trim(), member])).values()];
  const line = `{${own.join(pick([",", ", "]))}}`;
  if (!isMessy) return line;
  return pick([line, line, line, line.slice(0, -2), `${line} tail`, ` ${line}`, "", "plain text", "[1]", '"text"', "{broken", `${line}}`]);
}

const LOGFMT_VALUES = ["1", "2.5", "ada", '"x y"', '"1.50"', "5ms"];
const ODD_LOGFMT =
  'took_ms="" took_ms= took_ms "stray =5 code==7 code=a"b user="open n="a\\"b" took.ms=4 x=1=2 user\u00a0=z \u0001n=8 code="q"n=9 größe=1'.split(
    " ",
  );

export function logfmtLine(pick: Choose, isMessy: boolean): string {
  const pairs = Array.from({ length: 1 + pick([1, 2, 3, 4]) }, () =>
    isMessy && pick([true, false]) ? pick(ODD_LOGFMT) : `${pick(KEYS)}=${pick(LOGFMT_VALUES)}`,
  );
  return pairs.join(isMessy ? pick([" ", "  ", "\t", " \n"]) : " ");
}
